"""Integer polynomials: sums, products and divisions with remainder, and which are never negative.

In: what the caller calls its variables, by number. Must not know expressions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

Monomial = tuple[int, ...]  # variables in order, each as often as it is multiplied
Polynomial = Mapping[Monomial, int]  # monomials with their coefficients, none of which is 0
# Of variables that may be at either end of their range: each doubles the cases of a proof.
MOST_RANGES = 8


def number(value: int) -> Polynomial:
    """A constant."""
    return {(): value} if value else {}


def variable(name: int) -> Polynomial:
    """A variable."""
    return {(name,): 1}


def plus(left: Polynomial, right: Polynomial, factor: int = 1) -> Polynomial:
    """One, and a multiple of the other."""
    total = Counter(left)
    for monomial, coefficient in right.items():
        total[monomial] += factor * coefficient
    return {monomial: value for monomial, value in total.items() if value}


def minus(left: Polynomial, right: Polynomial) -> Polynomial:
    """Their difference."""
    return plus(left, right, -1)


def times(left: Polynomial, right: Polynomial) -> Polynomial:
    """Their product."""
    total: Counter[Monomial] = Counter()
    for one, factor in left.items():
        for other, coefficient in right.items():
            total[tuple(sorted(one + other))] += factor * coefficient
    return {monomial: value for monomial, value in total.items() if value}


def variables(polynomial: Polynomial) -> set[int]:
    """The variables that it has."""
    return {name for monomial in polynomial for name in monomial}


def put(polynomial: Polynomial, name: int, value: Polynomial) -> Polynomial:
    """The polynomial where a variable is something else."""
    total: Polynomial = {}
    for monomial, coefficient in polynomial.items():
        term: Polynomial = {tuple(n for n in monomial if n != name): coefficient}
        for _ in range(monomial.count(name)):
            term = times(term, value)
        total = plus(total, term)
    return total


def scaled_down(polynomial: Polynomial, factor: int) -> Polynomial:
    """The polynomial by a number that divides all of its coefficients."""
    return {monomial: value // factor for monomial, value in polynomial.items()}


def divided(dividend: Polynomial, divisor: Polynomial) -> tuple[Polynomial, Polynomial]:
    """Quotient and rest: dividend = quotient * divisor + rest. The rest may be any number."""
    leading = max(divisor, key=_order)
    quotient: Polynomial = {}
    rest: Polynomial = {}
    left = dividend
    while left:
        monomial = max(left, key=_order)
        missing = over(monomial, leading)
        often = 0 if missing is None else left[monomial] // divisor[leading]
        if missing is not None and often:
            term = {missing: often}
            quotient, left = plus(quotient, term), minus(left, times(term, divisor))
        if monomial in left:
            rest = plus(rest, {monomial: left[monomial]})
            left = {other: value for other, value in left.items() if other != monomial}
    return quotient, rest


def is_never_negative(
    polynomial: Polynomial, last: Mapping[int, Polynomial], positive: set[int]
) -> bool:
    """Whether it can be seen to be at least 0, where no variable is negative.

    `last` are the largest values that some variables take, `positive` those that are at least 1.
    """
    ranges = [name for name in sorted(variables(polynomial)) if name in last]
    if len(ranges) > MOST_RANGES:
        return False
    if not ranges:
        return all(value > 0 for value in _shifted(polynomial, positive).values())
    name = ranges[-1]  # made of earlier ones, if of any
    if any(monomial.count(name) > 1 for monomial in polynomial):
        return False
    # Linear in it, and so least at one of the ends.
    ends = (put(polynomial, name, end) for end in ({}, last[name]))
    return all(is_never_negative(end, last, positive) for end in ends)


def _shifted(polynomial: Polynomial, positive: set[int]) -> Polynomial:
    """In variables that are less by 1, of those that are at least 1."""
    for name in variables(polynomial) & positive:
        polynomial = put(polynomial, name, plus(variable(name), number(1)))
    return polynomial


def _order(monomial: Monomial) -> tuple[int, Monomial]:
    return len(monomial), monomial


def over(monomial: Monomial, divisor: Monomial) -> Monomial | None:
    """What a monomial is of another one, if that divides it."""
    missing = Counter(monomial)
    missing.subtract(divisor)
    return None if min(missing.values(), default=0) < 0 else tuple(sorted(missing.elements()))
