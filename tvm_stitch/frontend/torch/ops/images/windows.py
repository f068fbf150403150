"""Operators of images' windows: the largest and the mean of each, and their gradients.

Where a call says so, images come with their channels innermost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product, starmap
from typing import Any

from tvm import relax, te, tirx

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import (
    Call,
    Converter,
    Dim,
    Expr,
    dims,
    is_float,
    rank,
    wide,
)
from tvm_stitch.frontend.torch.dtypes import name_of
from tvm_stitch.graph.front.pooling.windows import MOST_WRITTEN, Windows, share_of
from tvm_stitch.stages.extremes import is_nan
from tvm_stitch.stages.stage import dtype_of

_op = relax.op

Numbered = Callable[[Sequence[Any]], Iterator[tuple[Any, list[Any], Any]]]


def per_dimension(given: Sequence[int], spatial: int) -> tuple[int, ...]:
    """A number for each dimension; one stands for all."""
    numbers = tuple(given)
    if not all(isinstance(each, int) for each in numbers):
        raise TorchError("a window of sizes that change")
    return numbers * spatial if len(numbers) == 1 else numbers


def _largest_of_windows(
    call: Call,
    x: Expr,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
) -> tuple[Expr, Expr]:
    """The largest element of each window, or what is not a number, and its place in the plane."""
    values, _places = call.result
    to = name_of(values.dtype)
    window = _window(call, x, to, kernel_size, stride, padding, dilation)
    return _largest(call, x, window, window.places)


def _largest_with_offsets(
    call: Call,
    x: Expr,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
) -> tuple[Expr, Expr]:
    """The same, and its number in the window."""
    values, _offsets = call.result
    window = _window(call, x, name_of(values.dtype), kernel_size, stride, padding, (1,))
    return _largest(call, x, window, window.numbered)


def _largest(call: Call, x: Expr, window: _Window, numbered: Numbered) -> tuple[Expr, Expr]:
    values, places = call.result
    to, numbers = name_of(values.dtype), name_of(places.dtype)
    shape, of = call.symbols.extents(values.shape), wide(to)
    least = tirx.const(-float("inf"), of)

    def values_of(source: te.Tensor, at: Sequence[Any]) -> Iterator[tuple[Any, Any, Any]]:
        for inside, place, number in numbered(at):
            yield inside, tirx.if_then_else(inside, source(*place).astype(of), least), number

    def largest(source: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            found, strange = least, tirx.const(False, "bool")
            for _inside, value, _number in values_of(source, at):
                found, strange = tirx.max(found, value), strange | is_nan(value)
            nan = tirx.const(float("nan"), of)
            return tirx.Select(strange, nan, found).astype(to)

        return te.compute(shape, element, name="largest")

    def place_of(source: te.Tensor, largest: te.Tensor) -> te.Tensor:
        """The last that is not a number, else the first that is the largest."""

        def element(*at: Any) -> Any:
            most = largest(*at).astype(of)
            none, beyond = tirx.const(-1, numbers), tirx.max_value(numbers)
            strange, found = none, beyond
            for inside, value, number in values_of(source, at):
                is_most = inside & tirx.EQ(value, most)
                found = tirx.min(found, tirx.Select(is_most, number, beyond))
                strange = tirx.max(strange, tirx.Select(is_nan(value), number, none))
            return tirx.Select(is_nan(most), strange, found)

        return te.compute(shape, element, name="place")

    found = call.te(largest, x, name="largest_of_windows")
    return found, call.te(place_of, x, found, name="places_in_windows")


def _mean_of_windows(
    call: Call,
    x: Expr,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Expr:
    """The sum of each window by how many elements it has, those of the padding counted or not."""
    to, of = call.dtype, wide(call.dtype)
    window = _window(call, x, to, kernel_size, stride, padding, (1,))

    def mean(source: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            total, nothing = tirx.const(0.0, of), tirx.const(0.0, of)
            for inside, place, _number in window.places(at):
                total += tirx.if_then_else(inside, source(*place).astype(of), nothing)
            if divisor_override is not None:
                return (total / tirx.const(float(divisor_override), of)).astype(to)
            return (total / window.count(at, count_include_pad).astype(of)).astype(to)

        return te.compute(call.shape, element, name="mean")

    return call.te(mean, x, name="mean_of_windows")


def _gradient_of_largest(
    call: Call,
    gradient: Expr,
    x: Expr,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
    places: Expr,
) -> Expr:
    """Of each element, the sum of the gradients of windows whose largest it is."""
    window = _window(call, x, call.dtype, kernel_size, stride, padding, dilation)
    first, width = window.first, dims(x)[window.first + 1]

    def number(at: Sequence[Any], _offsets: Sequence[Any]) -> Any:
        return (at[first] * width + at[first + 1]).astype("int64")

    return _given_to(call, window, number, gradient, places)


def _gradient_by_offsets(
    call: Call,
    gradient: Expr,
    x: Expr,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    places: Expr,
) -> Expr:
    """The same, where its number in the window is known."""
    window = _window(call, x, call.dtype, kernel_size, stride, padding, (1,))

    def number(_at: Sequence[Any], offsets: Sequence[Any]) -> Any:
        row, column = offsets
        return (row * kernel_size[1] + column).astype("int32")

    return _given_to(call, window, number, gradient, places)


def _given_to(call: Call, window: _Window, number: Any, gradient: Expr, places: Expr) -> Expr:
    """The gradients of windows whose largest element has the number of this one."""

    def gathered(
        given: te.Tensor,
        largest: te.Tensor,
        at: Sequence[Any],
        place: list[Any],
        offsets: Sequence[Any],
    ) -> Any:
        of = wide(call.dtype)
        own = number(at, offsets)
        # TVM fails to bound what is cast to a byte, so bytes are compared as wider numbers.
        is_this = tirx.EQ(largest(*place).astype(dtype_of(own)), own)
        return tirx.Select(is_this, given(*place).astype(of), tirx.const(0.0, of))

    return _gathered(call, window, gathered, gradient, places)


def _gradient_of_mean(
    call: Call,
    gradient: Expr,
    x: Expr,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    count_include_pad: bool,
    divisor_override: int | None,
) -> Expr:
    """Of each element, its share of the gradients of windows that have it."""
    window, of = _window(call, x, call.dtype, kernel_size, stride, padding, (1,)), wide(call.dtype)

    def gathered(
        given: te.Tensor, _at: Sequence[Any], place: list[Any], _offsets: Sequence[Any]
    ) -> Any:
        if divisor_override is None:
            shared = window.count(place, count_include_pad).astype(of)
        else:
            shared = tirx.const(float(divisor_override), of)
        return given(*place).astype(of) / shared

    return _gathered(call, window, gathered, gradient)


def _gathered(call: Call, window: _Window, gathered: Any, gradient: Expr, *others: Expr) -> Expr:
    """The sum over the windows of each element, in their order; a half is rounded once."""
    to, of, counts = call.dtype, wide(call.dtype), dims(gradient)

    def summed(*tensors: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            total = nothing = tirx.const(0.0, of)
            for inside, place, offsets in window.windows(at, counts):
                value = gathered(*tensors, at, place, offsets)
                total += tirx.if_then_else(inside, value, nothing)
            return total.astype(to)

        return te.compute(call.shape, element, name="gradient")

    return call.te(summed, gradient, *others, name="gradient_of_windows")


def _mean_of_shares(call: Call, x: Expr, output_size: Sequence[int]) -> Expr:
    """The means of equal shares of a plane, which overlap where it does not divide."""
    return _shared(call, x, is_gradient=False)


def _gradient_of_shares(call: Call, gradient: Expr, x: Expr) -> Expr:
    return _shared(call, gradient, is_gradient=True)


def _shared(call: Call, source: Expr, is_gradient: bool) -> Expr:
    """Sums of what each element is made of: of elements by its own share, or of theirs."""
    to, of = call.dtype, wide(call.dtype)
    first = rank(source) - (3 if call.channels_last else 2)
    made, given = call.shape[first : first + 2], dims(source)[first : first + 2]
    if not is_float(to) or not all(isinstance(each, int) for each in (*made, *given)):
        raise TorchError(f"shares of planes of {to}, or of sizes that change")
    sides = list(zip(made, given, strict=True))
    spans = [[share_of(at, *side) for at in range(side[0])] for side in sides]  # type: ignore[arg-type]
    longest = [max(end - start for start, end in each) for each in spans]
    if longest[0] * longest[1] > MOST_WRITTEN:
        raise TorchError(f"windows of more than {MOST_WRITTEN} elements")

    def summed(tensor: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            own = [share_of(at[first + n], *side) for n, side in enumerate(sides)]
            total = nothing = tirx.const(0.0, of)
            for step in product(*map(range, longest)):
                where = [start + each for (start, _), each in zip(own, step, strict=True)]
                inside = tirx.all(*(each < end for each, (_, end) in zip(where, own, strict=True)))
                value = tensor(*at[:first], *where, *at[first + 2 :]).astype(of)
                if is_gradient:
                    theirs = [
                        share_of(each, *side[::-1]) for each, side in zip(where, sides, strict=True)
                    ]
                    value = value / _elements(theirs).astype(of)
                total += tirx.if_then_else(inside, value, nothing)
            return (total if is_gradient else total / _elements(own).astype(of)).astype(to)

        return te.compute(call.shape, element, name="shares")

    return call.te(summed, source, name="shares_of_planes")


def _elements(spans: Sequence[tuple[Any, Any]]) -> Any:
    (top, bottom), (left, right) = spans
    return (bottom - top) * (right - left)


def _window(
    call: Call,
    x: Expr,
    of: str,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
) -> _Window:
    """The windows over the planes of images, as PyTorch describes them."""
    if not is_float(of):
        raise TorchError(f"windows of {of}")
    size = per_dimension(kernel_size, 2)
    if size[0] * size[1] > MOST_WRITTEN:
        raise TorchError(f"windows of more than {MOST_WRITTEN} elements")
    steps = per_dimension(stride, 2) if stride else size
    around, apart = per_dimension(padding, 2), per_dimension(dilation, 2)
    first = rank(x) - (3 if call.channels_last else 2)
    return _Window(size, steps, around, apart, first, dims(x))


class _Window:
    """Which elements each window has."""

    def __init__(
        self,
        size: Sequence[int],
        stride: Sequence[int],
        padding: Sequence[int],
        dilation: Sequence[int],
        first: int,
        extents: Sequence[Dim],
    ) -> None:
        self._size, self._stride, self._padding = size, stride, padding
        self._dilation, self.first, self._extents = dilation, first, extents

    def places(self, at: Sequence[Any]) -> Iterator[tuple[Any, list[Any], Any]]:
        """Whether it is there, where it is, and its number in the plane; of each element."""
        height, width = self._extents[self.first : self.first + 2]
        for step in product(*map(range, self._size)):
            where = [
                at[self.first + n] * self._stride[n] + (step[n] * self._dilation[n] - pad)
                for n, pad in enumerate(self._padding)
            ]
            inside = tirx.all(where[0] >= 0, where[0] < height, where[1] >= 0, where[1] < width)
            place = [*at]
            place[self.first : self.first + 2] = where
            yield inside, place, (where[0] * width + where[1]).astype("int64")

    def numbered(self, at: Sequence[Any]) -> Iterator[tuple[Any, list[Any], Any]]:
        """The same of each element, but its number in the window, which is a byte."""
        for number, (inside, place, _number) in enumerate(self.places(at)):
            yield inside, place, tirx.const(number, "int8")

    def windows(
        self, at: Sequence[Any], counts: Sequence[Dim]
    ) -> Iterator[tuple[Any, list[Any], list[Any]]]:
        """Whether it is there, its place, and where in it the element is along both axes.

        Of each window that an element may be in, in their order.

        `counts` are the extents of what has an element for each window.
        """
        numbers = (self._size, self._stride, self._padding, self._dilation)
        sides = starmap(Windows, zip(*numbers, strict=True))
        holding = (
            side.holding(at[self.first + n], counts[self.first + n]) for n, side in enumerate(sides)
        )
        for both in product(*holding):
            inside = tirx.all(*(each for one in both for each in one.inside))
            place = [*at]
            place[self.first : self.first + 2] = [one.number for one in both]
            yield inside, place, [one.offset for one in both]

    def count(self, at: Sequence[Any], padded: bool) -> Any:
        """How many elements a window has without dilation, `padded` those around the plane too.

        A window ends where the padding does, also where it is counted.
        """
        counts = []
        for n, pad in enumerate(self._padding):
            extent = self._extents[self.first + n]
            start = at[self.first + n] * self._stride[n] - pad
            end = tirx.min(start + self._size[n], extent + pad)
            counts.append(end - start if padded else tirx.min(end, extent) - tirx.max(start, 0))
        return counts[0] * counts[1]


OPERATORS: dict[str, Converter] = {
    "_adaptive_avg_pool2d": _mean_of_shares,
    "_adaptive_avg_pool2d_backward": _gradient_of_shares,
    "avg_pool2d": _mean_of_windows,
    "avg_pool2d_backward": _gradient_of_mean,
    "max_pool2d_with_indices": _largest_of_windows,
    "max_pool2d_with_indices_backward": _gradient_of_largest,
    "tvm_stitch.max_pool2d_with_offsets": _largest_with_offsets,
    "tvm_stitch.max_pool2d_with_offsets_backward": _gradient_by_offsets,
}
