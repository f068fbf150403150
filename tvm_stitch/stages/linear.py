"""Positions that are sums of a stage's axes, as numbers: what most loads and stores are.

In: a Stage whose extents are numbers, and expressions of its axes. Out: Linears, which are equal
where the expressions are equal for every element of the stage: what TVM's analyzer would have to
prove of expressions is then a comparison of tuples. None: it takes the analyzer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import tvm
from tvm import tirx

from tvm_stitch.stages.memoized import memoized_for_copies
from tvm_stitch.stages.stage import (
    Expr,
    Stage,
    bind_axes,
    buffer_shape,
    constant,
    flatten,
    handle,
)

# Sums of more levels than this are left to the analyzer.
MAX_DEPTH = 16


@dataclass(frozen=True)
class Linear:
    """How far a step along each axis goes, and where it all begins.

    An axis with one element has no steps: they are 0, so that equal positions are equal Linears.
    """

    steps: tuple[int, ...]
    start: int = 0

    def __add__(self, other: Linear) -> Linear:
        steps = tuple(a + b for a, b in zip(self.steps, other.steps, strict=True))
        return Linear(steps, self.start + other.start)

    def times(self, factor: int) -> Linear:
        """So many times as far."""
        return Linear(tuple(step * factor for step in self.steps), self.start * factor)


class Position:
    """A position for every element of a stage: a Linear if it is one, and an expression if not."""

    def __init__(self, stage: Stage, linear: Linear | None, expr: Callable[[], Expr]) -> None:
        self.stage, self.linear = stage, linear
        self._expr = expr

    @cached_property
    def expr(self) -> Expr:
        """Of the stage's axes."""
        return self._expr()

    def is_read_by(self, number: int, at: Expr = None) -> bool:
        """Whether a read of the stage goes there; `at` says where it goes if its place does not."""
        linear = places(self.stage)[number]
        if linear is not None and self.linear is not None:
            return linear == self.linear
        at = self.stage.reads[number].place if at is None else at
        return bind_axes(self.stage).can_prove_equal(at, self.expr)


def own_position(stage: Stage) -> Position:
    """That of each element that a stage walks through, reduced ones last, counted row by row."""
    units = axes(stage)
    linear = None if units is None else flattened(units, sizes(stage) or ())
    return Position(
        stage,
        linear,
        lambda: flatten((*stage.axes, *stage.reduced), (*stage.extents, *stage.reduced_extents)),
    )


def position_of_result(stage: Stage) -> Position:
    """That of the element that a stage writes."""
    units, count = axes(stage), len(stage.axes)
    linear = None
    if units is not None:
        nothing = Linear((0,) * len(units))
        linear = flattened(units[:count], (sizes(stage) or ())[:count], nothing)
    return Position(stage, linear, lambda: flatten(stage.axes, stage.extents))


@memoized_for_copies
def sizes(stage: Stage) -> tuple[int, ...] | None:
    """The extents of a stage's axes, the reduced ones last; None if any is symbolic."""
    return numbers((*stage.extents, *stage.reduced_extents))


def numbers(extents: Sequence[Expr]) -> tuple[int, ...] | None:
    """Extents as numbers; None if any is symbolic."""
    found = [constant(extent) for extent in extents]
    return None if None in found else tuple(found)  # type: ignore[arg-type]


@memoized_for_copies
def axes(stage: Stage) -> tuple[Linear, ...] | None:
    """The axes themselves, in the order of `sizes`."""
    extents = sizes(stage)
    if extents is None:
        return None
    count = range(len(extents))
    return tuple(Linear(tuple(int(n == own and extents[n] != 1) for n in count)) for own in count)


@memoized_for_copies
def places(stage: Stage) -> tuple[Linear | None, ...]:
    """Where each of a stage's reads is in its buffer, in their order."""
    return tuple(place(stage, read.load) for read in stage.reads)


def place(stage: Stage, access: Expr) -> Linear | None:
    """Where a load or a store is in its buffer."""
    buffer = access.source if isinstance(access, tvm.ir.TensorLoad) else access.buffer
    units, extents = axes(stage), numbers(buffer_shape(buffer))
    if units is None or extents is None:
        return None
    variables = (*stage.axes, *stage.reduced)
    known = {handle(var): unit for var, unit in zip(variables, units, strict=True)}
    nothing = Linear((0,) * len(units))
    found = []
    for index in access.indices[:]:
        linear = _linear(index, known, nothing, MAX_DEPTH)
        if linear is None:
            return None
        found.append(linear)
    return flattened(found, extents, nothing)


def flattened(
    indices: Sequence[Linear], extents: Sequence[int], nothing: Linear = Linear(())
) -> Linear:
    """Row-major position of an element; `nothing` is that in a tensor without axes."""
    flat = indices[0] if indices else nothing
    for index, extent in zip(indices[1:], extents[1:], strict=True):
        flat = flat.times(extent) + index
    return flat


def _linear(expr: Expr, known: Mapping[int, Linear], nothing: Linear, depth: int) -> Linear | None:
    if isinstance(expr, tirx.Var):
        return known.get(handle(expr))
    if isinstance(expr, tirx.IntImm):
        return Linear(nothing.steps, int(expr.value))
    if depth == 0 or not isinstance(expr, tirx.Add | tirx.Sub | tirx.Mul):
        return None
    left, right = (_linear(each, known, nothing, depth - 1) for each in (expr.a, expr.b))
    if left is None or right is None:
        return None
    if isinstance(expr, tirx.Mul):
        return _multiplied(left, right)
    return left + (right if isinstance(expr, tirx.Add) else right.times(-1))


def _multiplied(left: Linear, right: Linear) -> Linear | None:
    """By a number; None where neither is one."""
    if not any(right.steps):
        return left.times(right.start)
    return None if any(left.steps) else right.times(left.start)
