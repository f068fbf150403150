"""TVM's analyzer, where axes have symbolic extents: it alone proves nothing of divisions by them.

In: axes, each from 0 to an extent. Out: what tvm.sym.Analyzer answers, of expressions whose
divisions by symbols are resolved as far as the ranges tell: `(i * n + j) // n` is `i` where `j` is
below `n`. What remains of them TVM sees as variables of known ranges. Symbols are not negative, and
positive where an extent or a divisor would otherwise be 0. Must not know stages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any, TypeAlias

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.stages import polynomial as poly
from tvm_stitch.stages.polynomial import Polynomial
from tvm_stitch.stages.visit import mapped

Expr = Any
Var = Any
_DIVISIONS = (tirx.FloorDiv, tirx.FloorMod)
_TRUNCATED = {tirx.FloorDiv: tirx.truncdiv, tirx.FloorMod: tirx.truncmod}
_ONE = poly.number(1)


def analyzer_of(extents: Mapping[Var, Expr]) -> Analyzer:
    """An analyzer that knows axes; TVM's own where their extents are numbers."""
    if not all(isinstance(extent, tirx.IntImm) for extent in extents.values()):
        return SymbolicAnalyzer(extents)
    analyzer = tvm.sym.Analyzer()
    for axis, extent in extents.items():
        analyzer.bind(axis, tvm.ir.Range(int64(0), extent))
    return analyzer


def is_multiple(value: Expr, of: Expr) -> bool:
    """Whether a size is so often another one."""
    rest = SymbolicAnalyzer({}).simplify(tirx.floormod(value, of))
    return isinstance(rest, tirx.IntImm) and int(rest) == 0


def quotient(value: Expr, divisor: Expr) -> Expr:
    """How often a size holds another one."""
    return SymbolicAnalyzer({}).simplify(tirx.floordiv(value, divisor))


