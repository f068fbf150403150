"""Tiles of a matrix product on tensor cores: plain data, what they take, what makes them legal.

In: a TensorProduct, Tiles and a Device. Out: counts, footprint and reasons.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields, replace

from tvm_stitch.device import Device
from tvm_stitch.json_data import checked, count, parsed, positive
from tvm_stitch.kernel.analysis.contiguity import Extent, parts_of
from tvm_stitch.kernel.codegen.footprint import (
    SUM_BYTES,
    Footprint,
    registers_left,
    too_many_threads,
    too_much_shared,
)
from tvm_stitch.kernel.ir.mapping import MAX_BLOCK_THREADS, WARP
from tvm_stitch.kernel.rows.legal import has_clusters
from tvm_stitch.kernel.tensor_core.program import WIDEST, TensorProduct
from tvm_stitch.kernel.tensor_core.ragged import row_tiles
from tvm_stitch.stages.stage import element_bytes

# The first with tensor cores for both kinds of halves, 16 deep, and with asynchronous copies.
CAPABILITY = 80
FRAGMENT_ROWS, FRAGMENT_COLUMNS, FRAGMENT_DEPTH = 16, 16, 16  # what a warp loads and multiplies
# Between the lines of a tile, so that eight lines of a fragment come from different banks.
PADDING = 8
# By a warpgroup: 64 rows in lines of 64 halves, chunks of which it looks for in swizzled order.
GROUP_ROWS, LINE, MOST_COLUMNS = 64, 64, 256
ORDERED_LINES = 8  # lines whose orders of chunks differ; so many columns an instruction may add
MOST_SPLITS = 8  # blocks of a cluster, of as many as any GPU with clusters has
SPLITS = (1, 2, 4, MOST_SPLITS)
HALF = 2  # bytes
UNKNOWN_STAGES = 1 << 16  # more than any tiles have
ON_TENSOR_CORES = "on tensor cores"  # as a report tells such kernels from others
RESERVED_REGISTERS = 56  # of a thread, besides what it adds up and multiplies


@dataclass(frozen=True)
class Tiles:
    """A block computes `rows` by `columns` results, each warp some of them, `depth` at a time.

    So many `stages` of both factors are in shared memory: copies of the next are on their way while
    one is multiplied. Neighbouring blocks walk through `group` tiles of rows before they go on to
    the next tile of columns, so that what they read is still in the L2.

    With `warpgroups`, four warps multiply together: their instructions take both factors from
    shared memory, and go on while the warps do something else. An instruction takes 64 of one side
    by up to 256 of the other: warps have 16 rows of all columns, or, where the factors are swapped,
    16 columns of all rows.

    Where tiles are few, `splits` blocks share the depth of each: a cluster, whose blocks take turns
    of `depth`, then read each other's sums, and each goes on with rows of its own.
    """

    rows: int
    columns: int
    depth: int
    warp_rows: int
    warp_columns: int
    stages: int
    group: int = 8
    # Blocks that a multiprocessor must have room for; 0: as the compiler likes.
    min_blocks_per_sm: int = 0
    warpgroups: bool = False
    splits: int = 1

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return WARP * (self.rows // self.warp_rows) * (self.columns // self.warp_columns)

    @property
    def accumulators(self) -> int:
        """Results that a thread adds up."""
        return self.warp_rows * self.warp_columns // WARP

    @property
    def swapped(self) -> bool:
        """Whether groups of warps divide the columns: they compute the transposed product."""
        return (
            self.warpgroups
            and (self.warp_rows, self.warp_columns)
            == (
                self.rows,
                FRAGMENT_ROWS,
            )
            and self.columns % GROUP_ROWS == 0
        )

    @property
    def sides(self) -> tuple[int, int]:
        """What groups of warps divide, and what each of them has whole: rows and columns."""
        return (self.columns, self.rows) if self.swapped else (self.rows, self.columns)

    @property
    def multiplied(self) -> int:
        """Stages that nothing is copied to: groups of warps begin one before the last is done."""
        return 2 if self.warpgroups else 1

    @property
    def pitch(self) -> int:
        """Elements of a line of results in shared memory."""
        return self.columns + PADDING

    def __str__(self) -> str:
        """One line for people."""
        split = f", each by a cluster of {self.splits} blocks" if self.splits > 1 else ""
        return (
            f"tiles of {self.rows} x {self.columns} results by {self.threads // WARP} warps "
            f"{'in groups ' if self.warpgroups else ''}{ON_TENSOR_CORES}, {self.depth} deep, "
            f"{self.stages} in shared memory{split}"
        )

    def to_json(self) -> str:
        """The tiles as a JSON object."""
        return json.dumps(asdict(self), sort_keys=True)

    @staticmethod
    def from_json(text: str) -> Tiles:
        """Read what to_json wrote; refuse unknown or missing fields and wrong types."""
        counts = dict.fromkeys((f.name for f in fields(Tiles) if str(f.type) == "int"), positive)
        readers = {**counts, "min_blocks_per_sm": count}
        return checked(Tiles, parsed(text, "tiles"), "tiles", readers)


def fitted(product: TensorProduct, tiles: Tiles) -> Tiles:
    """The same with no more stages than there are."""
    return replace(tiles, stages=min(tiles.stages, most_stages(product, tiles)))


def fitted_to_all(products: Sequence[TensorProduct], tiles: Tiles) -> Tiles:
    """The same for products in one kernel, of which the deepest has the most stages."""
    return max((fitted(product, tiles) for product in products), key=lambda own: own.stages)


def iterations_of(product: TensorProduct, tiles: Tiles) -> Extent:
    """How often a block goes on along the depth; beyond its end, factors count as 0."""
    return parts_of(product.contracted, tiles.depth * tiles.splits)


def most_stages(product: TensorProduct, tiles: Tiles) -> int:
    """As many as there can be: a depth that run time tells has more than any tiles."""
    iterations = iterations_of(product, tiles)
    return iterations if isinstance(iterations, int) else UNKNOWN_STAGES


def ahead_of(product: TensorProduct, tiles: Tiles) -> int:
    """Stages that are copied before the first is multiplied, and ahead of every later one."""
    most = most_stages(product, tiles)
    return most if tiles.stages >= most else tiles.stages - tiles.multiplied


def blocks_of(product: TensorProduct, tiles: Tiles) -> Extent:
    """Blocks of the grid."""
    return tiles_of(product, tiles) * tiles.splits


def tiles_of(product: TensorProduct, tiles: Tiles) -> Extent:
    """Tiles of all entries."""
    across, along = pieces(product, tiles)
    return product.entries * across * along


def pieces(product: TensorProduct, tiles: Tiles) -> tuple[Extent, Extent]:
    """Tiles along the rows and along the columns of an entry."""
    return row_tiles(product, tiles.rows), parts_of(product.columns, tiles.columns)


def stage_elements(tiles: Tiles, by_depth: bool, side: int) -> int:
    """Elements of a stage of one factor, which has so many rows or columns in a block."""
    if tiles.warpgroups:
        # Whole pieces: the order of chunks goes by address, and repeats every eight lines.
        whole = ORDERED_LINES if by_depth else LINE
        return -(-side // whole) * whole * tiles.depth
    fast, slow = (tiles.depth, side) if by_depth else (side, tiles.depth)
    return slow * (fast + PADDING)


def footprint(product: TensorProduct, tiles: Tiles) -> Footprint:
    """What a block takes: stages of both factors, then, in the same place, the results."""
    left = stage_elements(tiles, product.left.by_depth, tiles.rows)
    right = stage_elements(tiles, product.right.by_depth, tiles.columns)
    each = SUM_BYTES if tiles.splits > 1 else element_bytes(product.result)
    results = tiles.rows * tiles.pitch * each
    fragments = (tiles.warp_rows // FRAGMENT_ROWS + tiles.warp_columns // FRAGMENT_COLUMNS) * 4
    held = tiles.accumulators + (0 if tiles.warpgroups else fragments)
    shared = max(tiles.stages * (left + right) * HALF, results)
    return Footprint(tiles.threads, held + RESERVED_REGISTERS, shared)


def spare_registers(tiles: Tiles) -> int:
    """Registers of a thread that a multiprocessor has beside what multiplies and adds up."""
    most = registers_left(tiles.threads * max(1, tiles.min_blocks_per_sm))
    return most - tiles.accumulators - RESERVED_REGISTERS


def tile_reasons(product: TensorProduct, tiles: Tiles, device: Device) -> Iterator[str]:
    """Why tiles are not legal."""
    least = ORDERED_LINES if tiles.warpgroups else FRAGMENT_ROWS
    if tiles.warp_rows % least or tiles.warp_columns % least:
        yield f"a warp of {tiles.warp_rows} x {tiles.warp_columns} results"
        return
    if tiles.rows % tiles.warp_rows or tiles.columns % tiles.warp_columns:
        yield "tiles that warps do not divide"
    fewest = min(1 + tiles.multiplied, most_stages(product, tiles))
    if tiles.depth % FRAGMENT_DEPTH or tiles.stages < fewest:
        yield f"{tiles.stages} stages, {tiles.depth} deep"
    if tiles.warpgroups:
        yield from _group_reasons(product, tiles, device)
    if tiles.splits > 1 and not has_clusters(device):
        yield f"clusters, which {device.name} does not have"
    if product.ragged is not None and not product.left.by_depth:
        yield "rows of a ragged product that lie across memory"
    if product.ragged is not None and tiles.splits > 1:
        yield "a ragged product whose depth blocks would share"
    if tiles.splits not in SPLITS or tiles.rows % tiles.splits:
        yield f"rows that {tiles.splits} blocks do not share"
    if tiles.threads > MAX_BLOCK_THREADS:
        yield f"a block of {tiles.threads} threads"
    needed = footprint(product, tiles)
    if needed.registers > registers_left(tiles.threads):
        yield f"{needed.registers} registers of each of {tiles.threads} threads"
    yield from too_much_shared("stages need", needed.shared, device)
    yield from too_many_threads(tiles.min_blocks_per_sm, tiles.threads, device)


def why_illegal(products: Sequence[TensorProduct], tiles: Tiles, device: Device) -> str | None:
    """The first reason why tiles are not legal for products in one kernel; None: they are."""
    reasons = (reason for product in products for reason in tile_reasons(product, tiles, device))
    return next(reasons, None)


def _group_reasons(product: TensorProduct, tiles: Tiles, device: Device) -> Iterator[str]:
    if not device.warpgroups:
        yield f"{device.name} has no instructions of four warps, or code for it may not use them"
    divided, whole = tiles.sides
    own = tiles.warp_columns if tiles.swapped else tiles.warp_rows
    if divided % GROUP_ROWS or own != FRAGMENT_ROWS or tiles.depth != LINE:
        yield "rows or a depth that groups of four warps do not multiply"
    if not isinstance(product.contracted, int):
        yield "a depth that run time tells, which may be 0: groups of warps begin with a product"
    if whole not in (tiles.warp_rows, tiles.warp_columns) or whole > MOST_COLUMNS:
        yield "columns that a group of four warps does not multiply at once"
    if min(product.left.vector, product.right.vector) < WIDEST:
        yield "factors whose neighbours in memory are too few for lines of 128 bytes"
