"""Where a stage's elements are among rows that have other columns in every stage.

In: a stage and the number of rows, which may be a symbol's; a read of another stage. Out: its Axes,
or nothing if it has other rows; which element of its row the read takes, if it stays in its row.
Must not know what else is in a kernel, nor threads.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import COLUMN, ROW
from tvm_stitch.kernel.ir.placing import address_of
from tvm_stitch.kernel.ir.program import Where
from tvm_stitch.stages.indices import unflatten
from tvm_stitch.stages.patterns.matmul_pattern import MAX_OUTPUTS, Factors
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Stage,
    Var,
    constant,
    flatten,
    product,
    same_size,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import Analyzer


@dataclass(frozen=True, eq=False)
class Axes:
    """A stage's axes, parted into those of its row and those along it."""

    rows: dict[Var, Expr]  # with their extents
    columns: dict[Var, Expr]
    count: int  # columns; 1 where the row has one value

    @property
    def row(self) -> Expr:
        """The number of the row, by the axes."""
        return flatten(tuple(self.rows), tuple(self.rows.values()))

    @property
    def column(self) -> Expr:
        """The number of the column, by the axes."""
        return flatten(tuple(self.columns), tuple(self.columns.values()))

    def in_space(self, analyzer: Analyzer) -> dict[Var, Expr]:
        """All axes as expressions of ROW and COLUMN."""
        found = unflatten(ROW, tuple(self.rows), tuple(self.rows.values()))
        found |= unflatten(COLUMN, tuple(self.columns), tuple(self.columns.values()))
        return {axis: analyzer.simplify(expr) for axis, expr in found.items()}


def axes_of(stage: Stage, rows: Expr, factors: Factors | None) -> Axes | None:
    """A stage's axes by so many rows, a product's by its factors. None: it has other rows."""
    if factors is not None:
        own = dict(zip(factors.rows, factors.row_extents, strict=True))
        columns = {factors.column: tirx.IntImm("int64", factors.columns)}
        return Axes(own, columns, factors.columns)
    own = dict(zip(stage.axes, stage.extents, strict=True))
    if stage.is_reduction:
        reduced = dict(zip(stage.reduced, stage.reduced_extents, strict=True))
        count = constant(stage.reduced_size)
        fits = count is not None and count <= MAX_OUTPUTS and same_size(stage.size, rows)
        return Axes(own, reduced, count) if fits and count else None
    items = list(own.items())
    for split in range(len(items), -1, -1):
        count = constant(product(stage.extents[split:]))
        if count is None or count > MAX_OUTPUTS:
            return None
        if count and same_size(product(stage.extents[:split]), rows):
            return Axes(dict(items[:split]), dict(items[split:]), count)
    return None


def reordered(output: Stage, read: Read, source: Axes, rows: Expr) -> Axes | None:
    """The axes of an output that holds a value's elements in another order, in the value's order.

    They go through rows and columns as the value does; their place in memory follows from that.
    None: they cannot, or are one a row, whose place is the row's number.
    """
    if source.count == 1:
        return None
    order, split = tuple(read.load.indices), len(source.rows)
    extents = dict(zip(output.axes, output.extents, strict=True))
    if not _permutes(order, output.axes):
        return None
    if not same_size(product(tuple(extents[axis] for axis in order[:split])), rows):
        return None
    own = {axis: extents[axis] for axis in order[:split]}
    return Axes(own, {axis: extents[axis] for axis in order[split:]}, source.count)


def place_in_row(
    axes: Axes, read: Read, count: int, analyzer: Analyzer
) -> tuple[Where, Expr | None] | None:
    """Which of its row's elements a read takes, and the column of another; None: no such one."""
    at = address_of(read)
    if at is None:
        return None
    column = analyzer.simplify(at - axes.row * count)
    if any(axis in axes.rows for axis in tirx.analysis.undefined_vars(column)):
        return None
    bound = analyzer.const_int_bound(column)
    if bound.min_value < 0 or bound.max_value >= count:
        return None
    if count == 1:
        return Where.ROW, None
    if count == axes.count and analyzer.can_prove_equal(column, axes.column):
        return Where.SAME, None
    names = unflatten(COLUMN, tuple(axes.columns), tuple(axes.columns.values()))
    return Where.ALONG, substitute(column, names)


def _permutes(indices: tuple[Expr, ...], axes: tuple[Var, ...]) -> bool:
    """Whether a load's indices are a stage's axes in another order."""
    if len(indices) != len(axes) or not all(isinstance(each, tirx.Var) for each in indices):
        return False
    return indices != axes and set(indices) == set(axes)
