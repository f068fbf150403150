"""Windows over images as columns of a matrix, and their gradient: the image that columns add up to.

And the gradient of windows along one dimension. An element is the sum of the few of windows that
are it: nothing is added at indices.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from math import prod
from typing import Any

from tvm import te, tirx

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import Call, Converter, Expr, dims, immediate, wide
from tvm_stitch.frontend.torch.ops.images.window import per_dimension
from tvm_stitch.graph.front.pooling.windows import MOST_WRITTEN, Windows


def _columns(
    call: Call,
    image: Expr,
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Expr:
    """A column for each window: its elements, channel by channel, 0 where there is no image."""
    sides = _sides(kernel_size, stride, padding, dilation)
    extents = dims(image)[-2:]
    _rows, across = (side.count(extent) for side, extent in zip(sides, extents, strict=True))
    height, width = (side.size for side in sides)

    def columns(source: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            *batch, row, column = at
            steps = tirx.floormod(tirx.floordiv(row, width), height), tirx.floormod(row, width)
            windows = tirx.floordiv(column, across), tirx.floormod(column, across)
            channel = tirx.floordiv(row, height * width)
            where = [side.element(*each) for side, *each in zip(sides, windows, steps, strict=True)]
            value = source(*batch, channel, *where)
            inside = [*_inside(sides, where, extents)]
            nothing = immediate(0, call.dtype)
            return tirx.if_then_else(tirx.all(*inside), value, nothing) if inside else value

        return te.compute(call.shape, element, name="columns")

    return call.te(columns, image)


def _inside(
    sides: Sequence[Windows], where: Sequence[Any], extents: Sequence[Any]
) -> Iterator[Any]:
    """What must hold for a place to be in the image, around which windows may begin and end."""
    for side, place, extent in zip(sides, where, extents, strict=True):
        if side.padding:
            yield from (place >= 0, place < extent)


def _image(
    call: Call,
    columns: Expr,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Expr:
    """Of each pixel, the sum over the windows that have it, in their order; halves round once."""
    sides = _sides(kernel_size, stride, padding, dilation)
    _check_few(sides)
    to, of = call.dtype, wide(call.dtype)
    counts = [side.count(extent) for side, extent in zip(sides, call.shape[-2:], strict=True)]
    height, width = (side.size for side in sides)

    def image(source: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            *batch, channel, _y, _x = at
            total = nothing = immediate(0.0, of)
            holding = (
                side.holding(*each) for side, *each in zip(sides, at[-2:], counts, strict=True)
            )
            for down, across in product(*holding):
                row = (channel * height + down.offset) * width + across.offset
                value = source(*batch, row, down.number * counts[1] + across.number).astype(of)
                inside = tirx.all(*down.inside, *across.inside)
                total += tirx.if_then_else(inside, value, nothing)
            return total.astype(to)

        return te.compute(call.shape, element, name="image")

    return call.te(image, columns)


def _along(
    call: Call,
    gradient: Expr,
    input_sizes: Sequence[int],
    dim: int,
    size: int,
    step: int,
) -> Expr:
    """The same of windows along one dimension, whose elements lie along the last."""
    side, axis = Windows(size, step, padding=0), dim % len(call.shape)
    _check_few([side])
    to, of, count = call.dtype, wide(call.dtype), dims(gradient)[axis]

    def sums(given: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            total = nothing = immediate(0.0, of)
            for each in side.holding(at[axis], count):
                value = given(*at[:axis], each.number, *at[axis + 1 :], each.offset).astype(of)
                total += tirx.if_then_else(tirx.all(*each.inside), value, nothing)
            return total.astype(to)

        return te.compute(call.shape, element, name="sums")

    return call.te(sums, gradient)


def _check_few(sides: Sequence[Windows]) -> None:
    if prod(side.most_holding for side in sides) > MOST_WRITTEN:
        raise TorchError(f"an element in more than {MOST_WRITTEN} windows")


def _sides(*numbers: Sequence[int]) -> list[Windows]:
    """The windows along both axes, of their size, stride, padding and dilation."""
    given = (per_dimension(each, 2) for each in numbers)
    return [Windows(*side) for side in zip(*given, strict=True)]


OPERATORS: dict[str, Converter] = {
    "col2im": _image,
    "im2col": _columns,
    "unfold_backward": _along,
}
