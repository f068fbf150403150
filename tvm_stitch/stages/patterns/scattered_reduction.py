"""Sums of updates that indices send to rows, as the gradient of an embedding is, and extremes.

In: a Stage. Out: the row that each update goes to and what it adds there, or None. TIR says it as a
reduction over all updates, of which those for other rows count for nothing: right whoever computes
it, and rows times updates unless this is seen. Must not know threads.
"""

from __future__ import annotations

from dataclasses import dataclass

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
    flatten,
    place_of,
    product,
)
from tvm_stitch.stages.symbolic_analyzer import SymbolicAnalyzer

COMBINERS = ("sum", "max", "min", *EXTREMES)
# Are numbered in 32 bits; behind them, sums of some of them.
MOST_UPDATES = 1 << 30


@dataclass(frozen=True, eq=False)
class ScatteredReduction:
    """The parts of such a stage: rows are its first axes, `depth` of them."""

    stage: Stage
    depth: int
    row: Expr  # of an update, by the reduced axis
    value: Expr  # what it adds, by the reduced axis and the stage's other axes

    @property
    def combiner(self) -> str:
        """How two updates of a row become one."""
        return self.stage.combiner

    def nothing(self, dtype: str) -> Expr:
        """What changes no result: what a row has that no update goes to."""
        return self.stage.identity.astype(dtype)

    @property
    def update(self) -> Var:
        """The axis that numbers the updates."""
        return self.stage.reduced[0]

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
    if not isinstance(value.condition, tirx.EQ):
        return None
    if any(constant(extent) is None for extent in stage.extents):
        return None
    nothing = stage.identity.astype(value.false_value.ty.dtype)
    if not tvm_ffi.structural_equal(value.false_value, nothing):
        return None
    for row, own in (
        (value.condition.a, value.condition.b),
        (value.condition.b, value.condition.a),
    ):
        depth = _depth(stage, own)
        if depth and not _uses(row, stage.axes) and not _uses(own, stage.reduced):
            if _uses(value.true_value, stage.axes[:depth]):
                return None
            return ScatteredReduction(stage, depth, row, value.true_value)
    return None


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
