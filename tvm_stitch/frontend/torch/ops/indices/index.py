"""Elements read where indices say, and places among sorted integers, counted in two steps.

Every index is checked when it is used, as PyTorch does.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isqrt
from typing import Any

from tvm import te, tirx

from tvm_stitch.checked_index import checked
from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import (
    Call,
    Converter,
    Dim,
    Expr,
    Number,
    broadcast_shape,
    dims,
    dtype,
    immediate,
    is_float,
    picked,
    rank,
)

_MASKS = ("bool", "uint8")
_ZERO = tirx.const(0, "int64")


def index_of(call: Call, index: Expr) -> Expr:
    """A tensor of indices as int64."""
    if dtype(index) in _MASKS:
        raise TorchError("its result's size depends on values")
    return call.cast(index, "int64")


def within(index: Any, extent: Dim) -> Any:
    """An index that counts from the front."""
    return checked(index, immediate(extent, "int64"))


def from_either_end(index: Any, extent: Dim) -> Any:
    """An index that counts from the back where it is negative."""
    from_front = tirx.Select(index < _ZERO, index + immediate(extent, "int64"), index)
    return within(from_front, extent)


def _gather(call: Call, x: Expr, dim: int, index: Expr, *, sparse_grad: bool = False) -> Expr:
    if not rank(x) or not rank(index):
        raise TorchError("a tensor without dimensions")
    axis, extent = dim % rank(x), dims(x)[dim]

    def body(source: te.Tensor, places: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            return source(*at[:axis], within(places(*at), extent), *at[axis + 1 :])

        return te.compute(call.shape, element, name="gather")

    return call.te(body, x, index_of(call, index))


def _index_select(call: Call, x: Expr, dim: int, index: Expr) -> Expr:
    if not rank(x) or not rank(index):
        raise TorchError("a tensor without dimensions")
    indices = [None] * (dim % rank(x)) + [index]
    return _taken(call, x, indices, within)


def _embedding(
    call: Call,
    weight: Expr,
    indices: Expr,
    padding_idx: Number = -1,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Expr:
    return _taken(call, weight, [indices], within)


def _taken(
    call: Call, x: Expr, indices: Sequence[Expr | None], use: Callable[[Any, Dim], Any]
) -> Expr:
    """What stands at the indices, which are used as `use` says."""
    layout = Layout.of(call, indices)
    extents = dims(x)
    places = [index_of(call, index) for index in indices if index is not None]

    def body(source: te.Tensor, *given: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            of_index, others = layout.apart(at)
            found = iter(given)
            remaining = iter(others)
            return source(*[
                use(picked(next(found), of_index), extent)
                if axis in layout.axes
                else next(remaining)
                for axis, extent in enumerate(extents)
            ])  # fmt: skip

        return te.compute(call.shape, element, name="index")

    return call.te(body, x, *places)


@dataclass(frozen=True)
class Layout:
    """Where dimensions of indices stand among those that they pick from.

    In place of the dimensions that they index; in front, if others are between these.
    """

    axes: tuple[int, ...]  # the indexed dimensions
    shape: tuple[Dim, ...]  # what the indices broadcast to
    first: int

    @staticmethod
    def of(call: Call, indices: Sequence[Expr | None]) -> Layout:
        """Of an operator's list of indices."""
        axes = tuple(axis for axis, index in enumerate(indices) if index is not None)
        shape = broadcast_shape([dims(index) for index in indices if index is not None],
                                call.symbols)  # fmt: skip
        adjacent = axes == tuple(range(axes[0], axes[0] + len(axes)))
        return Layout(axes, tuple(shape), axes[0] if adjacent else 0)

    def apart(self, at: Sequence[Any]) -> tuple[list[Any], list[Any]]:
        """The position within the indices, and within the other dimensions."""
        end = self.first + len(self.shape)
        return [*at[self.first : end]], [*at[: self.first], *at[end:]]

    def together(self, of_index: Sequence[Any], others: Sequence[Any]) -> list[Any]:
        """The inverse of `apart`."""
        return [*others[: self.first], *of_index, *others[self.first :]]


def _index(call: Call, x: Expr, indices: Sequence[Expr | None]) -> Expr:
    return _taken(call, x, indices, from_either_end)


def _searchsorted(
    call: Call,
    sorted_sequence: Expr,
    x: Expr,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Expr | None = None,
) -> Expr:
    """How many come before each element, those that equal it among them where `right`.

    As many groups as each has elements are counted first, by their last ones: two sums.
    """
    if rank(sorted_sequence) != 1 or sorter is not None or is_float(dtype(x)):
        raise TorchError("places among rows, in an order of their own or among floating numbers")
    (count,) = dims(sorted_sequence)
    if not isinstance(count, int):
        raise TorchError("places among a number of elements that changes")
    comes_before = operator.le if right or side == "right" else operator.lt

    def body(among: te.Tensor, values: te.Tensor) -> te.Tensor:
        return _counted_before(among, values, count, comes_before)

    return call.cast(call.te(body, sorted_sequence, x), call.dtype)


def _counted_before(
    among: te.Tensor, values: te.Tensor, count: int, comes_before: Callable[[Any, Any], Any]
) -> te.Tensor:
    length = isqrt(max(count, 1) - 1) + 1  # groups behind the last count as it does
    all_of_them, one, width = (tirx.const(each, "int64") for each in (count, 1, length))
    group = te.reduce_axis((0, length), "group")
    member = te.reduce_axis((0, length), "member")

    def is_whole(*at: Any) -> Any:
        last = among(tirx.min((_int64(group) + one) * width, all_of_them) - one)
        return te.sum(comes_before(last, values(*at)).astype("int64"), axis=group)

    wholes = te.compute(values.shape, is_whole, name="groups")

    def is_before(*at: Any) -> Any:
        place = wholes(*at) * width + _int64(member)
        element = among(tirx.min(place, all_of_them - one))
        is_there = tirx.all(place < all_of_them, comes_before(element, values(*at)))
        return te.sum(is_there.astype("int64"), axis=member)

    others = te.compute(values.shape, is_before, name="members")
    return te.compute(
        values.shape,
        lambda *at: tirx.min(wholes(*at) * width, all_of_them) + others(*at),
        name="before",
    )


def _int64(axis: Any) -> Any:
    return axis.var.astype("int64")


OPERATORS: dict[str, Converter] = {
    "embedding": _embedding,
    "gather": _gather,
    "index.Tensor": _index,
    "index_select": _index_select,
    "searchsorted.Tensor": _searchsorted,
}
"""By ATen's names; an overload called default is left out."""
