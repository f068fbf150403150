"""The place of a block and its threads in attention.

In: an Attention, its tiles, flat views of the parameters, block and thread. Writes into a Writer
where rows and heads are; also what is asked of scores everywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import e, log2

from tvm import tirx

from tvm_stitch.kernel.attention.tiles import (
    LANES,
    ROWS,
    AttentionTiles,
    blocks_of_head,
    heights_of,
    rows_of,
    width_of,
)
from tvm_stitch.kernel.codegen.tir_builder import Writer, divided
from tvm_stitch.kernel.ir.mapping import WARP
from tvm_stitch.kernel.tensor_core.mma import MATRIX
from tvm_stitch.library.attention import Attention, Place
from tvm_stitch.stages.patterns.matmul_pattern import ACCUMULATED
from tvm_stitch.stages.stage import Expr, Var, dtype_of
from tvm_stitch.stages.symbolic_analyzer import int64

NOTHING = float("-inf")


class Part:
    """A head of keys on its way into TIR, as a block computes its share of it.

    Rows are the queries of all heads that share it; a warp's begin with `first_row`.
    """

    def __init__(
        self,
        attention: Attention,
        tiles: AttentionTiles,
        views: Mapping[str, Var],
        block: Expr,
        thread: Expr,
        writer: Writer,
    ) -> None:
        """`views`: flat, of "query", "key", "value", perhaps "bias", and of "output"."""
        self.attention, self.tiles, self.views, self.writer = attention, tiles, views, writer
        self.thread = thread
        self.rows, self.heights = rows_of(attention), heights_of(attention)
        self.width = width_of(attention)
        self.dtype = dtype_of(views["query"])
        # Blocks of a head's rows, or of a cluster that splits its keys: there is but one of them.
        head, rank = divided(block, blocks_of_head(attention, tiles))
        batch, key_head = divided(head, attention.key_heads)
        self.rank = writer.value("rank", rank)
        self.batch = writer.value("batch", batch)
        self.key_head = writer.value("key_head", key_head)
        self.warp = writer.value("warp", tirx.floordiv(thread, WARP))
        self.first_row: Expr = int64(0)
        if tiles.by_rows:
            self.first_row = writer.value("first_row", (self.rank * tiles.warps + self.warp) * ROWS)
        group, within = divided(tirx.floormod(thread, WARP), LANES)
        self.group, self.within = writer.value("group", group), writer.value("within", within)

    def rows_at(self, height: int) -> Expr:
        """The lane's row of the upper or the lower eight."""
        return self.first_row + self.group + height * MATRIX

    def row_of(self, place: Place, row: Expr) -> Expr:
        """Where a row of queries, or of results, begins."""
        head, query = self.of_head(row)
        return place.start + self.batch * place.batch + head * place.head + query * place.row

    def power(self, score: Expr, below: Expr) -> Expr:
        """The exponential of a score's distance from the one that its row is measured from.

        Without a bias scores are as they are multiplied, and the scale is in the instruction that
        takes the distance; with one they may be as low as numbers go, and must not become lower.
        """
        if self.attention.bias is None:
            unit = real(self.attention.scale * log2(e))
            return tirx.exp2(score * unit - below * unit)
        return tirx.exp2((score - below) * real(log2(e)))

    def of_head(self, row: Expr) -> tuple[Expr, Expr]:
        """A row's head of queries, and its query."""
        of_head, query = divided(row, self.attention.queries)
        return self.key_head * (self.attention.heads // self.attention.key_heads) + of_head, query


def real(value: float) -> Expr:
    """A number as scores and sums are."""
    return tirx.const(value, ACCUMULATED)


def reference(most: Expr) -> Expr:
    """What powers are measured from: the largest score, or 0 where no key is seen."""
    return tirx.Select(most == real(NOTHING), real(0.0), most)
