"""What a matrix product by cuBLASLt costs: which tiles it has, and how long they take.

In: a TensorProduct and the Device. Out: microseconds. The library chooses its algorithm itself, by
heuristics that find about the best one; so does this model, among tiles and divisions of the depth.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.contiguity import Extent
from tvm_stitch.kernel.library_product.epilogue import GELU, LibraryEpilogue
from tvm_stitch.kernel.library_product.matrices import step_along
from tvm_stitch.kernel.tensor_core.cost import least_bytes
from tvm_stitch.kernel.tensor_core.program import DEPTH, Factor, TensorProduct
from tvm_stitch.stages.extents import NOMINAL, Extents
from tvm_stitch.stages.memoized import remembered
from tvm_stitch.stages.stage import as_int64, element_bytes


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
    start_us: float  # more than a kernel of this package takes to start and to end
    # The depth is divided among blocks where tiles are few; partial sums go through memory and are
    # added by a kernel of their own, which takes so long.
    division_us: float
    # Of the bandwidth of a copy, where the memory decides.
    bandwidth_share: float
    # Lines of a matrix that begin at no multiple of 16 bytes are not copied as whole tiles.
    unaligned: float
    divides_batches: bool = True  # whether the depth of several matrices is divided, too


DIVISIONS = (1, 2, 3, 4, 8)
# What the library's kernels take longer for what they end with: anything at all, and the cycles of
# a multiprocessor for each result. Of 4096 x 768 x 3072 halves a bias takes 0.9 us on an H200, with
# a GELU 4.8, and a residual 6.6, as long as its bytes take; of a quarter of the results 0, 1.0 and
# 1.3; a GELU of 1024 x 768 x 3072 in float32 7.7 (bench/products/h200.json).
ENDING_US, BIAS_CYCLES = 0.1, 0.0118
GELU_CYCLES, GELU_CYCLES_SINGLE = 0.078, 0.6
ALIGNED_BYTES = 16

# Fitted to cuBLAS 13 on an H200 (bench/products/h200.json, `python -m bench.products --fit`): half
# of the products of halves are predicted to 4 %, half of those of float32 to 4 %.
HALVES = LibraryTiming(
    (
        LibraryTile(128, 256, 1610, 0.14),
        LibraryTile(256, 128, 1680, 0.16),
        LibraryTile(128, 192, 1540, 0.13),
        LibraryTile(192, 128, 1500, 0.10),
        LibraryTile(256, 144, 1680, 0.08),
        LibraryTile(128, 144, 1600, 0.14),
        LibraryTile(144, 128, 1620, 0.13),
        LibraryTile(256, 96, 1570, 0.17),
        LibraryTile(128, 96, 1510, 0.33),
        LibraryTile(128, 128, 1720, 0.19),
        LibraryTile(64, 256, 1200, 0.23),
        LibraryTile(64, 128, 1200, 0.20),
        LibraryTile(64, 64, 1210, 0.40),
    ),
    start_us=2.0,
    division_us=2.5,
    bandwidth_share=0.74,
    unaligned=3.7,
)
# Where a residual is added, tiles of 144 are not chosen: 6272 x 1280 x 320 takes 17.1 us on an H200
# for 14.4 without, 3152 x 3072 x 768 29.7 for 22.9, of which its bytes explain 1.
ADDING = replace(
    HALVES, tiles=tuple(tile for tile in HALVES.tiles if 144 not in (tile.rows, tile.columns))
)
SINGLES = LibraryTiming(
    (
        LibraryTile(128, 128, 104, 0.60),
        LibraryTile(64, 128, 85, 0.54),
        LibraryTile(64, 64, 66, 0.76),
        LibraryTile(32, 64, 38, 1.0),
    ),
    start_us=0.6,
    division_us=3.3,
    bandwidth_share=0.77,
    unaligned=1.0,
    divides_batches=False,
)
# Of float32 whose factors are rounded to TF32. Fitted to 43 products on an H200 as PyTorch calls
# cuBLAS (2026-11-30): tiles as of halves, their rates and besides by a factor; half of the products
# are predicted to 8 %.
ROUNDED = LibraryTiming(
    tuple(
        replace(tile, rate=0.38 * tile.rate, besides=0.43 * tile.besides) for tile in HALVES.tiles
    ),
    start_us=4.4,
    division_us=0.6,
    bandwidth_share=0.82,
    unaligned=2.0,
)


def timing_of(product: TensorProduct, tf32: bool = False, adds: bool = False) -> LibraryTiming:
    """The figures of a product's dtype, by TF32, or to which a residual is added."""
    if product.multiplied != "float32":
        return ADDING if adds else HALVES
    return ROUNDED if tf32 else SINGLES


