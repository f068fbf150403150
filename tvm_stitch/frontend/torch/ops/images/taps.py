"""Which elements an interpolation makes an element of along an axis, and with which weights.

In: the extents of an axis before and after, and how PyTorch maps one to the other. Out: Taps, whose
transpose is the gradient. Worked out once, in float64 where no element is chosen by rounding, so
that kernels read small tables and divide nothing. Must not know tensors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

Scale = float | None
_CUBIC = -0.75
"""The free coefficient of cubic convolution, as PyTorch has it."""


@dataclass(frozen=True, eq=False)
class Taps:
    """Element n is the sum of source[first[n] + k] * weights[n, k] over k: all within the source.

    All have as many taps as need most: others have weights of 0, which make nothing of what is
    not finite.
    """

    source: int  # how many elements there are to take from
    first: np.ndarray
    weights: np.ndarray

    @property
    def count(self) -> int:
        """Taps of an element."""
        return int(self.weights.shape[1])

    @property
    def made(self) -> int:
        """How many elements are made."""
        return len(self.first)

    @property
    def is_copy(self) -> bool:
        """Whether every element stays where it is."""
        ordered = self.made == self.source and bool((self.first == np.arange(self.made)).all())
        return ordered and self.is_plain and self.count == 1

    @property
    def is_sum(self) -> bool:
        """Whether there is one element, and it is the sum of all."""
        return self.made == 1 < self.source == self.count and self.is_plain

    @cached_property
    def progression(self) -> tuple[int, int, int] | None:
        """Numbers by which first[n] is (n * step + ahead) // every, if there are such.

        Those of whole ratios: kernels compute these places, and load neighbours at once.
        """
        start = int(self.first[0])
        ends = np.flatnonzero(np.diff(self.first))  # of runs of the same place
        if not len(ends):
            return 0, start, 1
        every = int(np.diff(ends)[0]) if len(ends) > 1 else int(ends[0]) + 1
        step = int(self.first[ends[0] + 1]) - start
        ahead = start * every + (every - 1 - int(ends[0])) * step
        found = (np.arange(self.made) * step + ahead) // every
        return (step, ahead, every) if (found == self.first).all() else None

    @property
    def tables(self) -> tuple[np.ndarray, ...]:
        """What kernels read: where taps begin, then the weights of each, as far as these differ."""
        firsts = () if self.progression else (self.first,)
        return firsts if self.is_plain else (*firsts, *np.ascontiguousarray(self.weights.T))

    @property
    def is_plain(self) -> bool:
        """Whether all taps count, as they are."""
        return bool((self.weights == 1).all())

    @staticmethod
    def of(source: int, places: np.ndarray, weights: np.ndarray) -> Taps:
        """Of places [made, taps], which may be beyond the source or the same, and their weights."""
        made = np.broadcast_to(np.arange(len(places))[:, None], places.shape)
        places = places.clip(0, source - 1)
        return _gathered(source, len(places), made.ravel(), places.ravel(), weights.ravel())

    def transposed(self) -> Taps:
        """Of each element of the source, what it gives to: how gradients go."""
        made, tap = np.nonzero(self.weights)
        places = self.first[made] + tap
        return _gathered(self.made, self.source, places, made, self.weights[made, tap])


def _gathered(
    source: int, made: int, to: np.ndarray, places: np.ndarray, weights: np.ndarray
) -> Taps:
    """What goes from a place of the source to one of the `made` elements, with a weight each."""
    to, places, weights = (each[weights != 0] for each in (to, places, weights))
    first, last = np.full(made, source), np.full(made, -1)
    np.minimum.at(first, to, places)
    np.maximum.at(last, to, places)
    count = max(int((last - first).max()) + 1, 1)
    first = np.minimum(first, source - count)
    table = np.zeros((made, count))
    np.add.at(table, (to, places - first[to]), weights)
    return Taps(source, first.astype("int32"), table.astype("float32"))


def nearest(source: int, made: int, scale: Scale) -> Taps:
    """The element that a position falls on."""
    return _of_nearest(source, made, scale, 0.0)


def nearest_exact(source: int, made: int, scale: Scale) -> Taps:
    """The element that the middle of an element falls on."""
    return _of_nearest(source, made, scale, 0.5)


def _of_nearest(source: int, made: int, scale: Scale, ahead: float) -> Taps:
    """By positions in float32, as PyTorch counts them: others may fall on other elements."""
    step = np.float32(1.0 / scale) if scale else np.float32(source) / np.float32(made)
    at = (np.arange(made, dtype=np.float32) + np.float32(ahead)) * step
    places = np.floor(at).astype(np.int64)[:, None]
    return Taps.of(source, places, np.ones(places.shape))


def linear(source: int, made: int, align_corners: bool, scale: Scale) -> Taps:
    """The two elements that a position is between."""
    at = _positions(source, made, align_corners, scale).clip(0, source - 1)
    low = np.floor(at)
    share = at - low
    return _between(source, low, [1 - share, share], first=0)


def cubic(source: int, made: int, align_corners: bool, scale: Scale) -> Taps:
    """The four elements around a position; those beyond an end are the last there."""
    at = _positions(source, made, align_corners, scale)
    low = np.floor(at)
    return _between(source, low, cubic_weights(at - low), first=-1)


def cubic_weights(share: Any) -> list[Any]:
    """How much four elements count, of which the second lies so far before a place."""
    return [_far(share + 1), _close(share), _close(1 - share), _far(2 - share)]


def _between(source: int, low: np.ndarray, weights: list[np.ndarray], first: int) -> Taps:
    places = low.astype(np.int64)[:, None] + np.arange(first, first + len(weights))
    return Taps.of(source, places, np.stack(weights, 1))


def _positions(source: int, made: int, align_corners: bool, scale: Scale) -> np.ndarray:
    numbers = np.arange(made, dtype=np.float64)
    if align_corners:
        return numbers * ((source - 1) / (made - 1) if made > 1 else 0.0)
    return (numbers + 0.5) * (1.0 / scale if scale else source / made) - 0.5


def _close(distance: Any) -> Any:
    return ((_CUBIC + 2) * distance - (_CUBIC + 3)) * distance * distance + 1


def _far(distance: Any) -> Any:
    return ((_CUBIC * distance - 5 * _CUBIC) * distance + 8 * _CUBIC) * distance - 4 * _CUBIC
