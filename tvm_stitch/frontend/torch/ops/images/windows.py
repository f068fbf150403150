"""Operators of windows over images and volumes: the largest and the mean of each, their gradients.

Where a call says so, images come with their channels innermost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any

from tvm import relax, te, tirx

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import (
    Call,
    Converter,
    Expr,
    dims,
    is_float,
    wide,
)
from tvm_stitch.frontend.torch.dtypes import name_of
from tvm_stitch.frontend.torch.ops.images.window import (
    Window,
    along,
    check_few,
    is_whole,
    window_of,
)
from tvm_stitch.frontend.torch.ops.reduce import count, divided, mean_of
from tvm_stitch.graph.front.pooling.windows import share_of
from tvm_stitch.stages.extremes import is_nan, nothing
from tvm_stitch.stages.stage import dtype_of

_op = relax.op

Numbered = Callable[[Sequence[Any]], Iterator[tuple[Any, list[Any], Any]]]


def _largest_of_windows(
    call: Call,
    x: Expr,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,
    *,
    spatial: int,
) -> tuple[Expr, Expr]:
    """The largest element of each window, or what is not a number, and its place in the plane."""
    values, _places = call.result
    to = name_of(values.dtype)
    window = window_of(call, x, to, spatial, kernel_size, stride, padding, dilation)
    return _largest(call, x, window, window.places)


def _largest_with_offsets(
    call: Call,
    x: Expr,
    kernel_size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil_mode: bool,
    *,
    spatial: int,
) -> tuple[Expr, Expr]:
    """The same, and its number in the window."""
    values, _offsets = call.result
    window = window_of(call, x, name_of(values.dtype), spatial, kernel_size, stride, padding)
    return _largest(call, x, window, window.numbered)


def _largest(call: Call, x: Expr, window: Window, numbered: Numbered) -> tuple[Expr, Expr]:
    values, places = call.result
    to, numbers = name_of(values.dtype), name_of(places.dtype)
    shape, of = call.symbols.extents(values.shape), wide(to)
    least = nothing("largest", of)

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
    *,
    spatial: int,
) -> Expr:
    """The sum of each window by how many elements it has, those of the padding counted or not."""
    to, of = call.dtype, wide(call.dtype)
    axes = along(call, x, spatial)
    if is_whole(call, x, spatial, kernel_size, padding) and divisor_override is None:
        return call.cast(mean_of(call, call.cast(x, of), axes, True), to)
    window = window_of(call, x, to, spatial, kernel_size, stride, padding)

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
    *,
    spatial: int,
) -> Expr:
    """Of each element, the sum of the gradients of windows whose largest it is."""
    window = window_of(call, x, call.dtype, spatial, kernel_size, stride, padding, dilation)

    def number(at: Sequence[Any], _offsets: Sequence[Any]) -> Any:
        return window.number(at).astype("int64")

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
    *,
    spatial: int,
) -> Expr:
    """The same, where its number in the window is known."""
    window = window_of(call, x, call.dtype, spatial, kernel_size, stride, padding)

    def number(_at: Sequence[Any], offsets: Sequence[Any]) -> Any:
        return window.number_within(offsets).astype("int32")

    return _given_to(call, window, number, gradient, places)


def _given_to(call: Call, window: Window, number: Any, gradient: Expr, places: Expr) -> Expr:
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
    *,
    spatial: int,
) -> Expr:
    """Of each element, its share of the gradients of windows that have it."""
    to, of = call.dtype, wide(call.dtype)
    if is_whole(call, x, spatial, kernel_size, padding) and divisor_override is None:
        shared = divided(call, call.cast(gradient, of), count(x, along(call, x, spatial)))
        return call.emit(_op.broadcast_to(call.cast(shared, to), call.shape))
    window = window_of(call, x, to, spatial, kernel_size, stride, padding)

    def gathered(
        given: te.Tensor, _at: Sequence[Any], place: list[Any], _offsets: Sequence[Any]
    ) -> Any:
        if divisor_override is None:
            shared = window.count(place, count_include_pad).astype(of)
        else:
            shared = tirx.const(float(divisor_override), of)
        return given(*place).astype(of) / shared

    return _gathered(call, window, gathered, gradient)


def _gathered(call: Call, window: Window, gathered: Any, gradient: Expr, *others: Expr) -> Expr:
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


def _mean_of_shares(call: Call, x: Expr, output_size: Sequence[int], *, spatial: int) -> Expr:
    """The means of equal shares of a plane, which overlap where it does not divide."""
    return _shared(call, x, spatial, is_gradient=False)


def _gradient_of_shares(call: Call, gradient: Expr, x: Expr, *, spatial: int) -> Expr:
    return _shared(call, gradient, spatial, is_gradient=True)


def _shared(call: Call, source: Expr, spatial: int, is_gradient: bool) -> Expr:
    """Sums of what each element is made of: of elements by its own share, or of theirs."""
    to, of = call.dtype, wide(call.dtype)
    first, *_ = along(call, source, spatial)
    inner = slice(first, first + spatial)
    sides = [*zip(call.shape[inner], dims(source)[inner], strict=True)]
    if not is_float(to) or not all(isinstance(each, int) for side in sides for each in side):
        raise TorchError(f"shares of planes of {to}, or of sizes that change")
    spans = [[share_of(at, *side) for at in range(side[0])] for side in sides]  # type: ignore[arg-type]
    longest = [max(end - start for start, end in each) for each in spans]
    check_few(prod(longest))

    def summed(tensor: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            own = [share_of(each, *side) for each, side in zip(at[inner], sides, strict=True)]
            total = nothing = tirx.const(0.0, of)
            for step in product(*map(range, longest)):
                where = [start + each for (start, _), each in zip(own, step, strict=True)]
                inside = tirx.all(*(each < end for each, (_, end) in zip(where, own, strict=True)))
                value = tensor(*at[:first], *where, *at[first + spatial :]).astype(of)
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
    first, *others = (end - start for start, end in spans)
    return prod(others, start=first)


_OF_ANY_RANK: dict[str, Callable[..., Any]] = {
    "_adaptive_avg_pool{}d": _mean_of_shares,
    "_adaptive_avg_pool{}d_backward": _gradient_of_shares,
    "avg_pool{}d": _mean_of_windows,
    "avg_pool{}d_backward": _gradient_of_mean,
    "max_pool{}d_with_indices": _largest_of_windows,
    "max_pool{}d_with_indices_backward": _gradient_of_largest,
    "tvm_stitch.max_pool{}d_with_offsets": _largest_with_offsets,
    "tvm_stitch.max_pool{}d_with_offsets_backward": _gradient_by_offsets,
}
OPERATORS: dict[str, Converter] = {
    name.format(spatial): partial(converter, spatial=spatial)
    for name, converter in _OF_ANY_RANK.items()
    for spatial in (2, 3)
}
