"""What a matrix product on tensor cores costs: the part of the cost model that knows of them.

In: a TensorProduct, its Tiles and the Device. Out: bytes and microseconds.
"""

from __future__ import annotations

from tvm_stitch.device import Device
from tvm_stitch.kernel.cost import tensor_bytes
from tvm_stitch.kernel.tensor_product import TensorProduct
from tvm_stitch.kernel.tensor_tiles import Tiles, blocks_of

# Multiply-adds of a multiprocessor in a cycle, by rows and columns of a tile: 2048 x 4096 x 11008
# bf16 takes 548, 600, 730 and 965 us on an H200 by the first four.
MULTIPLY_ADDS = {(128, 128): 680, (96, 128): 636, (64, 128): 487, (64, 64): 369, (32, 64): 200}
OTHER_TILES = 369
# The same by groups of four warps: 268, 346, 346 and 448 us. A result takes so many cycles besides,
# while its block loads what it multiplies first and stores what it has summed up.
GROUPED_MULTIPLY_ADDS = {(128, 256): 1600, (128, 128): 1150, (64, 128): 1080, (64, 64): 850}
GROUPED_RESULT = {(128, 256): 0.22, (128, 128): 0.12, (64, 128): 0.18, (64, 64): 0.32}


def least_bytes(product: TensorProduct) -> int:
    """Each input read once, each output written once; what blocks read again is in the L2."""
    return sum(tensor_bytes(buffer) or 0 for buffer in (*product.inputs, *product.outputs))


def predicted_us(product: TensorProduct, tiles: Tiles, device: Device) -> float:
    """What the kernel should take: the slower of arithmetic and memory, and a launch."""
    blocks = blocks_of(product, tiles)
    turns = -(-blocks // device.multiprocessors)
    each = tiles.rows * tiles.columns * _result_cycles(product, tiles)
    multiply = turns * each / device.clock * 1e6
    memory = least_bytes(product) / device.bandwidth * 1e6
    return device.timing.launch_us + device.timing.block_us + max(multiply, memory)


def _result_cycles(product: TensorProduct, tiles: Tiles) -> float:
    """Cycles of a multiprocessor for a result."""
    size = tiles.rows, tiles.columns
    if tiles.warpgroups:
        rate = GROUPED_MULTIPLY_ADDS.get(size, OTHER_TILES)
        return product.contracted / rate + GROUPED_RESULT.get(size, 0)
    return product.contracted / MULTIPLY_ADDS.get(size, OTHER_TILES)
