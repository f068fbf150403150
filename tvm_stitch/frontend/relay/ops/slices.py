"""Slices: reading a part of a tensor, replacing one, windows that slide."""

from __future__ import annotations

from typing import Any

from tvm import relax, te, tirx, topi

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay.call import (
    Dim,
    Expr,
    OpCall,
    OperatorFunction,
    axis_of,
    dims,
    rank,
    same_dim,
)

_op = relax.op


def _strided_slice(call: OpCall) -> Expr:
    """begin, end and strides were arguments up to 0.7 and in dyn.strided_slice."""
    call.expect(1, 4)
    attrs = call.attrs
    names = ("begin", "end", "strides")
    lists = [attrs.integers(name) for name in names]
    for i, name in enumerate(names):
        if lists[i] is None and len(call) > i + 1:
            lists[i] = call.known_integers(i + 1, name)
    begin, end, strides = lists
    if begin is None or end is None:
        raise RelayError("attributes begin and end are needed")
    return strided_slice(call, begin, end, strides or [1], attrs.integers("axes"))


def strided_slice(
    call: OpCall,
    begin: list[Dim],
    end: list[Dim],
    strides: list[int],
    axes: list[int] | None,
) -> Expr:
    """Relay's slice: as Python's, or with ``slice_mode="size"``, where the ends are sizes."""
    shape = dims(call[0])
    axes = list(range(len(begin))) if axes is None else [axis_of(a, len(shape)) for a in axes]
    if not len(begin) == len(end) == len(axes) or len(axes) > len(shape):
        raise RelayError(f"begin {begin} and end {end} do not fit shape {shape}")
    mode = call.attrs.text("slice_mode", "end")
    strides = (strides * len(axes) if len(strides) == 1 else strides)[: len(axes)]
    strides = strides + [1] * (len(axes) - len(strides))
    spans = []
    for axis, first, last, stride in zip(axes, begin, end, strides, strict=True):
        if mode == "size":
            extent, stride = shape[axis], 1
            first = first + extent if isinstance(first, int) and first < 0 else first
            last = extent if same_dim(last, -1) else first + last
        spans.append(_span(shape[axis], first, last, stride))
    if any(span[2] == 0 for span in spans):
        raise RelayError("a stride is zero")
    begins, ends, steps = ([span[i] for span in spans] for i in range(3))
    if all(isinstance(value, int) for value in begins + ends) and min(steps, default=1) < 0:
        return _sliced_backwards(call, axes, begins, ends, steps)
    return _op.strided_slice(call[0], axes, begins, ends, steps)


def _span(extent: Dim, first: Dim, last: Dim, stride: int) -> tuple[Dim, Dim, int]:
    """A slice with its bounds counted from the front and inside the axis."""
    if not isinstance(extent, int):
        # Relay wrote "to the end" as a very large number.
        if isinstance(first, int) and first < 0:
            first = extent + first
        if isinstance(last, int):
            last = extent if last >= 2**31 - 1 else extent + last if last < 0 else last
        return first, last, stride
    if not isinstance(first, int) or not isinstance(last, int):
        return first, last, stride
    begin, end, step = slice(first, last, stride).indices(extent) if stride else (0, 0, 0)
    return begin, end, step


def _sliced_backwards(
    call: OpCall, axes: list[int], begin: list[int], end: list[int], strides: list[int]
) -> Expr:
    """A slice that runs backwards, as a tensor expression: an end of -1 is before the first."""
    shape = dims(call[0])
    start, step = [0] * len(shape), [1] * len(shape)
    for axis, first, last, stride in zip(axes, begin, end, strides, strict=True):
        start[axis], step[axis] = first, stride
        shape[axis] = len(range(first, last, stride))

    def compute(a: te.Tensor) -> te.Tensor:
        return te.compute(
            shape,
            lambda *i: a(*[index * s + f for index, s, f in zip(i, step, start, strict=True)]),
            name="slice",
        )

    return call.te(compute, call[0])


def _slice_like(call: OpCall) -> Expr:
    call.expect(2)
    ours, theirs = dims(call[0]), dims(call[1])
    listed = call.attrs.integers("axes") or list(range(min(len(ours), len(theirs))))
    axes = [axis_of(axis, len(ours)) for axis in listed]
    for axis in axes:
        if axis >= len(theirs):
            raise RelayError(f"axis {axis} is outside the second argument's shape {theirs}")
    return _op.strided_slice(call[0], axes, [0] * len(axes), [theirs[axis] for axis in axes])


def _strided_set(call: OpCall) -> Expr:
    """The data with a slice of it replaced."""
    call.expect(4, 5)
    data, values = call[0], call[1]
    begin, end = call.known_integers(2, "begin"), call.known_integers(3, "end")
    strides = call.known_integers(4, "strides") if len(call) == 5 else [1] * len(begin)
    shape = dims(data)
    if len(begin) != len(shape) or not all(isinstance(extent, int) for extent in shape):
        raise RelayError(f"begin {begin} does not fit shape {shape}")
    spans = [
        slice(b, e, s).indices(extent)
        for b, e, s, extent in zip(begin, end, strides, shape, strict=True)
    ]

    def compute(a: te.Tensor, v: te.Tensor) -> te.Tensor:
        def element(*i: Any) -> Any:
            inside: list[Any] = []
            where: list[Any] = []
            for index, (first, last, step) in zip(i, spans, strict=True):
                distance = index - first if step > 0 else first - index
                count = len(range(first, last, step))
                inside += [distance >= 0, distance < count * abs(step)]
                inside += [tirx.floormod(distance, abs(step)) == 0]
                where.append(tirx.floordiv(distance, abs(step)))
            return tirx.if_then_else(tirx.all(*inside), v(*where), a(*i))

        return te.compute(shape, element, name="strided_set")

    return call.te(compute, data, values)


def _sliding_window(call: OpCall) -> Expr:
    call.expect(1)
    attrs = call.attrs
    axis = axis_of(attrs.integer("axis", 0), rank(call[0]))
    window, strides = attrs.integers("window_shape", []), attrs.integers("strides", [])
    if not len(window) == len(strides) == rank(call[0]) - axis:
        raise RelayError(f"window_shape {window} and strides {strides} do not fit axis {axis}")
    return call.te(lambda a: topi.sliding_window(a, axis, window, strides), call[0])


OPERATORS: dict[str, OperatorFunction] = {
    "slice_like": _slice_like,
    "sliding_window": _sliding_window,
    "strided_set": _strided_set,
    "strided_slice": _strided_slice,
}
