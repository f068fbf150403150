"""Which windows along an axis of an image have an element, where in them it is, and equal shares.

In: the window's size, stride and padding, positions along the axis. Out: expressions. Knows no
operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tvm import tirx

Expr = Any
MOST_WRITTEN = 25
"""Elements of a window that are written one behind the other."""


@dataclass(frozen=True, eq=False)
class Holding:
    """A window that may have an element."""

    number: Expr
    count: Expr  # of all windows
    offset: Expr  # of the element in it
    inside: tuple[Expr, ...]  # what must hold for it to be there and to have the element

    @property
    def nearest(self) -> Expr:
        """Its number, or that of the nearest there is: reading there takes no branch."""
        return tirx.max(tirx.min(self.number, self.count - 1), tirx.IntImm("int64", 0))


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
            yield Holding(number, count, offset, inside)

    def element(self, window: Expr, step: Expr) -> Expr:
        """Where a window has an element, by its place in there: perhaps outside of the image."""
        return window * self.stride + (step - self.padding)


def share_of(number: Any, parts: int, whole: int) -> tuple[Any, Any]:
    """Where one of equal parts of a whole begins and ends, which goes to the next number."""
    return number * whole // parts, ((number + 1) * whole + parts - 1) // parts
