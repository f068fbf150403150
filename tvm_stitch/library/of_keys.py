"""Sizes that follow from a number of keys which is counted at run time only, as plain data.

In: coefficients. Out: what sums, products and quotients of such sizes and of numbers come to. Knows
no attention.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any


@dataclass(frozen=True)
class OfKeys:
    """A polynomial: the sum of each coefficient by that power of the number of keys, from 0 on.

    There are at least two coefficients, and the last is above 0.
    """

    coefficients: tuple[int, ...]

    def at(self, keys: Any) -> Any:
        """The size for so many keys, which may be an expression."""
        *others, size = self.coefficients
        for each in reversed(others):
            size = size * keys + each
        return size

    def __add__(self, other: int | OfKeys) -> OfKeys:
        pairs = zip_longest(self.coefficients, _coefficients(other), fillvalue=0)
        return OfKeys(tuple(map(sum, pairs)))

    def __mul__(self, other: int | OfKeys) -> int | OfKeys:
        if other == 0:
            return 0
        found = [0] * (len(self.coefficients) + len(_coefficients(other)) - 1)
        for power, each in enumerate(self.coefficients):
            for own, factor in enumerate(_coefficients(other)):
                found[power + own] += each * factor
        return OfKeys(tuple(found))

    __radd__, __rmul__ = __add__, __mul__


KEYS = OfKeys((0, 1))
"""The number of keys itself."""


def quotient(size: int | OfKeys, of: int | OfKeys) -> int | OfKeys | None:
    """How many times a size is another one; None unless it is so for any number of keys."""
    if isinstance(of, int):
        if any(each % of for each in _coefficients(size)):
            return None
        return (
            OfKeys(tuple(n // of for n in size.coefficients))
            if isinstance(size, OfKeys)
            else size // of
        )
    times, rest = divmod(_coefficients(size)[-1], of.coefficients[-1])
    return times if not rest and of * times == size else None


def _coefficients(size: int | OfKeys) -> tuple[int, ...]:
    return size.coefficients if isinstance(size, OfKeys) else (size,)
