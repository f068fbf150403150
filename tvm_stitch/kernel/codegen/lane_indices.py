"""Indices at the lanes of a vector, whose divisions are done once for all lanes.

In: expressions of a counter, such as the axes and addresses of an element by its column, and the
vector's first value of the counter, a multiple of the lanes. Writes what they are there in front of
the loop over the lanes. Out: what they are at a lane. Quotients by a number are the first lane's or
the next, which a comparison tells, and whatever is linear in quotients and rests moves by constants
(strength reduction): dividing for each of 8 lanes took a kernel that pads images half of its time.
A divisor that is a multiple of the lanes has one quotient for all of them; one that divides them
has the next after so many. Quotients by other numbers that are less than the lanes stay as they
are. Must not know what is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import gcd

import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.codegen.tir_builder import Writer
from tvm_stitch.stages.indices import MOST_NARROW, NARROW, WIDE
from tvm_stitch.stages.stage import Expr, Var, as_int64, constant, dtype_of, substitute
from tvm_stitch.stages.symbolic_analyzer import Analyzer, int64
from tvm_stitch.stages.visit import mapped, walked

_LINEAR = (tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv, tirx.FloorMod)
_INDICES = (*_LINEAR, tirx.Min, tirx.Max)
_LANE = 1  # among divisors: the counter itself, whose next quotient is the next lane
# By how much something moves with each next quotient by a divisor.
Moves = dict[int, int]


class LaneIndices:
    """What expressions of a counter are at the lanes of one vector."""

    def __init__(
        self,
        writer: Writer,
        counter: Var,
        first: Mapping[Var, Expr],
        lanes: int,
        analyzer: Analyzer,
        exprs: Iterable[Expr],
    ) -> None:
        """`first` says what variables are at the first lane, `analyzer` what they may be."""
        self.writer, self.counter, self.first, self.lanes = writer, counter, first, lanes
        self.analyzer = analyzer
        known = list(exprs)
        self._divisors = self._divisors_of(known)
        self._moving: dict[tvm_ffi.StructuralKey, tuple[Expr, Moves]] = {}
        if self._divisors:
            self._carries = {d: self._carry(d) for d in self._divisors}
            for expr in known:
                mapped(expr, *((kind, self._found) for kind in _LINEAR), pre=True)

    def _divisors_of(self, exprs: Iterable[Expr]) -> list[int]:
        """Those of quotients that change inside of a vector, once at most."""
        found: set[int] = set()

        def visit(node: Expr) -> None:
            found.update(end for end in self._digit(node) or () if end)

        for expr in exprs:
            walked(expr, (tirx.FloorDiv, visit), (tirx.FloorMod, visit))
        return sorted(d for d in found if d >= self.lanes and d % self.lanes)

    def _inner(self, divisor: int) -> int | None:
        """The largest other divisor of which this is a multiple."""
        return max((d for d in self._divisors if d < divisor and divisor % d == 0), default=None)

    def _carry(self, divisor: int) -> Expr:
        """Write what tells when the next quotient comes, of the first lane.

        That is the rest, or whether the next quotient by the inner divisor is a carry.
        """
        inner = self._inner(divisor)
        if inner is None:
            rest = tirx.floormod(self.first[self.counter], divisor)
            return self.writer.value("rest", rest.astype(_dtype(divisor)))
        digit = tirx.floormod(tirx.floordiv(self.first[self.counter], inner), divisor // inner)
        return self.writer.value("is_last", tirx.EQ(digit, int64(divisor // inner - 1)))

    def _found(self, node: Expr) -> Expr:
        """Write what a node is at the first lane, if it moves by constants; no matter its parts."""
        moves = self._moves(node)
        if not moves or not self._divisors_of([node]):
            return node
        key = tvm_ffi.StructuralKey(node)
        if key not in self._moving:
            dtype = NARROW if self.is_narrow(node) else WIDE
            at_first = substitute(node, self.first).astype(dtype)
            self._moving[key] = self.writer.value("at_first", at_first), moves
        return int64(0)

    def _digit(self, node: Expr) -> tuple[int, int | None] | None:
        """Of which divisors it is the quotient: by the one, up to multiples of the other."""
        if isinstance(node, tirx.Var):
            return (_LANE, None) if node.same_as(self.counter) else None
        if not isinstance(node, tirx.FloorDiv | tirx.FloorMod):
            return None
        of, by = self._digit(node.a), constant(node.b)
        if of is None or not by or by < 0:
            return None
        low, high = of
        if high is not None and high % (low * by):
            return None
        return (low * by, high) if isinstance(node, tirx.FloorDiv) else (low, low * by)

    def _moves(self, node: Expr) -> Moves | None:
        """See Moves; None: not by constants."""
        if isinstance(node, tirx.Add | tirx.Sub):
            sign = 1 if isinstance(node, tirx.Add) else -1
            return _sum(self._moves(node.a), self._moves(node.b), sign)
        if isinstance(node, tirx.Mul):
            by, moves = constant(node.b), self._moves(node.a)
            return None if by is None or moves is None else {d: n * by for d, n in moves.items()}
        digit = self._digit(node)
        if digit is None:
            fixed = not any(self.counter.same_as(v) for v in tirx.analysis.undefined_vars(node))
            return {} if fixed else None
        low, high = digit
        moves = {low: 1} | ({} if high is None else {high: -(high // low)})
        # Of a multiple of the lanes there is one quotient for all.
        moves = {d: by for d, by in moves.items() if d % self.lanes}
        known = all(self.lanes % d == 0 or d in self._divisors for d in moves)
        return moves if known else None

    def at(self, lane: Expr) -> Callable[[Expr], Expr]:
        """What expressions are at a lane; each is written once."""
        return _AtLane(self, lane)

    def steps(self, lane: Expr) -> dict[int, Expr]:
        """Write for each divisor whether the quotient is the next one."""
        found: dict[int, Expr] = {}
        for divisor in self._divisors:
            inner, carry = self._inner(divisor), self._carries[divisor]
            if inner is None:
                # Of lanes between multiples of what divides both, all have the same quotient, and
                # the CUDA compiler loads once for them.
                alike = gcd(divisor, self.lanes)
                begin = tirx.floordiv(lane, alike) * alike
                is_next = carry + begin.astype(dtype_of(carry)) >= divisor
            else:
                is_next = tirx.And(found[inner], carry)
            found[divisor] = self.writer.value("is_next", is_next)
        return found

    def moving(self, node: Expr) -> tuple[Expr, Moves] | None:
        """What a node is at the first lane, and how it moves, if that is written."""
        return self._moving.get(tvm_ffi.StructuralKey(node)) if self._moving else None

    def is_narrow(self, node: Expr) -> bool:
        """Whether 32 bits hold it, wherever the counter is."""
        bound = self.analyzer.const_int_bound(node)
        return _dtype(max(abs(bound.min_value), abs(bound.max_value))) == NARROW


class _AtLane:
    """What expressions are at one lane."""

    def __init__(self, indices: LaneIndices, lane: Expr) -> None:
        self._indices, self._lane, self._writer = indices, lane, indices.writer
        self._steps = indices.steps(lane)
        self._here = {**indices.first, indices.counter: indices.first[indices.counter] + lane}
        self._known: dict[tvm_ffi.StructuralKey, Expr] = {}

    def __call__(self, expr: Expr) -> Expr:
        if self._steps:
            expr = mapped(expr, *((kind, self._placed) for kind in _INDICES), pre=True)
        return substitute(expr, self._here)

    def _placed(self, node: Expr) -> Expr:
        """Write a node that moves or is made of such.

        TVM knows no bounds of what is written: as much as 32 bits hold is written at once.
        """
        if dtype_of(node) != WIDE or not self._is_made_of_moving(node):
            return node
        key = tvm_ffi.StructuralKey(node)
        if key not in self._known:
            value = self._moved(node)
            value = self._narrow(node) if value is None else value
            if value is None:
                return node
            self._known[key] = as_int64(self._writer.value("at_lane", value))
        return self._known[key]

    def _is_made_of_moving(self, node: Expr) -> bool:
        found: list[Expr] = []

        def visit(part: Expr) -> None:
            if not found and self._indices.moving(part) is not None:
                found.append(part)

        walked(node, *((kind, visit) for kind in _LINEAR))
        return bool(found)

    def _moved(self, node: Expr) -> Expr | None:
        found = self._indices.moving(node)
        if found is None:
            return None
        value, moves = found
        dtype = dtype_of(value)
        for divisor, by in sorted(moves.items()):
            if self._indices.lanes % divisor == 0:
                value += tirx.floordiv(self._lane, divisor).astype(dtype) * by
            else:
                ways = tirx.const(by, dtype), tirx.const(0, dtype)
                value += tirx.Select(self._steps[divisor], *ways)
        return value

    def _narrow(self, node: Expr) -> Expr | None:
        """A node in 32 bits; None: they do not hold all that it is made of."""
        if isinstance(node, tirx.IntImm):
            return tirx.IntImm(NARROW, node.value)
        moved = self._moved(node) if isinstance(node, _LINEAR) else None
        if moved is not None:
            return moved if dtype_of(moved) == NARROW else None
        if not self._indices.is_narrow(node):
            return None
        if isinstance(node, tirx.Select):
            left, right = self._narrow(node.true_value), self._narrow(node.false_value)
            known = left is not None and right is not None
            return tirx.Select(self(node.condition), left, right) if known else None
        if isinstance(node, _INDICES):
            left, right = self._narrow(node.a), self._narrow(node.b)
            return None if left is None or right is None else type(node)(left, right)
        return substitute(node, self._here).astype(NARROW)


def _dtype(most: int) -> str:
    """Of an index that is no more: 64 bits take twice the instructions."""
    return NARROW if most < MOST_NARROW else WIDE


def _sum(left: Moves | None, right: Moves | None, sign: int) -> Moves | None:
    if left is None or right is None:
        return None
    total = {d: left.get(d, 0) + sign * right.get(d, 0) for d in left.keys() | right.keys()}
    return {d: by for d, by in total.items() if by}
