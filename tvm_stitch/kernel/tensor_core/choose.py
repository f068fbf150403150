"""The tiles that suit matrix products on tensor cores, the blocks of which are one grid.

In: TensorProducts, mostly one, and a Device. Out: Tiles, or why there are none. Part of
kernel/choose.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from itertools import product as product_of
from statistics import fmean

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds
from tvm_stitch.kernel.codegen.footprint import shared_left
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.rows.legal import has_clusters
from tvm_stitch.kernel.tensor_core.cost import Sized, are_shallow, compared_us, wave_of
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.kernel.tensor_core.tiles import (
    CAPABILITY,
    HALF,
    SPLITS,
    Tiles,
    fitted_to_all,
    most_stages,
    stage_elements,
    why_illegal,
)
from tvm_stitch.stages.extents import NOMINAL, Extents, nominal
from tvm_stitch.stages.stage import Refused, as_int64

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
# product of 2048 x 4096 x 11008 bf16. What they read comes from the L2, so large tiles load least,
# and whole waves leave no multiprocessor without work: 1024 x 3072 x 768 has 96 blocks of 64 x 128,
# and 128 of 64 x 96. One side of a tile goes by groups of 64, the other by eights.
GROUPED_SIDES = (64, 128, 192)
OTHER_SIDES = (16, 32, 48, 64, 80, 96, 104, 112, 128, 144, 160, 192, 224, 256)
MOST_SWAPPED = 192  # rows of all columns: with more, what follows finds too few registers
MOST_RESULTS = 128 * 256  # more leave too few registers, or too little room for stages
MOST_BESIDE = 440  # rows and columns of blocks that are resident together, for three stages each
GROUPED_STAGES = (10, 8, 6, 4, 3)
# Blocks side by side, of which one multiplies while another stores.
GROUPED_RESIDENT = (0, 2, 3)

# A depth is divided among the blocks of a cluster if that should take so much less, and no block
# goes through fewer parts of it than so many: what the exchange takes would not come back.
LEAST_GAIN, LEAST_TURNS = 0.05, 6

# Sizes of a symbol that tiles should suit where nobody states any, by the one that is expected.
OFTEN_EXPECTED = (1 / 8, 1, 8)


def _grouped() -> Iterator[Tiles]:
    """All sizes, with as many stages as there may be."""
    for side, other, resident in product_of(GROUPED_SIDES, OTHER_SIDES, GROUPED_RESIDENT):
        if side * other > MOST_RESULTS or resident * (side + other) > MOST_BESIDE:
            continue
        most = GROUPED_STAGES[0]
        yield Tiles(side, other, 64, 16, other, most, 8, resident, True)
        if other % 64 and other <= MOST_SWAPPED:
            yield Tiles(other, side, 64, other, 16, most, 8, resident, True)


GROUPED = tuple(_grouped())
_ANY_DEPTH = frozenset(GROUPED)
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


def choose_tiles(
    products: Sequence[TensorProduct],
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    schemes: Sequence[str] = SCHEMES,
) -> Tiles | Refused:
    """The legal tiles that should be the fastest; of shallow products, those that are filled."""
    if device.capability < CAPABILITY:
        return Refused(f"{device.name} has no tensor cores for such a product")
    if are_shallow(products):
        sizes = (*(GROUPED_SHALLOW if device.warpgroups else ()), *SHALLOW)
        fitting = [fitted_to_all(products, tiles) for tiles in sizes]
        legal = [tiles for tiles in fitting if why_illegal(products, tiles, device) is None]
        filled = [tiles for tiles in legal if all(_is_filled(p, tiles) for p in products)]
        if not legal:
            return _refused(products, fitting[-1], device)
        return filled[0] if filled else legal[-1]
    # What groups of warps may multiply, they do: it takes half the time.
    for sizes in (GROUPED if device.warpgroups else (), DEEP):
        splits = SPLITS if "cluster" in schemes else SPLITS[:1]
        for tiles in fastest_first(products, sizes, device, bounds, splits):
            if why_illegal(products, tiles, device) is None:
                return tiles
    return _refused(products, fitted_to_all(products, DEEP[-1]), device)


def fastest_first(
    products: Sequence[TensorProduct],
    sizes: Sequence[Tiles],
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    splits: Sequence[int] = SPLITS,
) -> list[Tiles]:
    """Sizes of tiles, legal or not, as deep as may be, by what they should take.

    Of sizes that nobody states, by how much longer that is than what others take. Those that are
    few come also with their depth divided.
    """
    sized = [Sized.of(products, p) for p in bounds.points or any_sizes(products, bounds)]
    divided = _divided(sized, tuple(sizes), tuple(splits), device) if has_clusters(device) else ()
    fitting = [_deepest(products, tiles, device) for tiles in (*sizes, *divided)]
    if bounds.points:
        took = [fmean(compared_us(each, tiles, device) for each in sized) for tiles in fitting]
    else:
        took = _slower_than_best(sized, fitting, device)

    def weighed(number: int) -> float:
        return took[number] * (1.0 if fitting[number].splits == 1 else 1 + LEAST_GAIN)

    return [fitting[number] for number in sorted(range(len(fitting)), key=weighed)]


def _divided(
    sized: Sequence[Sized], sizes: tuple[Tiles, ...], splits: tuple[int, ...], device: Device
) -> Iterator[Tiles]:
    """Tiles whose depth several blocks share, if these all begin at once and each has enough."""
    least = min(each.depth for each in sized)
    for tiles in _shared(sizes, splits):
        if least > (LEAST_TURNS - 1) * tiles.depth * tiles.splits and all(
            each.blocks(tiles) <= wave_of(tiles, device) for each in sized
        ):
            yield tiles


@cache
def _shared(sizes: tuple[Tiles, ...], splits: tuple[int, ...]) -> tuple[Tiles, ...]:
    """Sizes with their depth divided; one block is on a multiprocessor."""
    shared = (
        replace(tiles, splits=count, min_blocks_per_sm=0)
        for tiles, count in product_of(sizes, splits)
        if count > tiles.splits == 1
    )
    return tuple(dict.fromkeys(shared))


def slower_than_fitted(
    products: Sequence[TensorProduct], tiles: Tiles, device: Device, bounds: Bounds
) -> float:
    """How much longer tiles take, where nobody states the sizes, than those that suit each size."""
    sizes = GROUPED if tiles.warpgroups else DEEP
    fitting = [tiles, *(_deepest(products, each, device) for each in sizes)]
    sized = [Sized.of(products, point) for point in any_sizes(products, bounds)]
    return _slower_than_best(sized, fitting, device)[0]


def _slower_than_best(
    sized: Sequence[Sized], fitting: Sequence[Tiles], device: Device
) -> list[float]:
    """How much longer each takes than the best of them, on average at sizes there may be."""
    took = [[compared_us(each, tiles, device) for each in sized] for tiles in fitting]
    best = list(map(min, zip(*took, strict=True)))
    return [fmean(map(operator.truediv, each, best)) for each in took]


def any_sizes(products: Sequence[TensorProduct], bounds: Bounds) -> list[Extents]:
    """Sizes of the symbols of products that their tiles should suit, if nobody states any."""
    extents = [as_int64(size) for product in products for size in product.sizes]
    symbols = {var for extent in extents for var in tirx.analysis.undefined_vars(extent)}
    if not symbols:
        return [NOMINAL]
    likely = {var.name: bounds.likely.size(var) for var in symbols}
    return [
        nominal({n: max(1, int(size * often)) for n, size in likely.items()}, dict(bounds.of))
        for often in OFTEN_EXPECTED
    ]


def _refused(products: Sequence[TensorProduct], tiles: Tiles, device: Device) -> Refused:
    return Refused(why_illegal(products, tiles, device) or "")


def _deepest(products: Sequence[TensorProduct], tiles: Tiles, device: Device) -> Tiles:
    """The same with as many stages as there is room for, of those by groups of warps."""
    if replace(tiles, splits=1) not in _ANY_DEPTH:
        return fitted_to_all(products, tiles)
    stage = HALF * max(
        stage_elements(tiles, product.left.by_depth, tiles.rows)
        + stage_elements(tiles, product.right.by_depth, tiles.columns)
        for product in products
    )
    room = shared_left(device, max(1, tiles.min_blocks_per_sm)) // stage
    stages = next((count for count in GROUPED_STAGES if count <= room), GROUPED_STAGES[-1])
    most = max(most_stages(product, tiles) for product in products)
    return replace(tiles, stages=min(stages, most))


def _is_filled(product: TensorProduct, tiles: Tiles) -> bool:
    rows, columns = (NOMINAL.size(as_int64(e)) for e in (product.rows, product.columns))
    return rows > tiles.rows // 2 and columns > tiles.columns // 2
