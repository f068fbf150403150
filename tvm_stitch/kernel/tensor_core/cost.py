"""What a matrix product on tensor cores costs: the part of the cost model that knows of them.

In: a TensorProduct, its Tiles and the Device. Out: bytes and microseconds.
"""

from __future__ import annotations

from tvm_stitch.device import Device
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.kernel.tensor_core.tiles import Tiles, blocks_of
from tvm_stitch.stages.extents import NOMINAL

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


def least_bytes(product: TensorProduct) -> int:
    """Each input read once, each output written once; what blocks read again is in the L2."""
    return sum(NOMINAL.bytes(buffer) for buffer in (*product.inputs, *product.outputs))


def predicted_us(product: TensorProduct, tiles: Tiles, device: Device) -> float:
    """What the kernel should take, its launch included."""
    start = device.timing.launch_us + device.timing.block_us
    found = compared_us(product, tiles, device) - start
    if not _is_shallow(product, tiles):
        share = device.bandwidth * DEEP_BANDWIDTH_SHARE
        found = max(found, least_bytes(product) / share * 1e6)
    narrow = min(product.left.vector, product.right.vector)
    return start + NARROW.get(narrow, 1.0) * found


def compared_us(product: TensorProduct, tiles: Tiles, device: Device) -> float:
    """The same as far as tiles differ in it: the slower of arithmetic and memory, and a launch."""
    together = 1 if _is_shallow(product, tiles) else max(1, tiles.min_blocks_per_sm)
    iterations = together * -(-blocks_of(product, tiles) // (together * device.multiprocessors))
    each = tiles.rows * tiles.columns * _result_cycles(product, tiles)
    multiply = iterations * each / device.clock * 1e6
    memory = least_bytes(product) / device.bandwidth * 1e6
    return device.timing.launch_us + device.timing.block_us + max(multiply, memory)


def _result_cycles(product: TensorProduct, tiles: Tiles) -> float:
    """Cycles of a multiprocessor for a result."""
    if tiles.warpgroups:
        rate, besides = GROUPED.get(
            (tiles.rows, tiles.columns, tiles.min_blocks_per_sm), (OTHER_TILES, 0)
        )
        return product.contracted / rate + besides
    waits = SHALLOW_WAITS if _is_shallow(product, tiles) else 1.0
    rate = MULTIPLY_ADDS.get((tiles.rows, tiles.columns), OTHER_TILES)
    return waits * product.contracted / rate


def _is_shallow(product: TensorProduct, tiles: Tiles) -> bool:
    return product.contracted <= SHALLOW_DEPTH and not tiles.warpgroups
