"""How a product of few rows is divided among blocks, warps and lanes: plain data, and its choice.

In: TensorProducts of few rows and a Device. Out: SkinnyTiles.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields, replace

from tvm_stitch.device import Device
from tvm_stitch.json_data import checked, parsed, positive
from tvm_stitch.kernel.codegen.footprint import STATIC_SHARED, SUM_BYTES, Footprint
from tvm_stitch.kernel.ir.mapping import WARP
from tvm_stitch.kernel.skinny_matmul.program import rows_of, sizes_of
from tvm_stitch.kernel.tensor_core.mma import MATRIX, SUMS
from tvm_stitch.kernel.tensor_core.program import WIDEST, TensorProduct
from tvm_stitch.kernel.tensor_core.ragged import expected_tiles, filled_groups, row_tiles
from tvm_stitch.stages.extents import NOMINAL

FRAGMENT = 16  # columns, or elements of the depth, of an instruction's weights
CHUNK = 32  # of the depth: what four lanes load of a line, 16 bytes each
GROUPS = 8  # of four lanes
LINE_PADDING = 4  # sums between lines in shared memory, so that lanes write to different banks
WARPS, MOST_WARPS = 8, 16
# Measured on an H200 (bench/results/h200/skinny.md): of 3072 x 768, whose 48 blocks leave most
# multiprocessors without one, 16 warps take 4.4 us and 8 warps 4.7, of 768 x 768 2.2 and 2.7; of
# 4096 x 4096 it is 14.7 and 13.5.
SHALLOW = 2048  # elements of the depth: a warp of 16 has no more than one long step
LONG, SHORT = 4, 2  # chunks of a step
RESERVED_REGISTERS = 22  # of a thread, besides what it loads and adds up
# Where columns lie along memory: 32 of a block, while that leaves most multiprocessors one.
ACROSS_COLUMNS, ACROSS_CHUNKS, MOST_IDLE = 32, 1, 1 / 4


@dataclass(frozen=True)
class SkinnyTiles:
    """A block computes all rows of `columns` results; its `warps` share the depth.

    Each has `chunks` of 32 elements of the depth on their way at once. What they come to is added
    up through shared memory, in the order of the warps.
    """

    columns: int
    warps: int
    chunks: int

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return WARP * self.warps

    @property
    def step(self) -> int:
        """Elements of the depth that a warp loads before it multiplies."""
        return self.chunks * CHUNK

    @property
    def pitch(self) -> int:
        """Sums from a row to the next in shared memory."""
        return self.columns + LINE_PADDING

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"{self.columns} columns of all rows a block, the depth shared by {self.warps} warps, "
            f"each {self.step} deep at a time"
        )


def tiles_to_json(tiles: Sequence[SkinnyTiles]) -> str:
    """The tiles of all parts of a kernel as a JSON list."""
    return json.dumps([asdict(each) for each in tiles], sort_keys=True)


def tiles_from_json(text: str) -> tuple[SkinnyTiles, ...]:
    """Read what tiles_to_json wrote; refuse unknown or missing fields and wrong types."""
    readers = dict.fromkeys((field.name for field in fields(SkinnyTiles)), positive)
    return tuple(checked(SkinnyTiles, each, "tiles", readers) for each in parsed(text, "tiles"))


@dataclass(frozen=True)
class Fragments:
    """Registers of a lane: sums, and pairs of halves of the rows and of one matrix's weights of a
    chunk."""

    sums: int
    weights: int
    rows: int


def fragments_of(product: TensorProduct, tiles: SkinnyTiles) -> Fragments:
    """What a lane adds up and loads."""
    heights, width = padded_rows(product) // MATRIX, tiles.columns // GROUPS
    sums = heights if product.right.by_depth else width
    return Fragments(SUMS * sums, WIDEST * width // 2, WIDEST * heights // 2)


def padded_rows(product: TensorProduct) -> int:
    """Rows that tensor cores compute: whole matrices of them."""
    return -(-rows_of(product) // MATRIX) * MATRIX


def footprint(product: TensorProduct, tiles: SkinnyTiles) -> Footprint:
    """What a block takes: the step that is multiplied, the one that is on its way, and the sums."""
    own, matrices = fragments_of(product, tiles), len(product.all)
    loaded = tiles.chunks * (matrices * own.weights + own.rows)
    registers = 2 * loaded + matrices * own.sums + RESERVED_REGISTERS
    shared = matrices * tiles.warps * padded_rows(product) * tiles.pitch * SUM_BYTES
    return Footprint(tiles.threads, registers, shared)


def blocks_of(product: TensorProduct, columns: int) -> int:
    """Blocks of a product, each of so many columns."""
    return row_tiles_of(product) * tiles_along(product, columns)


def row_tiles_of(product: TensorProduct) -> int:
    """Tiles of rows of all entries, one each; of a ragged product as many as there may be."""
    entries = sizes_of(product)[3]
    return entries * (1 if product.ragged is None else row_tiles(product, padded_rows(product)))


def tiles_along(product: TensorProduct, columns: int) -> int:
    """Tiles of so many columns."""
    return -(-sizes_of(product)[1] // columns)


def busy_blocks(product: TensorProduct, columns: int) -> int:
    """The blocks that have rows."""
    if product.ragged is None:
        return blocks_of(product, columns)
    groups = filled_groups(product, NOMINAL)
    found = expected_tiles(groups, sizes_of(product)[0] / groups, padded_rows(product))
    return round(found) * tiles_along(product, columns)


def grid_blocks(products: Sequence[TensorProduct], tiles: Sequence[SkinnyTiles]) -> int:
    """Blocks of the grid that all products share, as far as these have rows."""
    return sum(map(busy_blocks, products, (each.columns for each in tiles)))


def choose_tiles(products: Sequence[TensorProduct], device: Device) -> tuple[SkinnyTiles, ...]:
    """The tiles of each, all with as many threads, since their blocks are one grid."""
    columns = [_columns(product, device) for product in products]
    blocks = sum(map(busy_blocks, products, columns))
    warps = MOST_WARPS
    if blocks >= device.multiprocessors and all(each.right.by_depth for each in products):
        deepest = max(sizes_of(product)[2] for product in products)
        is_small = blocks < 2 * device.multiprocessors and deepest < SHALLOW
        is_small = is_small and not any(each.beside for each in products)
        warps = MOST_WARPS if is_small else WARPS
    tiles = [
        SkinnyTiles(of_block, warps, _chunks(product, of_block, warps))
        for product, of_block in zip(products, columns, strict=True)
    ]
    if idle_share(products, tiles, device) > MOST_IDLE:
        tiles = [
            replace(each, chunks=min(each.chunks, max(1, SHORT // len(product.all))))
            for product, each in zip(products, tiles, strict=True)
        ]
    while tiles[0].warps > 1 and not _fits(products, tiles, device):
        tiles = [replace(each, warps=each.warps // 2) for each in tiles]
    return tuple(tiles)


def idle_share(
    products: Sequence[TensorProduct], tiles: Sequence[SkinnyTiles], device: Device
) -> float:
    """Of two waves of blocks, how much is idle; where there are more, blocks follow each other."""
    blocks = grid_blocks(products, tiles)
    room = min(
        footprint(product, own).blocks_per_sm(device)
        for product, own in zip(products, tiles, strict=True)
    )
    resident = room * device.multiprocessors
    return 1 - blocks / (2 * resident) if resident < blocks < 2 * resident else 0.0


def _fits(products: Sequence[TensorProduct], tiles: Sequence[SkinnyTiles], device: Device) -> bool:
    """Whether a block has the shared memory and the registers that it takes."""
    found = list(map(footprint, products, tiles))
    return all(own.shared <= STATIC_SHARED and own.registers_fit(1, device) for own in found)


def _columns(product: TensorProduct, device: Device) -> int:
    """Of a block: as many as an instruction has, or wider lines of enough columns."""
    if product.right.by_depth:
        return FRAGMENT
    enough = (1 - MOST_IDLE) * device.multiprocessors
    return ACROSS_COLUMNS if busy_blocks(product, ACROSS_COLUMNS) >= enough else FRAGMENT


def _chunks(product: TensorProduct, columns: int, warps: int) -> int:
    """Of a step: as many as there are registers for, and no more than a warp's share of them."""
    rows, depth = rows_of(product), sizes_of(product)[2]
    if product.right.by_depth:
        found = LONG if rows <= MATRIX and (warps == WARPS or depth >= SHALLOW) else SHORT
    else:
        found = ACROSS_CHUNKS if columns > FRAGMENT else SHORT
    return max(1, found // len(product.all))
