"""Which windows along an axis of an image have an element, and where in them it is.

In: the window's size, stride and padding, positions along the axis. Out: expressions. Knows no
operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tirx

Expr = Any


@dataclass(frozen=True, eq=False)
class Holding:
    """A window that may have an element."""

    nearest: Expr  # its number, or that of the nearest there is: reading there takes no branch
    offset: Expr  # of the element in it
    inside: tuple[Expr, ...]  # what must hold for it to be there and to have the element


@dataclass(frozen=True)
class Windows:
    """Windows along one axis: the first begins so many elements before the image."""

    size: int
    stride: int
    padding: int

    def holding(self, at: Expr, count: Expr) -> Iterator[Holding]:
        """Of `count` windows those that may have the element at a position, in their order."""
        ahead = at + self.padding
        for back in range(-(-self.size // self.stride) - 1, -1, -1):
            number = tirx.floordiv(ahead, self.stride) - back
            offset = ahead - number * self.stride
            inside = (number >= 0, number < count, offset < self.size)
            yield Holding(_clamped(number, count), offset, inside)

    def element(self, window: Expr, step: Expr) -> Expr:
        """Where a window has an element, by its place in there: perhaps outside of the image."""
        return window * self.stride + (step - self.padding)


def _clamped(place: Expr, extent: Expr) -> Expr:
    """A place along an axis, or the nearest to it that there is."""
    return tirx.max(tirx.min(place, extent - 1), tirx.IntImm("int64", 0))
