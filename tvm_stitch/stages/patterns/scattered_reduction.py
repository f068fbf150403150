"""Sums of updates that indices send to rows, as the gradient of an embedding is, and extremes.

In: a Stage. Out: the row that each update goes to and what it adds there, or None. TIR says it as a
reduction over all updates, of which those for other rows count for nothing: right whoever computes
it, and rows times updates unless this is seen. Updates may have been sorted by their rows before.
Must not know threads.
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.stages.extremes import EXTREMES
from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.stage import (
    Expr,
    Stage,
    Var,
    as_int64,
    bind_axes,
    constant,
    dtype_of,
    find_reads,
    flatten,
    interned,
    place_of,
    product,
)
from tvm_stitch.stages.symbolic_analyzer import SymbolicAnalyzer
from tvm_stitch.stages.visit import mapped

COMBINERS = ("sum", "max", "min", *EXTREMES)
# Are numbered in 32 bits; behind them, sums of some of them.
MOST_UPDATES = 1 << 30


@dataclass(frozen=True, eq=False)
class Sorted:
    """Updates in the order of their rows: those of a row are `order[first[row]:last[row]]`."""

    order: Var
    first: Var
    last: Var


@dataclass(frozen=True, eq=False)
class ScatteredReduction:
    """The parts of such a stage: rows are its first axes, `depth` of them."""

    stage: Stage
    depth: int
    update: Var  # its number
    value: Expr  # what it adds, by its number and the stage's other axes
    row: Expr = None  # that it goes to, by its number; of those that are sorted nobody asks
    sorted: Sorted | None = None

    @property
    def combiner(self) -> str:
        """How two updates of a row become one."""
        return self.stage.combiner

    def nothing(self, dtype: str) -> Expr:
        """What changes no result: what a row has that no update goes to."""
        return self.stage.identity.astype(dtype)

    @property
    def count(self) -> Expr:
        """How many there are; perhaps only run time knows."""
        return as_int64(self.stage.reduced_size)

    def place(self, load: Expr) -> Expr:
        """Where a load is in its buffer.

        An update that several symbolic axes number is found by divisions of 64 bits, one for each
        axis, of which those are left out that only make up its number again.
        """
        place = place_of(load)
        return place if constant(self.count) is not None else SymbolicAnalyzer({}).simplify(place)

    @property
    def rows(self) -> Expr:
        """How many rows there are."""
        return product(self.stage.extents[: self.depth])

    @property
    def columns(self) -> Expr:
        """Elements of a row."""
        return product(self.stage.extents[self.depth :])


@memoized
def scattered_reduction(stage: Stage) -> ScatteredReduction | None:
    """What a reduction adds to which row, if that is all that it does."""
    value = stage.value
    if stage.combiner not in COMBINERS or len(stage.reduced) != 1:
        return None
    if not isinstance(value, tirx.Select):
        return None
    if any(constant(extent) is None for extent in stage.extents):
        return None
    nothing = stage.identity.astype(value.false_value.ty.dtype)
    if not tvm_ffi.structural_equal(value.false_value, nothing):
        return None
    if isinstance(value.condition, tirx.And):
        return _sorted(stage, value.condition, value.true_value)
    return _by_row(stage, value.condition, value.true_value)


def _by_row(stage: Stage, goes: Expr, value: Expr) -> ScatteredReduction | None:
    """Every update has the number of its row."""
    if not isinstance(goes, tirx.EQ):
        return None
    for row, own in ((goes.a, goes.b), (goes.b, goes.a)):
        depth = _depth(stage, own)
        if depth and not _uses(row, stage.axes) and not _uses(own, stage.reduced):
            if _uses(value, stage.axes[:depth]):
                return None
            return ScatteredReduction(stage, depth, stage.reduced[0], value, row)
    return None


def _sorted(stage: Stage, goes: Expr, value: Expr) -> ScatteredReduction | None:
    """Every row has a range of places, and every place the number of an update."""
    place, after, before = stage.reduced[0], goes.a, goes.b
    if not (isinstance(after, tirx.LE) and isinstance(before, tirx.LT)):
        return None
    if not (after.b.same_as(place) and before.a.same_as(place)):
        return None
    first, last = (_of_axis(each, stage.axes[0]) for each in (after.a, before.b))
    if first is None or last is None or constant(stage.reduced_size) is None:
        return None
    update = tirx.Var("update", place.ty)
    for read in find_reads(value):
        order = _of_axis(read.load, place)
        if order is None:
            continue

        def numbered(number: Expr, order: Var = order) -> Expr:
            found = _of_axis(number, place)
            return update if found is not None and found.same_as(order) else number

        own = mapped(value, (tirx.Cast, numbered))
        if not _uses(own, (place, stage.axes[0])):
            of_rows = Sorted(*map(interned, (order, first, last)))
            return ScatteredReduction(stage, 1, update, own, sorted=of_rows)
    return None


def _of_axis(number: Expr, axis: Var) -> Var | None:
    """The list of 32-bit numbers that an axis counts, if a number is one of them."""
    load = number.value if isinstance(number, tirx.Cast) else number
    if not isinstance(load, tvm.ir.TensorLoad) or dtype_of(load) != "int32":
        return None
    own = load.indices
    return load.source if len(own) == 1 and own[0].same_as(axis) else None


def _depth(stage: Stage, own: Expr) -> int:
    """How many axes a number counts, all that follow being the row's own; 0: it counts none."""
    analyzer = bind_axes(stage)
    for depth in range(1, len(stage.axes) + 1):
        number = flatten(stage.axes[:depth], stage.extents[:depth])
        if analyzer.can_prove_equal(own, number):
            return depth
    return 0


def _uses(expr: Expr, axes: tuple[Var, ...]) -> bool:
    used = tirx.analysis.undefined_vars(expr)
    return any(var.same_as(axis) for var in used for axis in axes)