@dataclass(frozen=True)
class Sizes:
    """A product's sizes where its symbols have some."""

    rows: int
    columns: int
    contracted: int
    entries: int

    @staticmethod
    def of(product: TensorProduct, extents: Extents) -> Sizes:
        """The sizes of a product."""
        return Sizes(*product.sizes_at(extents))

    @property
    def results(self) -> int:
        """How many numbers it comes to."""
        return self.entries * self.rows * self.columns


def library_us(
    product: TensorProduct,
    device: Device,
    timing: LibraryTiming | None = None,
    extents: Extents = NOMINAL,
) -> float:
    """What the library's kernel should take, its launch included."""
    timing, sizes = timing or timing_of(product), Sizes.of(product, extents)
    start = device.timing.launch_us + device.timing.block_us + timing.start_us
    divisions = DIVISIONS if sizes.entries == 1 or timing.divides_batches else (1,)
    multiply = min(
        _multiply_us(sizes, timing, tile, parts, device)
        for tile in timing.tiles
        for parts in divisions
    )
    multiply *= 1.0 if _is_aligned(product, extents) else timing.unaligned
    memory = least_bytes((product,), extents) / (device.bandwidth * timing.bandwidth_share) * 1e6
    return start + max(multiply, memory)


def ending_us(
    product: TensorProduct, epilogue: LibraryEpilogue, device: Device, extents: Extents = NOMINAL
) -> float:
    """What the library's kernel takes longer for what it ends with."""
    if not str(epilogue):
        return 0.0
    cycles = 0.0 if epilogue.bias is None else BIAS_CYCLES
    if epilogue.activation == GELU:
        is_single = timing_of(product) is SINGLES
        cycles += GELU_CYCLES_SINGLE if is_single else GELU_CYCLES
    results = Sizes.of(product, extents).results
    found = ENDING_US + results * cycles / (device.multiprocessors * device.clock) * 1e6
    if epilogue.residual is not None:
        found += extents.bytes(epilogue.residual) / device.bandwidth * 1e6
    return found


def _multiply_us(
    sizes: Sizes, timing: LibraryTiming, tile: LibraryTile, parts: int, device: Device
) -> float:
    blocks = sizes.entries * parts
    blocks *= -(-sizes.rows // tile.rows) * -(-sizes.columns // tile.columns)
    waves = -(-blocks // device.multiprocessors)
    depth = -(-sizes.contracted // parts)
    cycles = waves * tile.rows * tile.columns * (depth / tile.rate + tile.besides)
    us = cycles / device.clock * 1e6
    if parts == 1:
        return us
    partial = 2 * 4 * parts * sizes.results
    return us + timing.division_us + partial / device.bandwidth * 1e6


def _is_aligned(product: TensorProduct, extents: Extents) -> bool:
    """Whether lines of all three matrices begin at multiples of 16 bytes."""
    factors = (product.left, product.right)
    lines = [_line(product, each, extents) * element_bytes(each.buffer) for each in factors]
    columns = extents.size(as_int64(product.columns))
    lines.append(columns * element_bytes(product.outputs[0]))
    return all(line % ALIGNED_BYTES == 0 for line in lines)


def _line(product: TensorProduct, factor: Factor, extents: Extents) -> int:
    """Elements from one line of a factor in memory to the next; of one line, its length."""
    along = (DEPTH, factor.side)

    def found() -> tuple[Extent, ...]:
        return tuple(step_along(factor, var, 1) for var in along)

    steps = remembered(product.stage, (_line, factor), found)
    known = [0 if step == 0 else extents.size(as_int64(step)) for step in steps]
    lengths = (extents.size(as_int64(factor.extents[var])) for var in along)
    return max(known) if all(known) else max(lengths)
