"""Views and copies: what moves elements and computes nothing.

The graph is functional, so that a view is a value like others; its shape is what PyTorch says.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from tvm import relax, te, tirx

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import Call, Converter, Dim, Expr, Number, dims, immediate, rank
from tvm_stitch.frontend.torch.layout import is_dense

_op = relax.op


def _same(call: Call, x: Expr, **_how: Any) -> Expr:
    return x


def _clone(call: Call, x: Expr, memory_format: Any = None) -> Expr:
    return x


def _reshape(call: Call, x: Expr, *_arguments: Any) -> Expr:
    """Whatever changes nothing but the shape."""
    wanted, found = call.shape, dims(x)
    if len(wanted) == len(found) and all(map(call.symbols.same, wanted, found)):
        return x
    return call.emit(_op.reshape(x, wanted))


def _as_strided(
    call: Call,
    x: Expr,
    size: Sequence[Number],
    stride: Sequence[Number],
    storage_offset: Number | None = None,
) -> Expr:
    """Elements by their places in memory, which a dense tensor says of all of its own.

    Where memory is only counted in other dimensions it is a reshape; windows that overlap are read
    where they lie.
    """
    tensor, expected = call.given[0], 1
    plain = tensor.is_contiguous() and tensor.numel() == call.result.numel()
    for extent, step in zip(reversed(size), reversed(stride), strict=True):
        plain = plain and (call.symbols.same(step, expected) or call.symbols.same(extent, 1))
        expected = expected * extent
    if plain and storage_offset in (None, 0):
        return _reshape(call, x)
    numbers = [*size, *stride, storage_offset or 0, *dims(x)]
    if not all(isinstance(each, int) for each in numbers) or not is_dense(tensor):
        raise TorchError("it is about memory, not values")
    own = tensor.storage_offset()
    first = (own if storage_offset is None else storage_offset) - own
    last = first + sum((extent - 1) * step for extent, step in zip(size, stride, strict=True))
    if first < 0 or last >= tensor.numel():
        raise TorchError("it reads memory around its tensor")
    steps = tensor.stride()

    def body(source: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            moved = (i * immediate(step, "int64") for i, step in zip(at, stride, strict=True))
            place = sum(moved, immediate(first, "int64"))
            return source(*[
                tirx.floormod(tirx.floordiv(place, immediate(step, "int64")), extent)
                if extent != 1
                else immediate(0, "int64")
                for step, extent in zip(steps, tensor.shape, strict=True)
            ])  # fmt: skip

        return te.compute(call.shape, element, name="as_strided")

    return call.te(body, x)


def _unfold(call: Call, x: Expr, dimension: int, size: int, step: int) -> Expr:
    """Windows along a dimension, which overlap where they are longer than their step."""
    if not rank(x):
        raise TorchError("a tensor without dimensions")
    axis = dimension % rank(x)

    def body(source: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            place = at[axis] * immediate(step, "int64") + at[-1]
            return source(*at[:axis], place, *at[axis + 1 : -1])

        return te.compute(call.shape, element, name="unfold")

    return call.te(body, x)


def _expand(call: Call, x: Expr, size: Sequence[Number], implicit: bool = False) -> Expr:
    wanted, found = call.shape, dims(x)
    if len(wanted) == len(found) and all(map(call.symbols.same, wanted, found)):
        return x
    return call.emit(_op.broadcast_to(x, wanted))


def _permute(call: Call, x: Expr, order: Sequence[int]) -> Expr:
    ndim = rank(x)
    turned = [axis % ndim for axis in order]
    return x if turned == list(range(ndim)) else call.emit(_op.permute_dims(x, turned))


def _transpose(call: Call, x: Expr, first: int, second: int) -> Expr:
    order = list(range(rank(x)))
    if order:
        order[first], order[second] = order[second], order[first]
    return _permute(call, x, order)


def _turned(call: Call, x: Expr) -> Expr:
    return _permute(call, x, list(reversed(range(rank(x)))))


def _to(call: Call, x: Expr, **_how: Any) -> Expr:
    return call.cast(x, call.dtype)


def _cat(call: Call, tensors: Sequence[Expr], dim: int = 0) -> Expr:
    ndim = len(call.shape)
    # PyTorch skips what has one dimension of no elements.
    parts = [call.cast(x, call.dtype) for x in tensors if ndim == 1 or dims(x) != [0]]
    if len(parts) == 1:
        return parts[0]
    axis = dim % ndim
    if all(isinstance(extent, int) for part in parts for extent in dims(part)):
        return call.emit(_op.concat(parts, axis))
    return _joined(call, parts, axis)


def _joined(call: Call, parts: Sequence[Expr], axis: int) -> Expr:
    """Tensors behind each other, in PyTorch's shape: TVM would write a sum for an extent of it."""
    starts = [*accumulate((dims(part)[axis] for part in parts), initial=0)][:-1]
    firsts = [immediate(start, "int64") for start in starts]

    def body(*tensors: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            *others, found = [
                tensor(*at[:axis], at[axis] - first, *at[axis + 1 :])
                for tensor, first in zip(tensors, firsts, strict=True)
            ]
            for piece, end in zip(reversed(others), reversed(firsts), strict=False):
                found = tirx.if_then_else(at[axis] < end, piece, found)
            return found

        return te.compute(call.shape, element, name="concatenate")

    return call.te(body, *parts)


def _start(call: Call, x: Expr, axis: int, start: Number | None) -> Dim:
    """Where a slice begins, counted from the front and within the tensor."""
    extent = dims(x)[axis]
    if start is None:
        return 0
    if isinstance(start, int) and isinstance(extent, int):
        return min(max(start + extent if start < 0 else start, 0), extent)
    if isinstance(start, int) and start >= 0:
        if call.symbols.same(call.shape[axis], extent - start):
            return start
        if start == 0:
            return 0
    elif isinstance(start, int):
        return extent + start
    raise TorchError("a slice from where only running tells")


def _moved(call: Call, x: Expr, axis: int, offset: Any, step: int, shape: Sequence[Dim]) -> Expr:
    """Every step-th element along an axis, beginning at an offset."""

    def body(tensor: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            place = [*at]
            place[axis] = immediate(offset, "int64") + at[axis] * immediate(step, "int64")
            return tensor(*place)

        return te.compute(shape, element, name="slice")

    return call.te(body, x)


def _slice(
    call: Call,
    x: Expr,
    dim: int = 0,
    start: Number | None = None,
    end: Number | None = None,
    step: int = 1,
) -> Expr:
    axis, shape = dim % rank(x), call.shape
    if call.symbols.same(shape[axis], dims(x)[axis]):
        return x
    first = _start(call, x, axis, start)
    extents = [*dims(x)]
    if all(isinstance(extent, int) for extent in (*extents, *shape, first)):
        last = min(first + (shape[axis] - 1) * step + 1, extents[axis])
        return call.emit(_op.strided_slice(x, [axis], [first], [last], [step]))
    return _moved(call, x, axis, first, step, shape)


def _select(call: Call, x: Expr, dim: int, index: Number) -> Expr:
    axis, extent = dim % rank(x), dims(x)[dim]
    if not isinstance(index, int):
        raise TorchError("a position that only running tells")
    place = extent + index if index < 0 else index

    def body(tensor: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            return tensor(*at[:axis], immediate(place, "int64"), *at[axis:])

        return te.compute(call.shape, element, name="select")

    if isinstance(place, int) and all(isinstance(each, int) for each in dims(x)):
        piece = call.emit(_op.strided_slice(x, [axis], [place], [place + 1]))
        return call.emit(_op.reshape(piece, call.shape))
    return call.te(body, x)


def _split(call: Call, x: Expr, sizes: Sequence[Number] | int, dim: int = 0) -> tuple[Expr, ...]:
    axis, parts, start = dim % rank(x), [], 0
    for piece in call.result:
        shape = call.symbols.extents(piece.shape)
        if not all(isinstance(each, int) for each in (*shape, *dims(x), start)):
            parts.append(_moved(call, x, axis, start, 1, shape))
        else:
            end = start + shape[axis]
            parts.append(call.emit(_op.strided_slice(x, [axis], [start], [end])))
        start = start + shape[axis]
    return tuple(parts)


def _flip(call: Call, x: Expr, along: Sequence[int]) -> Expr:
    turned = {axis % max(rank(x), 1) for axis in along}
    extents = dims(x)
    if len(turned) == 1 and all(isinstance(extent, int) for extent in extents) and rank(x):
        # By its name: between two, a running sum is one from the end.
        return call.emit(_op.flip(x, *turned))

    def body(tensor: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            last = (immediate(extent, "int64") - 1 for extent in extents)
            ends = zip(at, last, strict=True)
            return tensor(*(e - i if n in turned else i for n, (i, e) in enumerate(ends)))

        return te.compute(extents, element, name="flip")

    return x if not turned else call.te(body, x)


def _roll(call: Call, x: Expr, shifts: Sequence[Number], along: Sequence[int] = ()) -> Expr:
    """What is moved over the end of a dimension comes in at its beginning."""
    if not along:  # of all elements, one after the other
        flat = call.emit(_op.reshape(x, [math.prod(dims(x))]))
        return call.emit(_op.reshape(_rolled(call, flat, {0: shifts[0]}), call.shape))
    moved: dict[int, Number] = {}
    for axis, shift in zip(along, shifts, strict=True):
        moved[axis % rank(x)] = moved.get(axis % rank(x), 0) + shift
    return _rolled(call, x, moved)


def _rolled(call: Call, x: Expr, shifts: Mapping[int, Number]) -> Expr:
    extents = dims(x)

    def body(tensor: te.Tensor) -> te.Tensor:
        def from_where(axis: int, index: Any) -> Any:
            if axis not in shifts:
                return index
            extent, shift = extents[axis], shifts[axis]
            if not (isinstance(extent, int) and isinstance(shift, int)):
                moved = index - immediate(shift, "int64")
                return tirx.floormod(moved, immediate(extent, "int64"))
            shift = shift % max(extent, 1)
            if not shift:
                return index
            return tirx.Select(index < shift, index + (extent - shift), index - shift)

        def element(*at: Any) -> Any:
            return tensor(*(from_where(axis, index) for axis, index in enumerate(at)))

        return te.compute(extents, element, name="roll")

    return call.te(body, x)


def _repeat(call: Call, x: Expr, times: Sequence[Number]) -> Expr:
    """Each dimension so many times over: a broadcast and a reshape."""
    extents = [*[1] * (len(times) - rank(x)), *dims(x)]
    apart = [extent for each in extents for extent in (1, each)]
    wide = [extent for pair in zip(times, extents, strict=True) for extent in pair]
    copies = call.emit(_op.broadcast_to(call.emit(_op.reshape(x, apart)), wide))
    return call.emit(_op.reshape(copies, call.shape))


def _pad(call: Call, x: Expr, widths: Sequence[Number], value: Number = 0) -> Expr:
    """Widths come in pairs from the last dimension on; negative ones cut off."""
    if all(isinstance(width, int) and width == 0 for width in widths):
        return x
    ndim, of, extents = rank(x), call.dtype, dims(x)
    before: list[Any] = [0] * ndim
    for place in range(len(widths) // 2):
        before[ndim - 1 - place] = widths[2 * place]
    padded = {ndim - 1 - place for place in range(len(widths) // 2)}

    def body(tensor: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            places = [i - immediate(b, "int64") for i, b in zip(at, before, strict=True)]
            inside = [
                limit
                for axis, (place, extent) in enumerate(zip(places, extents, strict=True))
                if axis in padded
                for limit in (place >= 0, place < immediate(extent, "int64"))
            ]
            found = tensor(*places)
            if not inside:
                return found
            return tirx.if_then_else(tirx.all(*inside), found, immediate(value, of))

        return te.compute(call.shape, element, name="pad")

    return call.te(body, x)


def _diagonal(call: Call, x: Expr, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Expr:
    ndim = rank(x)
    first, second = dim1 % ndim, dim2 % ndim

    def body(tensor: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            others, along = iter(at[:-1]), at[-1]
            places = {first: along + max(-offset, 0), second: along + max(offset, 0)}
            return tensor(*(places[n] if n in places else next(others) for n in range(ndim)))

        return te.compute(call.shape, element, name="diagonal")

    return call.te(body, x)


def _copied(call: Call, x: Expr, source: Expr, non_blocking: bool = False) -> Expr:
    source = call.cast(source, call.dtype)
    return _expand(call, source, call.shape)


ALONG_ONE = frozenset({"cat", "slice.Tensor", "split.Tensor", "split_with_sizes"})
"""Those along one dimension that leave all others as they are."""
VIEWS = frozenset({
    "alias", "as_strided", "detach", "diagonal", "expand", "permute", "select.int", "slice.Tensor",
    "split_with_sizes", "split.Tensor", "squeeze.dim", "squeeze.dims", "squeeze", "t",
    "transpose.int", "unbind.int", "unfold", "unsqueeze", "view", "_unsafe_view", "reshape",
})  # fmt: skip
"""What PyTorch computes without moving anything."""
SAME_MEMORY = frozenset({
    "squeeze", "squeeze.dim", "squeeze.dims", "unsqueeze", "view", "_unsafe_view",
})  # fmt: skip
"""Those that give all elements another shape, where they lie."""
ELEMENTWISE = frozenset({"_to_copy", "clone"})
"""What may change types and places in memory, and no element's place in the tensor."""

OPERATORS: dict[str, Converter] = {
    "_to_copy": _to,
    "_unsafe_view": _reshape,
    "alias": _same,
    "as_strided": _as_strided,
    "cat": _cat,
    "clone": _clone,
    "constant_pad_nd": _pad,
    "copy": _copied,
    "detach": _same,
    "diagonal": _diagonal,
    "expand": _expand,
    "flip": _flip,
    "lift_fresh_copy": _same,
    "permute": _permute,
    "repeat": _repeat,
    "reshape": _reshape,
    "roll": _roll,
    "select.int": _select,
    "slice.Tensor": _slice,
    "split.Tensor": _split,
    "split_with_sizes": _split,
    "squeeze": _reshape,
    "squeeze.dim": _reshape,
    "squeeze.dims": _reshape,
    "t": _turned,
    "transpose.int": _transpose,
    "unfold": _unfold,
    "unsqueeze": _reshape,
    "view": _reshape,
}
