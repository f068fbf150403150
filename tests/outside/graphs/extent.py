"""Extents of shapes: polynomials in symbols, such as 7, n, n*2 + 3 and m*n.

They compare equal if they are equal for every size, so that shapes can be broadcast and merged
without asking TVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tvm import tirx

# A monomial is its symbols in alphabetical order, as often as they occur; () stands for one.
Monomial = tuple[str, ...]


@dataclass(frozen=True, order=True)
class Extent:
    """A sum of monomials, each with a factor other than 0."""

    terms: tuple[tuple[Monomial, int], ...]

    @staticmethod
    def of(value: int | Extent) -> Extent:
        """A number as an extent."""
        return value if isinstance(value, Extent) else _extent({(): int(value)})

    @staticmethod
    def symbol(name: str) -> Extent:
        """A symbol as an extent."""
        return _extent({(name,): 1})

    @property
    def constant(self) -> int | None:
        """Its number, if it has no symbols."""
        if not self.terms:
            return 0
        return self.terms[0][1] if len(self.terms) == 1 and not self.terms[0][0] else None

    @property
    def symbols(self) -> frozenset[str]:
        """The symbols it depends on."""
        return frozenset(name for monomial, _ in self.terms for name in monomial)

    def size(self, sizes: Mapping[str, int]) -> int:
        """Its number for these sizes of the symbols."""
        total = 0
        for monomial, factor in self.terms:
            for name in monomial:
                factor *= sizes[name]
            total += factor
        return total

    def __add__(self, other: int | Extent) -> Extent:
        found = dict(self.terms)
        for monomial, factor in Extent.of(other).terms:
            found[monomial] = found.get(monomial, 0) + factor
        return _extent(found)

    def __mul__(self, other: int | Extent) -> Extent:
        found: dict[Monomial, int] = {}
        for left, a in self.terms:
            for right, b in Extent.of(other).terms:
                monomial = tuple(sorted((*left, *right)))
                found[monomial] = found.get(monomial, 0) + a * b
        return _extent(found)

    def __str__(self) -> str:
        parts = [
            "*".join([*monomial, *([str(factor)] if factor != 1 or not monomial else [])])
            for monomial, factor in self.terms
        ]
        return " + ".join(parts) or "0"

    def expr(self, symbols: Mapping[str, tirx.Var]) -> Any:
        """As TVM writes it: an int, or an expression in int64."""
        if self.constant is not None:
            return self.constant
        total: Any = None
        for monomial, factor in self.terms:
            product: Any = None
            for name in monomial:
                product = symbols[name] if product is None else product * symbols[name]
            if product is None:
                product = tirx.IntImm("int64", factor)
            elif factor != 1:
                product = product * tirx.IntImm("int64", factor)
            total = product if total is None else total + product
        return total

    def substitute(self, values: Mapping[str, int]) -> Extent:
        """With numbers for some symbols."""
        total = Extent.of(0)
        for monomial, factor in self.terms:
            product = Extent.of(factor)
            for name in monomial:
                product = product * (values[name] if name in values else Extent.symbol(name))
            total = total + product
        return total


def extent_of(expr: Any) -> Extent | None:
    """A TVM expression as an extent; None where it is no polynomial."""
    if isinstance(expr, tirx.IntImm | int):
        return Extent.of(int(expr))
    if isinstance(expr, tirx.Var):
        return Extent.symbol(expr.name)
    if isinstance(expr, tirx.Add | tirx.Sub | tirx.Mul):
        left, right = extent_of(expr.a), extent_of(expr.b)
        if left is None or right is None:
            return None
        if isinstance(expr, tirx.Mul):
            return left * right
        return left + (right if isinstance(expr, tirx.Add) else right * -1)
    return None


def _extent(found: Mapping[Monomial, int]) -> Extent:
    # Symbols first, as people write n*2 + 3.
    terms = [(monomial, factor) for monomial, factor in found.items() if factor]
    return Extent(tuple(sorted(terms, key=lambda term: (-len(term[0]), term))))
