"""The tiles that suit a matrix product on tensor cores.

In: a TensorProduct and a Device. Out: Tiles, or why there are none. Part of kernel/choose.
"""

from __future__ import annotations

from functools import partial

from tvm_stitch.device import Device
from tvm_stitch.kernel.tensor_core.cost import SHALLOW_DEPTH, compared_us
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.kernel.tensor_core.tiles import CAPABILITY, Tiles, fitted, tile_reasons
from tvm_stitch.stages.stage import Refused

# Of deep products the multiplying takes the time: large tiles load each factor least often, smaller
# ones leave fewer multiprocessors without work at the end. Measured on an H200 (bench/results).
DEEP = (
    Tiles(128, 128, 32, 64, 64, 4, min_blocks_per_sm=2),
    Tiles(96, 128, 64, 48, 64, 3, min_blocks_per_sm=2),
    Tiles(64, 128, 32, 32, 32, 4),
    Tiles(64, 64, 64, 32, 32, 3),
    Tiles(32, 64, 64, 16, 32, 3),
)
# Where four warps may multiply together, that takes half the time: 268 us instead of 537 for a
# product of 2048 x 4096 x 11008 bf16, 12.1 instead of 19.9 for 4096 x 768 x 768 fp16. Blocks that
# are alone on their multiprocessor need more on its way: 512 x 3072 x 768 takes 10.4 us with eight
# stages, 20.7 with four.
GROUPED = (
    Tiles(128, 256, 64, 16, 256, 4, warpgroups=True),
    Tiles(128, 128, 64, 16, 128, 3, min_blocks_per_sm=2, warpgroups=True),
    Tiles(64, 128, 64, 16, 128, 4, min_blocks_per_sm=2, warpgroups=True),
    Tiles(64, 128, 64, 16, 128, 6, warpgroups=True),
    Tiles(64, 64, 64, 16, 64, 4, min_blocks_per_sm=3, warpgroups=True),
    Tiles(64, 64, 64, 16, 64, 8, warpgroups=True),
)
# Of shallow ones the memory does: many blocks side by side, of which some load while others store.
# 96 products of 512 x 64 x 512 bf16 take 22.4 us by the first, 24.3 to 27.1 by tiles of 128 x 128.
SHALLOW = (
    Tiles(64, 128, 64, 32, 64, 3, min_blocks_per_sm=5),
    Tiles(128, 64, 64, 64, 32, 3),
    Tiles(32, 64, 64, 16, 32, 3),
)
# By groups of warps 20.4, and 39.7 us instead of 46.7 for 8192 x 64 x 4096 with GELU.
GROUPED_SHALLOW = (
    Tiles(64, 128, 64, 16, 128, 3, warpgroups=True),
    Tiles(64, 64, 64, 16, 64, 3, warpgroups=True),
)


def choose_tiles(product: TensorProduct, device: Device) -> Tiles | Refused:
    """The legal tiles that should be the fastest; of shallow products, those that are filled."""
    if device.capability < CAPABILITY:
        return Refused(f"{device.name} has no tensor cores for such a product")
    shallow = product.contracted <= SHALLOW_DEPTH
    sizes = (*GROUPED_SHALLOW, *SHALLOW) if shallow else (*GROUPED, *DEEP)
    fitting = [fitted(product, tiles) for tiles in sizes]
    legal = [tiles for tiles in fitting if next(tile_reasons(product, tiles, device), None) is None]
    if not legal:
        return Refused(next(tile_reasons(product, fitting[-1], device)))
    if shallow:
        filled = [tiles for tiles in legal if _is_filled(product, tiles)]
        return filled[0] if filled else legal[-1]
    return min(legal, key=partial(compared_us, product, device=device))


def _is_filled(product: TensorProduct, tiles: Tiles) -> bool:
    return product.rows > tiles.rows // 2 and product.columns > tiles.columns // 2
