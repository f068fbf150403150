"""Conditions under which branches are taken, short where branches are nested deeply.

In: the conditions of branches, from the outermost on. Out: one condition. Of a stack or a
concatenation, which choose among many tensors by one index, it is the interval that is left: TVM
takes minutes over a conjunction of hundreds. Must not know stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from types import MappingProxyType
from typing import Any

import tvm_ffi
from tvm import tirx

Expr = Any
# From the first integer to the last; None: no end on this side.
Interval = tuple[int | None, int | None]

# Up to so many conditions stand as they came.
MOST_CONDITIONS = 8


def is_branch(call: Any) -> bool:
    """Whether a call takes one of two values, and computes no other."""
    return bool(getattr(call.op, "name", "").endswith("if_then_else"))


@dataclass(frozen=True, eq=False)
class Guard:
    """What must hold in a branch: its own condition, and those of the branches around it."""

    condition: Expr
    around: Guard | None
    depth: int
    within: Within | None  # the same if all of them are about one index

    @staticmethod
    def of(condition: Expr, around: Guard | None, negated: bool = False) -> Guard:
        """That of a branch in another one, or of what is taken where the condition fails."""
        own = within(condition)
        if own is not None and negated:
            own = own.complement()
        if around is not None:
            own = around.within.both(own) if around.within is not None else None
        condition = tirx.Not(condition) if negated else condition
        return Guard(condition, around, around.depth + 1 if around else 1, own)

    @property
    def expr(self) -> Expr:
        """All of it as one condition."""
        if self.depth > MOST_CONDITIONS and self.within is not None:
            return self.within.expr
        conditions: list[Expr] = []
        guard: Guard | None = self
        while guard is not None:
            conditions.append(guard.condition)
            guard = guard.around
        found = conditions.pop()
        while conditions:
            found = tirx.all(found, conditions.pop())
        return found


@dataclass(frozen=True, eq=False)
class Within:
    """An index that is in one of some intervals, which are in order and apart."""

    index: Expr
    intervals: tuple[Interval, ...]

    def complement(self) -> Within:
        """Where it is in none."""
        found: list[Interval] = []
        start: int | None = None
        for first, last in self.intervals:
            if first is not None:
                found.append((start, first - 1))
            if last is None:
                return Within(self.index, tuple(found))
            start = last + 1
        return Within(self.index, (*found, (start, None)))

    def both(self, other: Within | None) -> Within | None:
        """Where it is in those of another as well, which is about the same index."""
        if other is None or not tvm_ffi.structural_equal(self.index, other.index):
            return None
        pairs = (
            (_largest(a[0], b[0]), _smallest(a[1], b[1]))
            for a in self.intervals
            for b in other.intervals
        )
        found = tuple(p for p in pairs if p[0] is None or p[1] is None or p[0] <= p[1])
        return Within(self.index, found)

    def is_apart(self, other: Within) -> bool:
        """Whether the index, which is the other's as well, cannot be in intervals of both."""
        both = self.both(other)
        return both is not None and not both.intervals

    def size(self, extent: int) -> int:
        """How many there are from 0 on, of so many."""
        ends = [
            (0 if first is None else max(first, 0), extent - 1 if last is None else last)
            for first, last in self.intervals
        ]
        return sum(max(0, min(last, extent - 1) - first + 1) for first, last in ends)

    @property
    def expr(self) -> Expr:
        """As a condition."""
        parts = [self._in(interval) for interval in self.intervals]
        return tirx.any(*parts) if parts else tirx.const(False, "bool")

    def _in(self, interval: Interval) -> Expr:
        first, last = interval
        if first is not None and first == last:
            return tirx.EQ(self.index, self._number(first))
        ends = [] if first is None else [tirx.LE(self._number(first), self.index)]
        # Less than the next number, which TVM simplifies for the lanes of a vector: `q * 4 + lane
        # < 64` is `q < 16`, of `q * 4 + lane <= 63` it finds nothing.
        ends += [] if last is None else [tirx.LT(self.index, self._number(last + 1))]
        return tirx.all(*ends) if ends else tirx.const(True, "bool")

    def _number(self, value: int) -> Expr:
        return tirx.IntImm(str(self.index.ty.dtype), value)


