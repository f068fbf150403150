"""Which rows a block has of a ragged product, whose groups of rows only run time tells.

In: a TensorProduct, the rows of a tile, and the number of a tile. Out: how many tiles there may be,
and TIR that finds the tile's group and rows. Must not know how they are multiplied.

Tiles are numbered so that one finds its group without a sum over those before: a group that ends in
front of row `end` has the tiles below `end // height + group + 1`, which are as many as it needs or
one more, and the group is how many groups' tiles are all below. Where there are fewer rows than
such numbers, tiles are numbered by their first row instead. Blocks whose tile has no rows leave.
Rows behind the last group are a group as well, of zeros.
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.analysis.contiguity import Extent, parts_of
from tvm_stitch.kernel.codegen.tir_builder import Writer, block_uniform
from tvm_stitch.kernel.ir.mapping import WARP
from tvm_stitch.kernel.tensor_core.program import TensorProduct
from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.patterns.ragged_product import ENDS
from tvm_stitch.stages.stage import Expr, Var, as_int64
from tvm_stitch.stages.symbolic_analyzer import int64


@dataclass(frozen=True, eq=False)
class RowTile:
    """Rows of a block."""

    group: Expr  # of the right factor
    first: Expr
    end: Expr  # of the rows of the group
    exists: Expr  # whether there are any; the same for all threads of a block
    is_summed: Expr  # whether they are of a group, and not behind all


def row_tiles(product: TensorProduct, height: int) -> Extent:
    """Tiles of so many rows along an entry; of a ragged product as many as there may be."""
    if product.ragged is None:
        return parts_of(product.rows, height)
    most = _numbered(product, height)
    return product.rows if _is_by_row(product, height) else most


def filled_groups(product: TensorProduct, extents: Extents) -> int:
    """Groups that have rows, of every entry, if a row is as likely in each."""
    rows, groups = extents.size(as_int64(product.rows)), product.groups
    return max(1, round(groups * (1 - (1 - 1 / groups) ** rows)))


def expected_tiles(groups: int, rows: float, height: int) -> float:
    """Tiles that have rows, of groups of so many on average: the last of each is half full."""
    return groups * max(1.0, rows / height + 1 / 2)


def find_rows(
    writer: Writer, product: TensorProduct, ends: Var, tile: Expr, height: int, thread: Expr
) -> RowTile:
    """The rows of a tile, which each warp finds by itself: a lane asks every 32nd group."""
    groups, by_row = product.groups, _is_by_row(product, height)
    place = writer.value("row_tile", tile.astype(ENDS))
    below = writer.allocate("below", 1, ENDS)
    writer.store(below, int64(0), tirx.const(0, ENDS))
    with writer.unrolled(-(-groups // WARP), "turn") as turn:
        group = turn * WARP + tirx.floormod(thread, WARP)
        with writer.when(group < groups if groups % WARP else None):
            end = ends[group]
            last = end if by_row else tirx.floordiv(end, height) + group.astype(ENDS) + 1
            is_below = tirx.Select(last <= place, tirx.const(1, ENDS), tirx.const(0, ENDS))
            writer.store(below, int64(0), below[int64(0)] + is_below)
    all_below = T.cuda.warp_reduce(below[int64(0)], "sum", WARP)
    group = writer.value("group", all_below)
    rows = as_int64(product.rows).astype(ENDS)
    before, own = (as_int64(tirx.max(group - 1, 0)), as_int64(tirx.min(group, groups - 1)))
    # Whatever is read there, no more than the rows that there are.
    start = tirx.Select(group > 0, tirx.max(ends[before], 0), tirx.const(0, ENDS))
    start = writer.value("start", start)
    end = writer.value("end", tirx.Select(group < groups, tirx.min(ends[own], rows), rows))
    if by_row:
        first, exists = place, tirx.EQ(tirx.floormod(place - start, height), 0)
    else:
        own_tile = place - (tirx.floordiv(start, height) + group)
        first = writer.value("first", start + own_tile * height)
        exists = tirx.all(own_tile >= 0, first < end)
    return RowTile(own, as_int64(first), as_int64(end), block_uniform(exists), group < groups)


def _is_by_row(product: TensorProduct, height: int) -> bool:
    """Whether tiles are numbered by their first row."""
    return isinstance(product.rows, int) and product.rows <= _numbered(product, height)


def _numbered(product: TensorProduct, height: int) -> Extent:
    """Numbers of tiles of all groups, and of what is behind them."""
    if isinstance(product.rows, int):
        return product.rows // height + product.groups + 1
    most = tirx.floordiv(product.rows, int64(height)) + (product.groups + 1)
    return tvm.sym.Analyzer().simplify(most)
