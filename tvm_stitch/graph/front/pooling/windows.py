"""Which windows along an axis of an image have an element, where in them it is, and equal shares.

In: the window's size, stride, padding and dilation, positions along the axis. Out: expressions.
Knows no operator.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd
from typing import Any

from tvm import tirx

Expr = Any
MOST_WRITTEN = 27
"""Elements of a window that are written one behind the other, such as those of 3 x 3 x 3."""


@dataclass(frozen=True, eq=False)
class Holding:
    """A window that may have an element."""

    number: Expr
    count: Expr  # of all windows
    offset: Expr  # of the element among its own
    inside: tuple[Expr, ...]  # what must hold for it to be there and to have the element

    @property
    def nearest(self) -> Expr:
        """Its number, or that of the nearest there is: reading there takes no branch."""
        return tirx.max(tirx.min(self.number, self.count - 1), tirx.IntImm("int64", 0))


@dataclass(frozen=True)
class Windows:
    """Windows along one axis: the first begins so many elements before the image.

    Of a dilation d, a window has each d-th element only.
    """

    size: int
    stride: int
    padding: int
    dilation: int = 1

    def count(self, extent: Expr) -> Expr:
        """How many windows there are over an image, as far as they are whole."""
        last = extent + (2 * self.padding - self.dilation * (self.size - 1) - 1)
        return last // self.stride + 1

    @property
    def are_side_by_side(self) -> bool:
        """Whether each begins where the one before ends, the first with the image."""
        is_dense = self.dilation == 1 or self.size == 1
        return self.size == self.stride and not self.padding and is_dense

    @property
    def is_turned(self) -> bool:
        """Whether a sum over the windows that have an element is one over a window as well."""
        return self.stride == self.dilation == 1 and self.padding < self.size

    @property
    def most_holding(self) -> int:
        """How many windows may have the same element."""
        return -(-self.size // (self.stride // self._common))

    @property
    def _common(self) -> int:
        """Elements between those that any window has, where there are gaps and steps."""
        return gcd(self.stride, self.dilation)

    def holding(self, at: Expr, count: Expr) -> Iterator[Holding]:
        """Of `count` windows those that may have the element at a position, in their order."""
        ahead = at + self.padding
        last, apart = self._last(ahead), self.dilation // self._common
        for back in range(self.most_holding - 1, -1, -1):
            number = last - back * apart
            start = ahead - number * self.stride
            offset = start if self.dilation == 1 else tirx.floordiv(start, self.dilation)
            inside = (number >= 0, number < count, offset < self.size)
            yield Holding(number, count, offset, (*self._met(ahead), *inside))

    def _last(self, ahead: Expr) -> Expr:
        """The last window that does not begin behind an element and has no gap there."""
        last, apart = tirx.floordiv(ahead, self.stride), self.dilation // self._common
        if apart == 1:
            return last
        # number * stride = ahead modulo dilation
        factor = pow(self.stride // self._common, -1, apart)
        number = tirx.floordiv(ahead, self._common) * factor
        return last - tirx.floormod(last - number, apart)

    def _met(self, ahead: Expr) -> tuple[Expr, ...]:
        """What must hold for any window to have an element there."""
        if self._common == 1:
            return ()
        return (tirx.floormod(ahead, self._common) < 1,)

    def element(self, window: Expr, step: Expr) -> Expr:
        """Where a window has an element, by its place in there: perhaps outside of the image."""
        return window * self.stride + (step * self.dilation - self.padding)


def share_of(number: Any, parts: int, whole: int) -> tuple[Any, Any]:
    """Where one of equal parts of a whole begins and ends, which goes to the next number."""
    return number * whole // parts, ((number + 1) * whole + parts - 1) // parts
