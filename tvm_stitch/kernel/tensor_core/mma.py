"""How tensor cores add up a product of tiles: by instructions of a warp (mma.sync).

In: where both factors' tiles lie in shared memory, and the thread's place. Writes TIR into a
Writer. Must not know where tiles come from, nor what becomes of the sums.

A thread gets two neighbours of a row in every eight columns, and two eight rows below: so does one
of four warps that multiply together (wgmma).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen.tir_builder import Writer, divided
from tvm_stitch.kernel.ir.mapping import WARP
from tvm_stitch.kernel.tensor_core.smem_swizzle import WORD, OperandTile
from tvm_stitch.kernel.tensor_core.tiles import (
    FRAGMENT_COLUMNS,
    FRAGMENT_DEPTH,
    FRAGMENT_ROWS,
    HALF,
    Tiles,
)
from tvm_stitch.stages.patterns.matmul_pattern import ACCUMULATED
from tvm_stitch.stages.stage import Expr, Var, dtype_of

MATRIX = 8  # rows and columns of what a fragment is made of
SUMS = 4  # of a lane, of what an instruction computes
_ELEMENT = {"float16": "f16", "bfloat16": "bf16"}  # in PTX


def mma_m16n8k16(dtype: str) -> Any:
    """A warp's instruction that adds products of halves to float32."""
    kind = _ELEMENT[dtype]
    return T.ptx[f"mma.sync.aligned.m16n8k16.row.col.f32.{kind}.{kind}.f32"]


def add_product(
    writer: Writer, dtype: str, sums: Sequence[Expr], first: Sequence[Expr], second: Sequence[Expr]
) -> None:
    """Such an instruction: two fragments' product added to a lane's four sums."""
    writer.call(mma_m16n8k16(dtype)(*sums, *first, *second, *sums))


class MmaAccumulator:
    """What a thread adds up, and the place of its warp."""

    def __init__(
        self,
        tiles: Tiles,
        left: OperandTile,
        right: OperandTile,
        smem_arena: Var,
        thread: Expr,
        writer: Writer,
    ) -> None:
        self.tiles, self.left, self.right = tiles, left, right
        self.smem_arena, self.thread, self.writer = smem_arena, thread, writer
        self.lane = tirx.floormod(thread, WARP)
        warp_row, warp_column = divided(
            tirx.floordiv(thread, WARP), tiles.columns // tiles.warp_columns
        )
        self.warp_row = warp_row * tiles.warp_rows
        self.warp_column = warp_column * tiles.warp_columns
        self.kind = _ELEMENT[dtype_of(left.factor.buffer)]
        self.totals = writer.allocate("totals", tiles.accumulators, ACCUMULATED)

        self.heights = tiles.warp_rows // FRAGMENT_ROWS
        self.widths = tiles.warp_columns // MATRIX
        if tiles.swapped:
            self.heights, self.widths = 1, tiles.warp_rows // MATRIX

    def total(self, height: Expr, width: Expr, number: Expr | int) -> Expr:
        """The number'th of a thread's four sums in 16 rows by 8 columns; swapped, the reverse."""
        return self.totals[(height * self.widths + width) * 4 + number]

    def _words(self, place: Expr) -> Expr:
        """A pointer to what lies in shared memory, by halves."""
        return self.smem_arena.ptr_to([tirx.floordiv(place, WORD // HALF)])


class WarpMma(MmaAccumulator):
    """Each warp loads fragments of both factors and multiplies them, one after the other."""

    def begin(self) -> None:
        """Before the first stage."""
        with self.writer.unrolled(self.tiles.accumulators, "number") as number:
            self.writer.store(self.totals, number, tirx.const(0.0, ACCUMULATED))

    def arrived(self) -> None:
        """After the thread's own copies into a stage."""

    def multiply(self, _iteration: Expr, slot: Expr) -> None:
        """A stage: fragments of both factors, and their product added to the totals."""
        writer, tiles = self.writer, self.tiles
        heights, widths = tiles.warp_rows // FRAGMENT_ROWS, tiles.warp_columns // FRAGMENT_COLUMNS
        left = writer.allocate("left", 4 * heights, "uint32")
        right = writer.allocate("right", 4 * widths, "uint32")
        dtype = dtype_of(self.left.factor.buffer)
        with writer.unrolled(tiles.depth // FRAGMENT_DEPTH, "part") as part:
            depth = part * FRAGMENT_DEPTH
            with writer.unrolled(heights, "height") as height:
                first = self.warp_row + height * FRAGMENT_ROWS
                self._load_fragment(self.left, left, 4 * height, slot, first, depth)
            with writer.unrolled(widths, "width") as width:
                first = self.warp_column + width * FRAGMENT_COLUMNS
                self._load_fragment(self.right, right, 4 * width, slot, first, depth)
            with (
                writer.unrolled(heights, "height") as height,
                writer.unrolled(2 * widths, "width") as width,
            ):
                totals = [self.total(height, width, n) for n in range(SUMS)]
                own = [left[4 * height + n] for n in range(4)]
                other = [right[2 * width + n] for n in range(2)]
                add_product(writer, dtype, totals, own, other)

    def settle(self) -> None:
        """Before the next stage."""

    def end(self) -> None:
        """After the last stage."""

    def _load_fragment(
        self, side: OperandTile, to: Var, at: Expr, slot: Expr, first: Expr, depth: Expr
    ) -> None:
        """Four matrices of 8 by 8 by one instruction; each lane says where one line begins.

        Of the left factor they are the upper and lower rows, first at the lesser depth; of the
        right one the lesser and greater depth, first of the left columns.
        """
        line, matrix = tirx.floormod(self.lane, MATRIX), tirx.floordiv(self.lane, MATRIX)
        outer, inner = divided(matrix, 2)
        beside, beyond = (inner, outer) if side is self.left else (outer, inner)
        across, below = beside * MATRIX, beyond * MATRIX
        # Lines run along what neighbours in memory: from columns, matrices are transposed.
        if side.factor.by_depth:
            place, transposed = side.place(slot, first + across + line, depth + below), ""
        else:
            place, transposed = side.place(slot, first + across, depth + below + line), ".trans"
        load = T.ptx[f"ldmatrix.sync.aligned.m8n8.x4{transposed}.shared.b16"]
        self.writer.call(load(*(to[at + number] for number in range(4)), self._words(place)))
