"""Stages placed in one space of rows and columns.

In: Stages in order and the buffers that must be written.
Out: a Program, in which every value is one element for each (row, column), one for each row or one
for each column, and every stage reads what its own row, column or element produced; or the reason
why there is none. Must not know threads.

Results of reductions over the rows are known once all rows have been seen: only stages of one value
a column may use them, and sums over the rows of a segment that grow with a maximum of theirs.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import Any

from tvm_stitch.kernel.ir.iteration_space import Space
from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.memoized import cached_property
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Stage,
    Var,
    constant,
    handle,
    same_size,
    shown,
)


class Where(enum.Enum):
    """Which element of a buffer a stage reads, seen from its own row and column."""

    SAME = "the same row and column"
    ROW = "one value for the row"
    COLUMN = "one value for the column"
    ALONG = "another column of the same row"
    OTHER = "any other"


@dataclass(frozen=True, eq=False)
class Program:
    """What one kernel computes; see the module's docstring."""

    stages: tuple[Stage, ...]
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    space: Space
    reduces: bool
    where: dict[tuple[int, int], Where]  # (handle of the stage's output, key of the read)
    columnwise: frozenset[Var] = frozenset()  # what is one value a column: known after all rows
    # Sums of exponentials that are found in the phase of a maximum, by their output.
    online_after: dict[Var, Var] = field(default_factory=dict)
    # Sums of squares around a mean that are found in the phase of the sum that it is made of.
    variance_of: dict[Var, Var] = field(default_factory=dict)
    round: int = 0  # of a kernel in rounds: how many grid barriers come before it
    crossing: tuple[Var, ...] = ()  # outputs that nobody asked for but later rounds
    # Inputs that lie in memory as outputs of earlier rounds do, one behind the other.
    joined: tuple[tuple[Var, tuple[Var, ...]], ...] = ()
    # Inputs whose rows the programs of several rounds read, all of them in the same space.
    persistent_inputs: tuple[Var, ...] = ()
    reused_inputs: tuple[Var, ...] = ()  # of these, what an earlier round has read
    likely: Extents | None = None  # sizes of symbols that somebody has said to expect

    @cached_property
    def producer(self) -> dict[Var, Stage]:
        """The stage that computes a buffer; inputs have none."""
        return {stage.output: stage for stage in self.stages}

    @cached_property
    def memo(self) -> dict[Hashable, Any]:
        """Answers about it: see memoized."""
        return {}

    @cached_property
    def rows_expected(self) -> int | None:
        """How many rows a mapping should suit, if that is known; it must be right for any."""
        return self._expected(self.space.rows)

    @cached_property
    def elements_expected(self) -> int | None:
        """The same of its elements."""
        return self._expected(self.space.size)

    def _expected(self, extent: Expr) -> int | None:
        return constant(extent) if self.likely is None else self.likely.size(extent)

    def place(self, stage: Stage, read: Read) -> Where:
        """Which element of its buffer a read takes."""
        return self.where[handle(stage.output), read.key]

    @cached_property
    def column_reductions(self) -> tuple[Stage, ...]:
        """The reductions over the rows."""
        return tuple(s for s in self.stages if s.is_reduction and s.output in self.columnwise)

    @cached_property
    def row_reductions(self) -> tuple[Stage, ...]:
        """The reductions along a row."""
        return tuple(s for s in self.stages if s.is_reduction and s.output not in self.columnwise)

    @cached_property
    def scans(self) -> tuple[Stage, ...]:
        """What accumulates along a row."""
        return tuple(stage for stage in self.stages if stage.scan)

    @cached_property
    def reads(self) -> tuple[tuple[Stage, Read], ...]:
        """Every load, with its stage."""
        return tuple((stage, read) for stage in self.stages for read in stage.reads)

    def reads_at(self, where: Where) -> list[tuple[Stage, Read]]:
        """The loads that go to such a place."""
        return [each for each in self.reads if self.place(*each) is where]

    @cached_property
    def rows_read(self) -> tuple[Var, ...]:
        """The inputs that hold an element for each row and column, as these are worked on."""
        same = {read.buffer for _, read in self.reads_at(Where.SAME)}
        return tuple(buffer for buffer in self.inputs if buffer in same)

    @cached_property
    def _written(self) -> frozenset[Var]:
        return frozenset(self.outputs)

    def writes(self, buffer: Var) -> bool:
        """Whether a buffer is an output."""
        return buffer in self._written

    def holds(self, buffer: Var) -> Where:
        """Whether a buffer that a stage computes has a value for each element, row or column."""
        if buffer in self.columnwise:
            return Where.COLUMN
        stage = self.producer[buffer]
        full = not stage.is_reduction and same_size(stage.size, self.space.size)
        return Where.SAME if full else Where.ROW

    def is_full(self, buffer: Var) -> bool:
        """Whether a buffer that a stage computes holds an element for each row and column."""
        return self.holds(buffer) is Where.SAME

    def __repr__(self) -> str:
        rows, columns = shown(self.space.rows), shown(self.space.columns)
        lines = [f"program over {rows} rows x {columns} columns"]
        return "\n  ".join([*lines, *map(repr, self.stages)])
