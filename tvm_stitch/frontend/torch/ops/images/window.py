"""Windows over the planes of images and over volumes: which elements each has.

In: the numbers of a call as PyTorch gives them, positions. Out: expressions of positions. Must not
know what is made of a window's elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product, starmap
from math import prod
from typing import Any

from tvm import tirx

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import Call, Dim, Expr, dims, dtype, is_float, rank
from tvm_stitch.frontend.torch.layout import row_by_row
from tvm_stitch.graph.front.pooling.windows import MOST_WRITTEN, Windows


def per_dimension(given: Sequence[int], spatial: int) -> tuple[int, ...]:
    """A number for each dimension; one stands for all."""
    numbers = tuple(given)
    if not all(isinstance(each, int) for each in numbers):
        raise TorchError("a window of sizes that change")
    return numbers * spatial if len(numbers) == 1 else numbers


def along(call: Call, x: Expr, spatial: int) -> list[int]:
    """The dimensions along which windows move: two of images', three of volumes'."""
    first = rank(x) - spatial - call.channels_last
    return [first + n for n in range(spatial)]


def is_whole(
    call: Call, x: Expr, spatial: int, kernel_size: Sequence[int], padding: Sequence[int]
) -> bool:
    """Whether there is one window, all of a plane or a volume of floats."""
    extents = [dims(x)[axis] for axis in along(call, x, spatial)]
    sides = zip(per_dimension(kernel_size, spatial), extents, strict=True)
    is_one = all(isinstance(extent, int) and extent == size for size, extent in sides)
    return is_one and is_float(dtype(x)) and not any(padding)


def check_few(elements: int) -> None:
    """Refuse windows that are too large to be written out."""
    if elements > MOST_WRITTEN:
        raise TorchError(f"windows of more than {MOST_WRITTEN} elements")


def window_of(
    call: Call,
    x: Expr,
    of: str,
    spatial: int,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int] = (1,),
) -> Window:
    """The windows over images or volumes, as PyTorch describes them."""
    if not is_float(of):
        raise TorchError(f"windows of {of}")
    size = per_dimension(kernel_size, spatial)
    check_few(prod(size))
    steps = per_dimension(stride, spatial) if stride else size
    around, apart = per_dimension(padding, spatial), per_dimension(dilation, spatial)
    sides = list(starmap(Windows, zip(size, steps, around, apart, strict=True)))
    return Window(sides, along(call, x, spatial), dims(x))


class Window:
    """Which elements each window has."""

    def __init__(self, sides: Sequence[Windows], axes: Sequence[int], extents: Sequence[Dim]):
        self._sides = sides
        self._axes = slice(axes[0], axes[-1] + 1)
        self._extents = extents[self._axes]

    def number(self, at: Sequence[Any]) -> Any:
        """Of the element at a position, in its plane or volume."""
        return row_by_row(at[self._axes], self._extents)

    def number_within(self, offsets: Sequence[Any]) -> Any:
        """Of the element so far from the first along each side, in its window."""
        return row_by_row(offsets, [side.size for side in self._sides])

    def places(self, at: Sequence[Any]) -> Iterator[tuple[Any, list[Any], Any]]:
        """Whether it is there, where it is, and its number in the plane; of each element."""
        for step in product(*(range(side.size) for side in self._sides)):
            place = [*at]
            place[self._axes] = [
                side.element(own, n)
                for side, own, n in zip(self._sides, at[self._axes], step, strict=True)
            ]
            ends = zip(place[self._axes], self._extents, strict=True)
            inside = tirx.all(*(each for at, end in ends for each in (at >= 0, at < end)))
            yield inside, place, self.number(place).astype("int64")

    def numbered(self, at: Sequence[Any]) -> Iterator[tuple[Any, list[Any], Any]]:
        """The same of each element, but its number in the window, which is a byte."""
        for number, (inside, place, _number) in enumerate(self.places(at)):
            yield inside, place, tirx.const(number, "int8")

    def windows(
        self, at: Sequence[Any], counts: Sequence[Dim]
    ) -> Iterator[tuple[Any, list[Any], list[Any]]]:
        """Whether it is there, its place, and where in it the element is along each side.

        Of each window that an element may be in, in their order.

        `counts` are the extents of what has an element for each window.
        """
        sides = zip(self._sides, at[self._axes], counts[self._axes], strict=True)
        for holding in product(*(side.holding(own, count) for side, own, count in sides)):
            inside = tirx.all(*(each for one in holding for each in one.inside))
            place = [*at]
            place[self._axes] = [one.number for one in holding]
            yield inside, place, [one.offset for one in holding]

    def count(self, at: Sequence[Any], padded: bool) -> Any:
        """How many elements a window has without dilation, `padded` those around the plane too.

        A window ends where the padding does, also where it is counted.
        """
        counts = []
        for side, own, extent in zip(self._sides, at[self._axes], self._extents, strict=True):
            start = own * side.stride - side.padding
            end = tirx.min(start + side.size, extent + side.padding)
            counts.append(end - start if padded else tirx.min(end, extent) - tirx.max(start, 0))
        return prod(counts[1:], start=counts[0])
