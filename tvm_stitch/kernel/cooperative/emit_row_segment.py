"""Emits a part that goes through the rows of segments: a block has a piece of the columns of one
segment.

In: a Program whose space has segments, its Mapping, and what waits on the chip from earlier rounds.
Writes TIR into a Writer. Decides nothing.

Each thread adds up its own columns in registers while the segment's rows go by; rows side by side
in a block are combined in shared memory. What is computed from a column's results follows at once.
Rows that the next rounds read too wait in shared memory: a thread reads there only what it has put
there itself. The others are read last that were read first, for those are the ones that the L2 has
lost.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen import reduction
from tvm_stitch.kernel.codegen.thread_indexing import (
    Position,
    iterations_of_segment,
    uneven_segment,
)
from tvm_stitch.kernel.codegen.tir_builder import Writer
from tvm_stitch.kernel.cooperative.emit_column_sums import (
    add_rows,
    copied,
    finish_column,
    lower_sums,
    rows_tile,
    start_sums,
)
from tvm_stitch.kernel.cooperative.emit_persistent_row import PersistentRow, RoundPlace
from tvm_stitch.kernel.cooperative.hoisted_loads import load_columns
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.emit import emit_batch
from tvm_stitch.kernel.rows.emit_phase import second_pass
from tvm_stitch.stages.stage import Expr, Stage, Var, constant
from tvm_stitch.stages.symbolic_analyzer import int64


def shared_tile(parts: Iterable[tuple[Program, Mapping]], writer: Writer) -> Var | None:
    """Shared memory that all parts of a kernel use in turn; None if none needs any."""
    wanted = [(m.vector * m.steps * m.block_threads, p, m) for p, m in parts if p.column_reductions]
    wanted = [each for each in wanted if each[2].rows > 1]
    if not wanted:
        return None
    _, program, mapping = max(wanted, key=lambda each: each[0])
    return rows_tile(program, mapping, writer)


@dataclass(frozen=True)
class _Run:
    """Batches of rows that are alike, the first and the one behind the last."""

    start: int | Expr
    end: int | Expr
    rows: int  # of a thread
    exist: int  # of these, those that do whatever the thread
    wait: int


class RowSegmentPart:
    """One program in segments on its way into TIR."""

    def __init__(self, program: Program, mapping: Mapping, place: RoundPlace) -> None:
        self.program, self.mapping = program, mapping
        self.place, self.writer = place, place.writer
        self.sums: dict[Var, Var] = {}
        self.uneven = uneven_segment(program.space, mapping, place)
        self.position = self._position(int64(0))

    def emit(self) -> Expr:
        """Write the whole part; the number of its blocks."""
        self.sums = start_sums(self.program, self.mapping, self.writer)
        self._go_through()
        if self.program.column_reductions:
            tile, position = self.place.tile, self.position
            first = add_rows(self.program, self.mapping, self.sums, position, self.writer, tile)
            with self.writer.when(first):
                self._finish()
        return self.position.blocks

    def _go_through(self) -> None:
        """All rows of the segment, those that wait before the others or after them."""
        first = self._row(self.position)
        # A segment without rows may lie where there is nothing to load.
        load_columns(first, None if self.uneven is None else self.position.row_exists)
        is_known = constant(self.program.space.segment_rows) is not None
        runs = self._runs() if is_known else self._runs_of_any_length()
        for run in reversed(runs) if self.place.is_reversed else runs:
            self._emit_run(first, run)

    def _runs(self) -> list[_Run]:
        """Batches one behind the other, of which as many rows exist and wait."""
        mapping, space = self.mapping, self.program.space
        rows = iterations_of_segment(space, mapping)
        exist = (constant(space.segment_rows) or 0) // mapping.rows
        wait = mapping.persistent_rows // mapping.rows

        def batch(first: int) -> tuple[int, int, int]:
            most = min(mapping.batch, rows - first)
            return most, min(max(exist - first, 0), most), min(max(wait - first, 0), most)

        groups = itertools.groupby(range(0, rows, mapping.batch), batch)
        runs = [(alike, [first // mapping.batch for first in each]) for alike, each in groups]
        return [_Run(each[0], each[-1] + 1, *alike) for alike, each in runs]

    def _runs_of_any_length(self) -> list[_Run]:
        """Whole batches, and what is left of the segment's rows; none of them wait."""
        space, batch = self.program.space, self.mapping.batch
        rows = space.segment_rows if self.uneven is None else self.uneven.rows
        whole = tirx.floordiv(rows, self.mapping.block_rows)
        last = tirx.floordiv(rows + (self.mapping.block_rows - 1), self.mapping.block_rows)
        whole, last = (self.writer.value("batches", each) for each in (whole, last))
        return [_Run(int64(0), whole, batch, batch, 0), _Run(whole, last, batch, 0, 0)]

    def _emit_run(self, first: PersistentRow, run: _Run) -> None:
        mapping = self.mapping
        with self.writer.serial(run.end - run.start, "iteration") as count:
            iteration = run.end - 1 - count if self.place.is_reversed else run.start + count
            rows = [
                first.beside(self._position(iteration, number, number < run.exist))
                for number in range(run.rows)
            ]
            for number, row in enumerate(rows[: run.wait]):
                row.slot_of_row = iteration * mapping.batch + number
            self._emit_rows(rows)
            for row in rows:
                row.leave()
            if self.program.row_reductions:
                # The next iteration's reductions write where this one's are still being read.
                self.writer.add(tirx.Evaluate(T.tvm_storage_sync("shared")))

    def _emit_rows(self, rows: list[PersistentRow]) -> None:
        """All rows at hand; sums behind maxima follow when the largest of them are known."""
        behind = self.program.online_after
        each = self.mapping.vector * self.mapping.steps
        before = {m: copied(self.sums[m], each, self.writer) for m in behind.values()}
        phases = emit_batch([*rows])
        for maximum, tile in before.items():
            sums = [self.sums[total] for total, leader in behind.items() if leader == maximum]
            lower_sums(self.writer, tile, sums, self.sums[maximum].__getitem__, each)
        for states in phases if behind else ():  # rows that are reduced as well have several
            for row, state in zip(rows, states, strict=True):
                if state.phase.second_pass:
                    second_pass(row, state)

    def _position(self, iteration: Expr, number: int = 0, exists: bool = False) -> Position:
        space, mapping = self.program.space, self.mapping
        return Position(space, mapping, self.place, iteration, number, exists, self.uneven)

    def _row(self, position: Position) -> PersistentRow:
        return PersistentRow(self.program, self.mapping, self.place, position, self.sums)

    def _finish(self) -> None:
        """A thread has the results of its columns, and what is computed from them."""
        mapping, position = self.mapping, self.position
        for steps in position.steps():
            with (
                self.writer.unrolled(steps.count, "step", steps.start) as step,
                self.writer.unrolled(mapping.vector, "lane") as lane,
                self.writer.when(position.exists(step, steps.guard, lane)),
            ):
                self._finish_column(step * mapping.vector + lane, position.column(step, lane))

    def _finish_column(self, element: Expr, column: Expr) -> None:
        def total(stage: Stage) -> Expr:
            own = self.sums[stage.output][element]
            return self.writer.value(stage.name, reduction.result(stage, own))

        at = self.position.row_segment * self.program.space.columns + column
        finish_column(self._row(self.position), total, column, at)
