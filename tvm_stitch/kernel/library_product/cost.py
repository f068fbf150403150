"""What a matrix product by cuBLASLt costs: which tiles it has, and how long they take.

In: a TensorProduct and the Device. Out: microseconds. The library chooses its algorithm itself, by
heuristics that find about the best one; so does this model, among tiles and divisions of the depth.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_stitch.device import Device
from tvm_stitch.kernel.tensor_core.cost import least_bytes
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.stages.stage import element_bytes


@dataclass(frozen=True)
class LibraryTile:
    """Results that a block computes, how fast, and the cycles that each takes besides."""

    rows: int
    columns: int
    rate: float  # multiply-adds of a multiprocessor in a cycle
    besides: float


@dataclass(frozen=True)
class LibraryTiming:
    """How the library's kernels of a dtype spend their time."""

    tiles: tuple[LibraryTile, ...]
    # The depth is divided among blocks where tiles are few; partial sums go through memory and are
    # added by a kernel of their own, which takes so long.
    division_us: float = 2.0
    # Of the bandwidth of a copy, where the memory decides.
    bandwidth_share: float = 0.77
    # Lines of a matrix that begin at no multiple of 16 bytes are not copied as whole tiles.
    unaligned: float = 2.0


DIVISIONS = (1, 2, 4, 8)
ALIGNED_BYTES = 16

# cuBLAS 13 on an H200, in microseconds: fp16 4096 x 768 x 768 10.1, 4096 x 768 x 2304 24.4,
# 2048 x 4096 x 11008 247, 8192 x 8192 x 8192 1400, 300 x 4096 x 4096 20.0, 64 x 4096 x 11008 29.7.
HALVES = LibraryTiming(
    (
        LibraryTile(128, 256, 1640, 0.20),
        LibraryTile(128, 128, 1250, 0.14),
        LibraryTile(64, 128, 1080, 0.20),
        LibraryTile(64, 64, 800, 0.40),
    )
)
# fp32 4096 x 768 x 3072 437, 1024 x 512 x 2048 49.7, 64 x 1024 x 4096 20.6.
SINGLES = LibraryTiming(
    (
        LibraryTile(128, 128, 88, 1.0),
        LibraryTile(64, 128, 80, 1.0),
        LibraryTile(64, 64, 70, 1.0),
        LibraryTile(32, 64, 55, 1.0),
    )
)


def timing_of(product: TensorProduct) -> LibraryTiming:
    """The figures of a product's dtype."""
    return SINGLES if product.multiplied == "float32" else HALVES


def library_us(
    product: TensorProduct, device: Device, timing: LibraryTiming | None = None
) -> float:
    """What the library's kernel should take, its launch included."""
    timing = timing or timing_of(product)
    start = device.timing.launch_us + device.timing.block_us
    multiply = min(
        _multiply_us(product, timing, tile, parts, device)
        for tile in timing.tiles
        for parts in DIVISIONS
    )
    multiply *= 1.0 if _is_aligned(product) else timing.unaligned
    memory = least_bytes(product) / (device.bandwidth * timing.bandwidth_share) * 1e6
    return start + max(multiply, memory)


def _multiply_us(
    product: TensorProduct, timing: LibraryTiming, tile: LibraryTile, parts: int, device: Device
) -> float:
    blocks = product.entries * parts
    blocks *= -(-product.rows // tile.rows) * -(-product.columns // tile.columns)
    waves = -(-blocks // device.multiprocessors)
    depth = -(-product.contracted // parts)
    cycles = waves * tile.rows * tile.columns * (depth / tile.rate + tile.besides)
    us = cycles / device.clock * 1e6
    if parts == 1:
        return us
    partial = 2 * 4 * parts * product.entries * product.rows * product.columns
    return us + timing.division_us + partial / device.bandwidth * 1e6


def _is_aligned(product: TensorProduct) -> bool:
    """Whether lines of all three matrices begin at multiples of 16 bytes."""
    lines = [
        (product.contracted if factor.by_depth else side) * element_bytes(factor.buffer)
        for factor, side in ((product.left, product.rows), (product.right, product.columns))
    ]
    lines.append(product.columns * element_bytes(product.outputs[0]))
    return all(line % ALIGNED_BYTES == 0 for line in lines)
