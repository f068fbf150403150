"""Sizes that follow from what is counted at run time only, keys and entries of a batch, as data.

In: terms. Out: what sums, products and quotients of such sizes and of numbers come to. Knows no
attention.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_Powers = tuple[int, int]


@dataclass(frozen=True)
class OfCounts:
    """A polynomial of two counts.

    Each term is a power of the number of keys, one of the number of entries of a batch, and their
    coefficient. Terms are in order, none is 0, and the last one counts something.
    """

    terms: tuple[tuple[int, int, int], ...]

    def at(self, keys: Any, batch: Any) -> Any:
        """The size for so many keys and entries, which may be expressions."""
        size: Any = 0
        for of_keys, of_batch, term in reversed(self.terms):
            for count in (*[keys] * of_keys, *[batch] * of_batch):
                term = count * term
            size = size + term
        return size

    def __add__(self, other: int | OfCounts) -> OfCounts:
        found = Counter(_terms(self))
        found.update(_terms(other))
        return _of_terms(found)

    def __mul__(self, other: int | OfCounts) -> int | OfCounts:
        if other == 0:
            return 0
        found: Counter[_Powers] = Counter()
        for one, coefficient in _terms(self).items():
            for powers, factor in _terms(other).items():
                found[one[0] + powers[0], one[1] + powers[1]] += coefficient * factor
        return _of_terms(found)

    __radd__, __rmul__ = __add__, __mul__


KEYS = OfCounts(((1, 0, 1),))
"""The number of keys itself."""

BATCH = OfCounts(((0, 1, 1),))
"""The number of entries of a batch."""


def quotient(size: int | OfCounts, of: int | OfCounts) -> int | OfCounts | None:
    """How many times a size is another one; None unless it is so whatever is counted."""
    if isinstance(of, int):
        if isinstance(size, int):
            return None if size % of else size // of
        if any(coefficient % of for *_, coefficient in size.terms):
            return None
        return OfCounts(tuple((*powers, n // of) for *powers, n in size.terms))  # type: ignore[misc]
    if isinstance(size, int):
        return None
    times, rest = divmod(size.terms[-1][-1], of.terms[-1][-1])
    return times if not rest and of * times == size else None


def _terms(size: int | OfCounts) -> dict[_Powers, int]:
    if isinstance(size, int):
        return {(0, 0): size}
    return {(keys, batch): coefficient for keys, batch, coefficient in size.terms}


def _of_terms(found: Mapping[_Powers, int]) -> OfCounts:
    return OfCounts(tuple((*powers, n) for powers, n in sorted(found.items()) if n))