def within(condition: Expr) -> Within | None:
    """A condition on one index, if it compares that with a number."""
    if isinstance(condition, tirx.Not):
        negated = within(condition.a)
        return None if negated is None else negated.complement()
    if not isinstance(condition, tirx.EQ | tirx.NE | tirx.LT | tirx.LE | tirx.GT | tirx.GE):
        return None
    left, right = condition.a, condition.b
    if isinstance(left, tirx.IntImm) == isinstance(right, tirx.IntImm):
        return None
    kind, mirrored = type(condition).__name__, isinstance(left, tirx.IntImm)
    index, number = (right, int(left.value)) if mirrored else (left, int(right.value))
    if str(index.ty.dtype) not in ("int32", "int64"):
        return None
    if mirrored:
        kind = {"LT": "GT", "LE": "GE", "GT": "LT", "GE": "LE"}.get(kind, kind)
    intervals: dict[str, tuple[Interval, ...]] = {
        "EQ": ((number, number),),
        "NE": ((None, number - 1), (number + 1, None)),
        "LT": ((None, number - 1),),
        "LE": ((None, number),),
        "GT": ((number + 1, None),),
        "GE": ((number, None),),
    }
    return Within(index, intervals[kind])


def conjuncts(guard: Expr) -> list[Expr]:
    """The conditions that all must hold, the outermost first."""
    if not isinstance(guard, tirx.And):
        return [guard]
    return [*conjuncts(guard.a), *conjuncts(guard.b)]


def innermost(guard: Expr) -> Within | None:
    """Where the index of the last condition is, by all conditions on it; None: it is about none."""
    found: Within | None = None
    for condition in reversed(conjuncts(guard)):
        own = within(condition)
        if found is None and own is None:
            return None
        found = own if found is None else found.both(own) or found
    return found


def least_values(guard: Expr) -> dict[Expr, int]:
    """What indices are at least where a condition holds, as far as it compares them with numbers.

    Indices are told apart as they are: variables, for whoever looks them up.
    """
    values: dict[Expr, int] = {}
    for condition in conjuncts(guard):
        found = within(condition)
        least = found.intervals[0][0] if found is not None and found.intervals else None
        if found is not None and least is not None:
            values[found.index] = max(values.get(found.index, least), least)
    return values


# What indices are in, by their handles, as far as conditions compare them with numbers.
Known = Mapping[int, Within]
NOTHING_KNOWN: Known = MappingProxyType({})


def narrowed(known: Known, condition: Expr, extents: Mapping[Expr, int]) -> Known:
    """What is known of the indices that have extents where a condition holds as well."""
    found = dict(known)
    for each in conjuncts(condition):
        own = within(each)
        if own is not None and own.index in extents:
            index = own.index.__chandle__()
            found[index] = own.both(found.get(index)) or own
    return found


def share_of(known: Known, extents: Mapping[Expr, int]) -> float:
    """Of how many values of its indices it holds."""
    return prod(each.size(extents[each.index]) / extents[each.index] for each in known.values())


def share(guard: Expr, extents: Mapping[Expr, int]) -> float:
    """Of how many values of some indices a condition holds, as far as it compares with numbers."""
    return share_of(narrowed(NOTHING_KNOWN, guard, extents), extents)


def _largest(*ends: int | None) -> int | None:
    return max((end for end in ends if end is not None), default=None)


def _smallest(*ends: int | None) -> int | None:
    return min((end for end in ends if end is not None), default=None)


def without(var: tirx.Var, condition: Expr, analyzer: Any) -> Expr | None:
    """A condition that does not depend on a variable, without it; None: it may depend.

    TVM simplifies `q * 8 + lane < 64` to `q < 8`, but not `64 <= q * 8 + lane`.
    """
    found = analyzer.simplify(condition)
    if not mentions(found, var):
        return found
    negated = analyzer.simplify(tirx.Not(condition))
    return None if mentions(negated, var) else analyzer.simplify(tirx.Not(negated))


def mentions(expr: Expr, var: tirx.Var) -> bool:
    """Whether a variable occurs in an expression."""
    return any(var.same_as(used) for used in tirx.analysis.undefined_vars(expr))
