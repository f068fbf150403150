"""What a matrix product on tensor cores costs: the part of the cost model that knows of them.

In: a TensorProduct, its Tiles and the Device. Out: bytes and microseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.profile import instructions
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.kernel.tensor_core.tiles import Tiles, blocks_of
from tvm_stitch.stages.extents import NOMINAL, Extents
from tvm_stitch.stages.stage import as_int64

# Multiply-adds of a multiprocessor in a cycle, by rows and columns of a tile: 2048 x 4096 x 11008
# bf16 takes 548, 600, 730 and 965 us on an H200 by the first four.
MULTIPLY_ADDS = {(128, 128): 680, (96, 128): 636, (64, 128): 487, (64, 64): 369, (32, 64): 200}
OTHER_TILES = 369
# Of shallow products the memory decides, and what a block waits for: 96 products of 512 x 64 x 512
# bf16 take 22.4 us, where the multiply-adds of their tiles would take 13.6. How many blocks are
# resident makes no difference to that.
SHALLOW_DEPTH = 128
SHALLOW_WAITS = 1.65
# The same by groups of four warps, with the blocks that are resident together; and the cycles that
# a result takes besides, while its block waits for the first it multiplies and stores what it has
# summed up. Fitted to products of 512 to 4096 rows, 768 to 11008 deep.
GROUPED = {
    (128, 256, 0): (1600, 0.22),
    (128, 128, 2): (1150, 0.12),
    (64, 128, 2): (1080, 0.18),
    (64, 128, 0): (1080, 0.28),
    (64, 64, 3): (850, 0.32),
    (64, 64, 0): (800, 0.56),
}
# The share of the bandwidth that deep products reach which load more than they multiply, in fp16 on
# an H200 (bench/products/h200.json): 16 x 4096 x 11008 takes 32 us and 128 x 4096 x 11008 42, where
# a copy of as much takes 22; 64 x 4096 x 4096 17.6, a copy 8.
DEEP_BANDWIDTH_SHARE = 0.6
# How much longer a product takes whose factors have so few neighbours in memory for an access: of
# 192 heads, 197 x 64 x 197 takes 32.6 us by columns of 197 halves, 13 by lines of 64;
# 3152 x 768 x 30522 503 us where 431 were predicted.
NARROW = {1: 2.6, 2: 1.15}

# What is computed of results goes on beside the products of other blocks, but for this share of
# the time that it takes by itself: fp16 4096 x 768 x 3072 takes 35.0 us on an H200, with bias and
# GELU by tanh 36.6, by erf 39.2; 3152 x 768 x 3072 34.8, with a GELU by erf 42.3.
NOT_HIDDEN = 0.5
LANES, SPECIAL_LANES = 128, 16  # of a multiprocessor: operations and functions in a cycle


def least_bytes(product: TensorProduct, extents: Extents = NOMINAL) -> int:
    """Each input read once, each output written once; what blocks read again is in the L2."""
    return sum(map(extents.bytes, product.buffers))


def mean_us(
    product: TensorProduct, tiles: Tiles, device: Device, points: Sequence[Extents] = ()
) -> float:
    """What the kernel should take on average at some sizes of symbols."""
    return fmean(predicted_us(product, tiles, device, point) for point in points or (NOMINAL,))


def mean_compared_us(
    product: TensorProduct, tiles: Tiles, device: Device, points: Sequence[Extents] = ()
) -> float:
    """The same as far as tiles differ in it."""
    return fmean(compared_us(product, tiles, device, point) for point in points or (NOMINAL,))


def predicted_us(
    product: TensorProduct, tiles: Tiles, device: Device, extents: Extents = NOMINAL
) -> float:
    """What the kernel should take, its launch included."""
    start = device.timing.launch_us + device.timing.block_us
    found = compared_us(product, tiles, device, extents) - start
    if not _is_shallow(_depth(product, extents), tiles):
        share = device.bandwidth * DEEP_BANDWIDTH_SHARE
        found = max(found, least_bytes(product, extents) / share * 1e6)
    narrow = min(product.left.vector, product.right.vector)
    return start + NARROW.get(narrow, 1.0) * found + _ending_us(product, device, extents)


def _ending_us(product: TensorProduct, device: Device, extents: Extents) -> float:
    """What is computed of results, as far as nothing that is multiplied hides it."""
    results = extents.size(as_int64(product.entries * product.rows * product.columns))
    found = [instructions(stage) for stage in product.after]
    cycles = sum(plain / LANES + special / SPECIAL_LANES for plain, special in found)
    return NOT_HIDDEN * cycles * results / (device.multiprocessors * device.clock) * 1e6


def compared_us(
    product: TensorProduct, tiles: Tiles, device: Device, extents: Extents = NOMINAL
) -> float:
    """The same as far as tiles differ in it: the slower of arithmetic and memory, and a launch."""
    depth = _depth(product, extents)
    shallow = _is_shallow(depth, tiles)
    together = 1 if shallow else max(1, tiles.min_blocks_per_sm)
    blocks = extents.size(as_int64(blocks_of(product, tiles)))
    iterations = together * -(-blocks // (together * device.multiprocessors))
    each = tiles.rows * tiles.columns * _result_cycles(depth, tiles, shallow)
    multiply = iterations * each / device.clock * 1e6
    memory = least_bytes(product, extents) / device.bandwidth * 1e6
    return device.timing.launch_us + device.timing.block_us + max(multiply, memory)


def _depth(product: TensorProduct, extents: Extents) -> int:
    return extents.size(as_int64(product.contracted))


def _is_shallow(depth: int, tiles: Tiles) -> bool:
    return depth <= SHALLOW_DEPTH and not tiles.warpgroups


def _result_cycles(depth: int, tiles: Tiles, shallow: bool) -> float:
    """Cycles of a multiprocessor for a result."""
    if tiles.warpgroups:
        rate, besides = GROUPED.get(
            (tiles.rows, tiles.columns, tiles.min_blocks_per_sm), (OTHER_TILES, 0)
        )
        return depth / rate + besides
    waits = SHALLOW_WAITS if shallow else 1.0
    rate = MULTIPLY_ADDS.get((tiles.rows, tiles.columns), OTHER_TILES)
    return waits * depth / rate
