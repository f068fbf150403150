"""Segments of rows that a reduction over the rows combines, where run time says how many rows.

In: a reduction over the rows of segments. Out: which of its axes number the rows, and how many of
these a segment has. As many segments as there always are share the rows: the first have equally
many, the last may have fewer or none. Must not know threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from tvm_stitch.stages.indices import unflatten
from tvm_stitch.stages.stage import Expr, Stage, Var

# Every partial is written and read once more; and what others are measured against is the mean of
# the first one, which is no better than its rows are many.
FEWEST_ROWS = 8


@dataclass(frozen=True, eq=False)
class Uneven:
    """Rows whose number only run time knows, and the segments that share them."""

    rows: Expr
    segments: int

    @property
    def length(self) -> Expr:
        """Rows of the first segments."""
        shared = tirx.floordiv(self.rows + (self.segments - 1), self.segments)
        return tirx.max(shared, tirx.IntImm("int64", FEWEST_ROWS))

    def rows_of(self, segment: Expr) -> Expr:
        """Rows of a segment."""
        left = self.rows - segment * self.length
        return tirx.max(tirx.min(left, self.length), tirx.IntImm("int64", 0))

    def first_of(self, segment: Expr) -> Expr:
        """The first row of a segment; of one without rows the last that there is."""
        return tirx.min(segment * self.length, self.rows - 1)


def axes_of_rows(stage: Stage) -> tuple[tuple[Var, ...], tuple[Expr, ...]]:
    """The axes that number the rows of a reduction over them, and their extents.

    Uneven segments have no axis among these: rows are counted through all of them.
    """
    outer = (stage.row_segments or 0) - stage.uneven
    axes, extents = stage.axes[:outer], stage.extents[:outer]
    return (*axes, *stage.reduced), (*extents, *stage.reduced_extents)


def first_row(stage: Stage, uneven: Uneven, segment: Expr) -> dict[Var, Expr]:
    """The reduced axes of a stage at the first row of a segment."""
    return unflatten(uneven.first_of(segment), stage.reduced, stage.reduced_extents)


def shared_rows(stage: Stage) -> Uneven:
    """What the uneven segments of a stage share."""
    assert stage.uneven and stage.row_segments, "its segments are even"
    return Uneven(stage.reduced_size, int(stage.extents[stage.row_segments - 1]))
