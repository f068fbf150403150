"""Operators of images: convolutions, the largest and the mean of windows.

Where a call says so, images and weights come with their channels innermost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

from tvm import relax, te, tirx

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import Call, Converter, Dim, Expr, dims, is_float, rank, wide
from tvm_stitch.frontend.torch.dtypes import name_of
from tvm_stitch.frontend.torch.layout import CHANNELS_LAST, inverse
from tvm_stitch.frontend.torch.ops.pointwise import is_nan

_op = relax.op
_AXES = {1: "W", 2: "HW", 3: "DHW"}
# Elements of a window are written one behind the other.
MOST_PLACES = 25


def _convolution(
    call: Call,
    x: Expr,
    weight: Expr,
    bias: Expr | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
) -> Expr:
    spatial = rank(x) - 2
    if spatial not in _AXES or not is_float(call.dtype):
        raise TorchError(f"a convolution of {call.dtype} along {spatial} dimensions")
    numbers = (stride, padding, dilation, output_padding)
    strides, before, apart, beyond = (_each(given, spatial) for given in numbers)
    how: dict[str, Any] = {
        "strides": strides, "padding": before * 2, "dilation": apart, "groups": groups,
    }  # fmt: skip
    if transposed:
        if any(each != 1 for each in apart):
            raise TorchError("a transposed convolution with dilation")
        result = _transposed(call, x, weight, {**how, "output_padding": beyond})
    else:
        axes = _AXES[spatial]
        if call.channels_last:
            how |= {"data_layout": f"N{axes}C", "kernel_layout": f"O{axes}I"}
        result = call.emit(getattr(_op.nn, f"conv{spatial}d")(x, weight, **how))
    if bias is None:
        return result
    behind = () if call.channels_last else (1,) * spatial
    return call.emit(_op.add(result, call.emit(_op.reshape(bias, (*dims(bias), *behind)))))


def _transposed(call: Call, x: Expr, weight: Expr, how: dict[str, Any]) -> Expr:
    """TVM writes these with channels first only."""
    convolve = getattr(_op.nn, f"conv{rank(x) - 2}d_transpose")
    if not call.channels_last:
        return call.emit(convolve(x, weight, **how))
    first = list(inverse(CHANNELS_LAST))
    x, weight = (call.emit(_op.permute_dims(each, first)) for each in (x, weight))
    return call.emit(_op.permute_dims(call.emit(convolve(x, weight, **how)), list(CHANNELS_LAST)))


def _each(given: Sequence[int], spatial: int) -> tuple[int, ...]:
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
    shape, of = call.symbols.extents(values.shape), wide(to)
    least = tirx.const(-float("inf"), of)

    def largest(source: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            found, strange = least, tirx.const(False, "bool")
            for inside, place, _number in window.places(at):
                value = source(*place).astype(of)
                found = tirx.max(found, tirx.if_then_else(inside, value, least))
                nothing = tirx.const(0.0, of)
                strange = tirx.any(strange, is_nan(tirx.if_then_else(inside, value, nothing)))
            nan = tirx.const(float("nan"), of)
            return tirx.Select(strange, nan, found).astype(to)

        return te.compute(shape, element, name="largest")

    def place_of(source: te.Tensor, largest: te.Tensor) -> te.Tensor:
        """The last that is not a number, else the first that is the largest."""

        def element(*at: Any) -> Any:
            found, strange = tirx.const(-1, "int64"), tirx.const(-1, "int64")
            all_places, no = list(window.places(at)), tirx.const(False, "bool")
            for inside, place, number in reversed(all_places):
                equal = tirx.if_then_else(inside, tirx.EQ(source(*place), largest(*at)), no)
                found = tirx.Select(equal, number, found)
            for inside, place, number in all_places:
                is_strange = tirx.if_then_else(inside, is_nan(source(*place)), no)
                strange = tirx.Select(is_strange, number, strange)
            return tirx.Select(strange >= tirx.const(0, "int64"), strange, found)

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
    size = _each(kernel_size, 2)
    if size[0] * size[1] > MOST_PLACES:
        raise TorchError(f"windows of more than {MOST_PLACES} elements")
    return _Window(
        size, _each(stride, 2) if stride else size, _each(padding, 2), _each(dilation, 2),
        rank(x) - (3 if call.channels_last else 2), dims(x),
    )  # fmt: skip


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
        self._dilation, self._first, self._extents = dilation, first, extents

    def places(self, at: Sequence[Any]) -> Iterator[tuple[Any, list[Any], Any]]:
        """Whether it is there, where it is, and its number in the plane; of each element."""
        height, width = self._extents[self._first : self._first + 2]
        for step in product(*map(range, self._size)):
            where = [
                at[self._first + n] * self._stride[n] + (step[n] * self._dilation[n] - pad)
                for n, pad in enumerate(self._padding)
            ]
            inside = tirx.all(where[0] >= 0, where[0] < height, where[1] >= 0, where[1] < width)
            place = [*at]
            place[self._first : self._first + 2] = where
            yield inside, place, (where[0] * width + where[1]).astype("int64")

    def count(self, at: Sequence[Any], padded: bool) -> Any:
        """How many elements a window has without dilation, `padded` those around the plane too.

        A window ends where the padding does, also where it is counted.
        """
        counts = []
        for n, pad in enumerate(self._padding):
            extent = self._extents[self._first + n]
            start = at[self._first + n] * self._stride[n] - pad
            end = tirx.min(start + self._size[n], extent + pad)
            counts.append(end - start if padded else tirx.min(end, extent) - tirx.max(start, 0))
        return counts[0] * counts[1]


OPERATORS: dict[str, Converter] = {
    "avg_pool2d": _mean_of_windows,
    "convolution": _convolution,
    "max_pool2d_with_indices": _largest_of_windows,
}