class SymbolicAnalyzer:
    """See the module's docstring; it answers as tvm.sym.Analyzer does."""

    def __init__(self, extents: Mapping[Var, Expr]) -> None:
        self._tvm = tvm.sym.Analyzer()
        self._atoms: list[Expr] = []  # what polynomials have for variables, by number
        self._shown: list[Expr] = []  # the same as TVM sees it
        self._last: dict[int, Polynomial] = {}  # the largest value of some of them
        self._extents: list[Polynomial] = []
        self._found: dict[Any, Polynomial] = {}
        for var, extent in extents.items():
            self.bind(var, tvm.ir.Range(int64(0), extent))

    def bind(self, var: Var, values: tvm.ir.Range) -> None:
        """Say where a variable, which begins at 0, ends."""
        extent = self._polynomial(values.extent)
        self._tvm.bind(var, tvm.ir.Range(values.min, self._expression(extent, self._shown)))
        self._extents.append(extent)
        self._last[self._atom(var)] = poly.minus(extent, _ONE)

    def clone(self) -> SymbolicAnalyzer:
        """Another one that knows the same."""
        other = SymbolicAnalyzer({})
        other._tvm = self._tvm.clone()
        other._atoms, other._shown = list(self._atoms), list(self._shown)
        other._last, other._extents = dict(self._last), list(self._extents)
        return other

    def simplify(self, expr: Expr) -> Expr:
        """The expression with fewer divisions, and whatever else TVM finds."""
        found = self._tvm.simplify(self._seen(self._rejoined(expr)))
        pairs = zip(self._shown, self._atoms, strict=True)
        hidden = {shown: atom for shown, atom in pairs if _is_symbolic(atom)}
        return mapped(found, (tirx.Var, lambda var: hidden.get(var, var)))

    def can_prove_equal(self, left: Expr, right: Expr) -> bool:
        """Whether two expressions are seen to be equal."""
        if self._tvm.can_prove_equal(self._seen(left), self._seen(right)):
            return True
        return not self._written_out(poly.minus(self._polynomial(left), self._polynomial(right)))

    def modular_set(self, expr: Expr) -> Any:
        """As TVM has it."""
        return self._tvm.modular_set(self._seen(expr))

    def const_int_bound(self, expr: Expr) -> Any:
        """As TVM has it."""
        return self._tvm.const_int_bound(self._seen(expr))

    def is_never_negative(self, expr: Expr) -> bool:
        """Whether an expression of indices is seen to be at least 0.

        Axes, symbols and rests of divisions are; what else there is, as in memory, need not be.
        """
        value = self._polynomial(expr)
        atoms = (self._atoms[name] for name in poly.variables(value))
        return all(map(self._is_natural, atoms)) and poly.is_never_negative(
            value, self._last, self._positive({})
        )

    def _is_natural(self, atom: Expr) -> bool:
        if isinstance(atom, tirx.FloorDiv):
            return self.is_never_negative(atom.a)
        return isinstance(atom, tirx.Var | tirx.FloorMod)

    def truncated(self, expr: Expr) -> Expr:
        """The expression with divisions by symbols as CUDA's own, where that is the same.

        TVM asks for the signs of both sides at every division otherwise.
        """

        def cut(division: Expr) -> Expr:
            is_plain = _is_symbolic(division) and self.is_never_negative(division.a)
            kind = _TRUNCATED[type(division)] if is_plain else type(division)
            return kind(self.truncated(division.a), division.b)

        return mapped(expr, *((kind, cut) for kind in _DIVISIONS), pre=True)

    # Expressions

    def _rejoined(self, expr: Expr) -> Expr:
        """A sum without quotients and their rests, where these make up what was divided."""
        if not isinstance(expr, tirx.Add | tirx.Sub) or str(expr.ty.dtype) != "int64":
            return expr
        parted = self._polynomial(expr)
        if not self._has_divisions(parted):
            return expr
        value = self._written_out(parted)
        return expr if self._has_divisions(value) else self._expression(value, self._atoms)

    def _has_divisions(self, value: Polynomial) -> bool:
        """Whether divisions by symbols remain in it."""
        return any(_is_symbolic(self._atoms[name]) for name in poly.variables(value))

    def _seen(self, expr: Expr) -> Expr:
        """The expression with its divisions by symbols resolved, or as variables."""
        if isinstance(expr, int | tirx.IntImm | tirx.Var):
            return expr

        def resolved(division: Expr) -> Expr:
            if not _is_symbolic(division):
                return type(division)(self._seen(division.a), division.b)
            return self._expression(self._polynomial(division), self._shown)

        return mapped(expr, *((kind, resolved) for kind in _DIVISIONS), pre=True)

    def _polynomial(self, expr: Expr) -> Polynomial:
        """An expression of indices; what is neither sum, product nor division is a variable."""
        if isinstance(expr, int | tirx.IntImm):
            return poly.number(int(expr))
        operations: dict[type, Callable[..., Polynomial]] = {
            tirx.Add: poly.plus,
            tirx.Sub: poly.minus,
            tirx.Mul: poly.times,
            tirx.FloorDiv: partial(self._remembered, self._quotient),
            tirx.FloorMod: partial(self._remembered, self._rest),
        }
        operation = operations.get(type(expr))
        if operation is None:
            return poly.variable(self._atom(expr))
        return operation(self._polynomial(expr.a), self._polynomial(expr.b))

    def _atom(self, expr: Expr) -> int:
        """The number of what is a variable of polynomials."""
        for number, known in enumerate(self._atoms):
            if tvm_ffi.structural_equal(known, expr):
                return number
        shown = tirx.Var("division", "int64") if _is_symbolic(expr) else self._seen(expr)
        self._atoms.append(expr)
        self._shown.append(shown)
        return len(self._atoms) - 1

    def _expression(self, value: Polynomial, atoms: list[Expr]) -> Expr:
        """A polynomial as an expression of its variables as they are, or as TVM sees them."""
        total = int64(0)
        for monomial, coefficient in value.items():
            term = int64(coefficient)
            for name in monomial:
                term = term * atoms[name]
            total = total + term
        return total

    # Divisions

    def _remembered(
        self, find: Callable[..., Polynomial], dividend: Polynomial, divisor: Polynomial
    ) -> Polynomial:
        """What a division comes to, found once: the same ones are asked about again and again."""
        key = find.__name__, frozenset(dividend.items()), frozenset(divisor.items())
        if key not in self._found:
            self._found[key] = find(dividend, divisor)
        return self._found[key]

    def _quotient(self, dividend: Polynomial, divisor: Polynomial) -> Polynomial:
        quotient, rest = poly.divided(dividend, divisor)
        if not rest or self._is_below(rest, divisor):
            return quotient
        whole, left = self._by_parts(rest, divisor)
        if whole and self._is_below(left, divisor):
            return poly.plus(quotient, whole)
        unit, often, _ = self._in_units(rest, divisor)
        if unit > 1:
            inner = self._remembered(self._quotient, often, poly.scaled_down(divisor, unit))
            return poly.plus(quotient, inner)
        atom = self._division(tirx.FloorDiv, rest, divisor)
        last = self._last_quotient(rest, divisor)
        if last is not None:
            self._know(atom, last)
        return poly.plus(quotient, poly.variable(atom))

    def _rest(self, dividend: Polynomial, divisor: Polynomial) -> Polynomial:
        _, rest = poly.divided(dividend, divisor)
        if not rest or self._is_below(rest, divisor):
            return rest
        whole, left = self._by_parts(rest, divisor)
        if whole and self._is_below(left, divisor):
            return left
        unit, often, left = self._in_units(rest, divisor)
        if unit > 1:
            inner = self._remembered(self._rest, often, poly.scaled_down(divisor, unit))
            return poly.plus(poly.times(poly.number(unit), inner), left)
        atom = self._division(tirx.FloorMod, rest, divisor)
        self._know(atom, poly.minus(divisor, _ONE))
        return poly.variable(atom)

    def _by_parts(self, rest: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
        """Quotient and rest where axes are divided by what a divisor is more often than their unit.

        Of `c * s + i` by `10 * s` the axis `c` is divided by 10.
        """
        whole: Polynomial = {}
        if len(divisor) > 1:
            return whole, rest
        ((symbols, times),) = divisor.items()
        for monomial, unit in rest.items():
            axes = poly.over(monomial, symbols) if symbols else None
            if axes is None or len(axes) != 1 or unit <= 0 or times % unit or unit == times:
                continue
            axis, often = poly.variable(axes[0]), poly.number(times // unit)
            whole = poly.plus(whole, self._remembered(self._quotient, axis, often))
            inside = poly.times({symbols: unit}, self._remembered(self._rest, axis, often))
            rest = poly.plus(poly.minus(rest, {monomial: unit}), inside)
        return whole, rest

    def _in_units(
        self, dividend: Polynomial, divisor: Polynomial
    ) -> tuple[int, Polynomial, Polynomial]:
        """A unit of which a divisor is a multiple, how often a dividend has it, and what is left.

        Of `8 * i + j` by `16 * s` with `j` below 8, vectors of 8: all lanes of one have the same
        quotient. The unit is 1 where there is none.
        """
        whole = math.gcd(*divisor.values())
        for unit in sorted({math.gcd(whole, each) for each in dividend.values()}, reverse=True):
            often = {m: each // unit for m, each in dividend.items() if each % unit == 0}
            left = {m: each for m, each in dividend.items() if each % unit}
            if unit > 1 and often and self._is_below(left, poly.number(unit)):
                return unit, often, left
        return 1, dividend, {}

    def _division(self, kind: Any, rest: Polynomial, divisor: Polynomial) -> int:
        """One that remains; a quotient of a quotient is one of the product."""
        ((monomial, coefficient), *more) = rest.items()
        only = self._atoms[monomial[0]] if len(monomial) == 1 and coefficient == 1 else None
        if kind is tirx.FloorDiv and not more and isinstance(only, tirx.FloorDiv):
            rest, inner = self._polynomial(only.a), self._polynomial(only.b)
            divisor = poly.times(inner, divisor)
        parts = (self._expression(part, self._atoms) for part in (rest, divisor))
        return self._atom(kind(*parts))

    def _know(self, atom: int, last: Polynomial) -> None:
        """That a division is at least 0, and at most this."""
        if atom in self._last:
            return
        self._last[atom] = last
        if _is_symbolic(self._atoms[atom]):
            extent = self._expression(poly.plus(last, _ONE), self._shown)
            self._tvm.bind(self._shown[atom], tvm.ir.Range(int64(0), extent))

    def _last_quotient(self, dividend: Polynomial, divisor: Polynomial) -> Polynomial | None:
        """The largest quotient of what is never negative and grows with all of its variables."""
        if any(coefficient < 0 for coefficient in dividend.values()):
            return None
        for name in sorted(poly.variables(dividend) & self._last.keys(), reverse=True):
            dividend = poly.put(dividend, name, self._last[name])
        # Whatever is below q times the divisor is divided to less than q.
        most, rest = poly.divided(poly.plus(dividend, _ONE), divisor)
        return None if rest else poly.minus(most, _ONE)

    def _written_out(self, value: Polynomial) -> Polynomial:
        """The same without rests, which are what quotients leave of dividends."""
        for name in sorted(poly.variables(value), reverse=True):
            atom = self._atoms[name]
            if isinstance(atom, tirx.FloorMod):
                dividend, divisor = self._polynomial(atom.a), self._polynomial(atom.b)
                quotient = self._remembered(self._quotient, dividend, divisor)
                taken = poly.times(quotient, divisor)
                value = self._written_out(poly.put(value, name, poly.minus(dividend, taken)))
        return value

    def _is_below(self, value: Polynomial, divisor: Polynomial) -> bool:
        """Whether a value is neither negative nor as large as the divisor."""
        room = poly.minus(poly.minus(divisor, _ONE), value)
        positive = self._positive(divisor)
        return all(poly.is_never_negative(each, self._last, positive) for each in (value, room))

    def _positive(self, divisor: Polynomial) -> set[int]:
        """Variables that are at least 1, or an extent or the divisor would be 0."""
        return {
            name
            for each in (divisor, *self._extents)
            for name in poly.variables(each) - self._last.keys()
            if not poly.put(each, name, {})
        }


def _is_symbolic(expr: Expr) -> bool:
    """Whether it is a division that TVM makes nothing of."""
    return isinstance(expr, _DIVISIONS) and not isinstance(expr.b, tirx.IntImm)


@lru_cache(maxsize=1 << 12)
def int64(value: int) -> Expr:
    """A constant index, one object where it is asked for often: TVM takes long to make one."""
    return tirx.IntImm("int64", value)


Analyzer: TypeAlias = tvm.sym.Analyzer | SymbolicAnalyzer
