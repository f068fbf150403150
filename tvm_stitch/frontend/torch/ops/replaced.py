"""A tensor with one of its views replaced: in a functional graph, what writing into it leaves.

The gradients of views are such tensors too, of which the rest is 0.
"""

from __future__ import annotations

from typing import Any

from tvm import te, tirx

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import Call, Converter, Expr, Number, dims, immediate, rank


def _select_scatter(call: Call, x: Expr, source: Expr, dim: int, index: Number) -> Expr:
    if not isinstance(index, int):
        raise TorchError("a position that only running tells")
    place = immediate(dims(x)[dim] + index if index < 0 else index, "int64")
    axis = dim % rank(x)

    def body(whole: te.Tensor, part: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            put = part(*at[:axis], *at[axis + 1 :])
            return tirx.if_then_else(tirx.EQ(at[axis].astype("int64"), place), put, whole(*at))

        return te.compute(call.shape, element, name="select_scatter")

    return call.te(body, x, call.cast(source, call.dtype))


def _slice_scatter(
    call: Call,
    x: Expr,
    source: Expr,
    dim: int = 0,
    start: Number | None = None,
    end: Number | None = None,
    step: int = 1,
) -> Expr:
    axis = dim % rank(x)
    size = dims(source)[axis]
    if call.symbols.same(size, dims(x)[axis]):
        return call.cast(source, call.dtype)
    extent = dims(x)[axis]
    if start is not None and not (isinstance(start, int) and isinstance(extent, int)):
        raise TorchError("a slice from where only running tells")
    begin = 0 if start is None else min(max(start + extent if start < 0 else start, 0), extent)

    def body(whole: te.Tensor, part: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            moved = at[axis] - begin
            number = tirx.floordiv(moved, immediate(step, "int64"))
            rest = tirx.floormod(moved, immediate(step, "int64"))
            on_step = [tirx.EQ(rest, immediate(0, "int64"))]
            inside = [moved >= 0, number < immediate(size, "int64"), *(on_step if step > 1 else [])]
            put = part(*at[:axis], number, *at[axis + 1 :])
            return tirx.if_then_else(tirx.all(*inside), put, whole(*at))

        return te.compute(call.shape, element, name="slice_scatter")

    return call.te(body, x, call.cast(source, call.dtype))


def _diagonal_scatter(
    call: Call, x: Expr, source: Expr, offset: int = 0, dim1: int = 0, dim2: int = 1
) -> Expr:
    first, second = dim1 % rank(x), dim2 % rank(x)

    def body(whole: te.Tensor, part: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            along = at[first] - immediate(max(-offset, 0), "int64")
            across = at[second] - immediate(max(offset, 0), "int64")
            is_there = tirx.all(tirx.EQ(along, across), along >= 0)
            others = (place for axis, place in enumerate(at) if axis not in (first, second))
            return tirx.if_then_else(is_there, part(*others, along), whole(*at))

        return te.compute(call.shape, element, name="diagonal_scatter")

    return call.te(body, x, call.cast(source, call.dtype))


OPERATORS: dict[str, Converter] = {
    "diagonal_scatter": _diagonal_scatter,
    "select_scatter": _select_scatter,
    "slice_scatter": _slice_scatter,
}
"""By ATen's names; an overload called default is left out."""
