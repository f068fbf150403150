"""Which rows and columns the threads of a kernel with small products have.

In: a ProductProgram, its Mapping, the block's number and the thread's. Out: expressions of rows and
columns, and what must hold for them to exist. Must not know what is computed of them.

The threads of a row have its columns in strides. Where rows are sliced, a block has as many columns
of every period of a value as its rows have threads; the others belong to the blocks beside it.
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import tirx

from tvm_stitch.kernel.codegen.tir_builder import all_of, divided
from tvm_stitch.kernel.ir.mapping import WARP, Mapping, SmallMatmul
from tvm_stitch.kernel.small_matmul.program import ProductProgram
from tvm_stitch.kernel.small_matmul.shared_operand import CHUNK
from tvm_stitch.kernel.small_matmul.smem_layout import slices_of
from tvm_stitch.stages.stage import Expr, Stage, Var, constant
from tvm_stitch.stages.symbolic_analyzer import int64, is_multiple

# Threads side by side that have the same columns of neighbouring rows: what two neighbours read of
# a table is one access to shared memory. Measured on an H200: a LSTM cell of 512 x 64 with its
# products takes 4.06 us, with a row's threads side by side 4.94.
BESIDE = 2


@dataclass(frozen=True, eq=False)
class Columns:
    """The columns of a value that the threads of a row have in a block: one a step."""

    count: int  # of the value
    threads: int
    period: int  # from one of a thread's columns to the next
    slice: Expr | None  # the block's number among those that share the row; None: it has it whole

    @property
    def steps(self) -> int:
        """Columns of a thread."""
        return -(-self.count // self.period)

    @property
    def in_runs(self) -> bool:
        """Whether neighbours in the block, four by four, are neighbours in the row."""
        aligned = self.threads % CHUNK == 0 and self.period % self.threads == 0
        return self.slice is None or aligned

    @property
    def _uneven(self) -> bool:
        return (self.count if self.slice is None else self.period) % self.threads != 0

    def at(self, step: Expr, lane: Expr) -> Expr:
        """A thread's column; where it has none, the last one."""
        if self.slice is None:
            column = step * self.threads + lane
            return tirx.min(column, self.count - 1) if self._uneven else column
        within = self.slice * self.threads + lane
        return step * self.period + (tirx.min(within, self.period - 1) if self._uneven else within)

    def place(self, step: Expr, lane: Expr) -> Expr:
        """A thread's column, counted in the block."""
        return self.at(step, lane) if self.slice is None else step * self.threads + lane

    def placed(self, place: Expr) -> Expr:
        """The column that is so far on in the block."""
        if self.slice is None:
            return place
        return self.at(tirx.floordiv(place, self.threads), tirx.floormod(place, self.threads))

    def exists(self, step: Expr, lane: Expr) -> Expr | None:
        """What holds if a thread has a column of its own; None: it does."""
        if not self._uneven:
            return None
        if self.slice is None:
            return step * self.threads + lane < self.count
        return self.slice * self.threads + lane < self.period


class ProductPosition:
    """Where a thread of a block works."""

    def __init__(
        self, program: ProductProgram, mapping: SmallMatmul, block: Expr, thread: Expr
    ) -> None:
        self.program, self.mapping, self.thread = program, mapping, thread
        self.apart = _threads_apart(program, mapping)
        self.depth_part, own = _depth_split(mapping, thread)
        self.lane = tirx.floormod(tirx.floordiv(own, self.apart), mapping.threads)
        pair = tirx.floordiv(own, mapping.threads * self.apart)
        self.team = pair * self.apart + tirx.floormod(own, self.apart)
        self.slices = slices_of(program, mapping)
        parts = -(-self.slices.period // mapping.threads) if self.slices else 1
        pieces = tirx.floordiv(program.inner + (mapping.block_rows - 1), mapping.block_rows)
        self.blocks = tvm.sym.Analyzer().simplify(program.entries * pieces * parts)
        self.slice = tirx.floormod(block, parts)
        piece = tirx.floordiv(block, parts)
        entry, place = int64(0), piece
        if constant(program.entries) != 1:
            entry, place = divided(piece, tvm.sym.Analyzer().simplify(pieces))
        self.entry, self.first = entry, place * mapping.block_rows
        self.uneven = not is_multiple(program.inner, int64(mapping.block_rows))

    # Rows

    def local(self, number: Expr) -> Expr:
        """A row of the thread's batch, counted in the block."""
        return number * self.mapping.rows + self.team

    def row(self, local: Expr) -> Expr:
        """A row of the block in memory. One past the end is the last one again."""
        inside = self.first + local
        if self.uneven:
            inside = tirx.min(inside, self.program.inner - 1)
        return self.entry * self.program.inner + inside

    def row_exists(self, number: Expr) -> Expr | None:
        """What holds if a row of the thread's batch is not past the end; None: none is."""
        if not self.uneven:
            return None
        return self.first + self.local(number) < self.program.inner

    # Columns

    def is_sliced(self, buffer: Var) -> bool:
        """Whether the block has some columns of a value only."""
        return self.slices is not None and buffer in self.slices.values

    def columns(self, buffer: Var) -> Columns:
        """Those of a value."""
        return self._columns(self.program.columns[buffer], self.is_sliced(buffer))

    def walked(self, stage: Stage) -> Columns:
        """Those that a stage goes through."""
        return self._columns(self.program.walked(stage), self.is_sliced(stage.output))

    def _columns(self, count: int, sliced: bool) -> Columns:
        threads = self.mapping.threads
        if sliced and self.slices is not None:
            return Columns(count, threads, self.slices.period, self.slice)
        return Columns(count, threads, threads, None)

    def writes(self, buffer: Var, number: Expr, step: Expr) -> Expr | None:
        """What holds if the thread's element is its own to write to memory; None: every one is."""
        columns = self.columns(buffer)
        column = self.lane == 0 if columns.count == 1 else columns.exists(step, self.lane)
        first = None if self.slices is None or self.is_sliced(buffer) else self.slice == 0
        return all_of(self.row_exists(number), column, first, self.leads)

    @property
    def leads(self) -> Expr | None:
        """What holds for one of the threads that share a depth; None: none does."""
        return None if self.mapping.depth_split == 1 else self.depth_part == 0


def _depth_split(mapping: SmallMatmul, thread: Expr) -> tuple[Expr, Expr]:
    """Which part of the depth a thread has, and its number among those that have the same."""
    if mapping.depth_split == 1:
        return int64(0), thread
    return (
        tirx.floordiv(thread, mapping.row_threads),
        tirx.floormod(thread, mapping.row_threads),
    )


def _threads_apart(program: ProductProgram, mapping: Mapping) -> int:
    """How far apart two neighbours of a row are in their block; what is reduced stays in a warp."""
    beside = min(BESIDE, mapping.rows)
    return beside if not program.reduces_rows or mapping.threads * beside <= WARP else 1
