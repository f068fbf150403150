"""Padding, and moving extents between the batch, the channels and the spatial axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import relax, tirx, topi

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay import layout as layouts
from tvm_stitch.frontend.relay.call import (
    Expr,
    OpCall,
    OperatorFunction,
    axis_of,
    dims,
    dtype,
    rank,
)

_op = relax.op


def pad(call: OpCall, value: Expr, widths: list[tuple[int, int]], fill: Any) -> Expr:
    """``nn.pad`` by known widths; the fill is a number or a scalar tensor."""
    mode = call.attrs.text("pad_mode", "constant")
    if len(widths) != rank(value):
        raise RelayError(f"pad_width {widths} does not fit a tensor of rank {rank(value)}")
    before, after = [w[0] for w in widths], [w[1] for w in widths]
    if mode == "constant":
        if any(width < 0 for width in before + after):
            raise RelayError(f"pad_width {widths} is negative; use strided_slice to crop")
        name = dtype(value)
        if not isinstance(fill, float):
            return call.te(
                lambda a, f: topi.nn.pad(a, before, after, topi.cast(f, name)()), value, fill
            )
        number = fill if name.startswith(("float", "bfloat")) else int(fill)
        return call.te(lambda a: topi.nn.pad(a, before, after, tirx.const(number, name)), value)
    if mode == "edge":
        return call.te(lambda a: topi.nn.replicate_pad(a, before, after), value)
    if mode == "reflect":
        return call.te(lambda a: topi.nn.mirror_pad(a, before, after, "REFLECT"), value)
    raise RelayError(f"pad_mode {mode!r} is none of constant, edge, reflect")


def _pad(call: OpCall) -> Expr:
    """The fill became an argument in 0.7; before, it was an attribute."""
    call.expect(1, 2)
    fill: Any = call.attrs.number("pad_value", 0.0)
    if len(call) == 2:
        fill = call[1] if call.known_values[1] is None else call.scalar(1, "the fill value")
    return pad(call, call[0], call.attrs.pairs("pad_width"), fill)


def _mirror_pad(call: OpCall) -> Expr:
    call.expect(1)
    widths, mode = call.attrs.pairs("pad_width"), call.attrs.text("mode", "SYMMETRIC")
    before, after = [w[0] for w in widths], [w[1] for w in widths]
    return call.te(lambda a: topi.nn.mirror_pad(a, before, after, mode), call[0])


def _subpixel(compute: Callable[..., Any], modes: tuple[str, ...]) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(1)
        size, layout = call.attrs.integer("block_size", 1), call.attrs.text("layout", "NCHW")
        mode = call.attrs.text("mode", "DCR")
        more = [mode] if modes else []
        data = layouts.rearrange(call, call[0], layout, "NCHW")
        result = call.te(lambda a: compute(a, size, "NCHW", *more), data)
        return layouts.rearrange(call, result, "NCHW", layout)

    return operator


def _space_to_batch_nd(call: OpCall) -> Expr:
    call.expect(1)
    block = call.attrs.integers("block_shape", [1, 1])
    widths = [(0, 0), *call.attrs.pairs("paddings")]
    widths += [(0, 0)] * (rank(call[0]) - len(widths))
    if len(block) >= rank(call[0]) or len(widths) != rank(call[0]):
        raise RelayError(f"block_shape {block} does not fit a tensor of rank {rank(call[0])}")
    value = call.emit(pad(call, call[0], widths, call.attrs.number("pad_value", 0.0)))
    batch, *extents = dims(value)
    spatial, rest = extents[: len(block)], extents[len(block) :]
    small = [n // b for n, b in zip(spatial, block, strict=True)]
    pairs = [extent for pair in zip(small, block, strict=True) for extent in pair]
    parts = call.emit(_op.reshape(value, [batch, *pairs, *rest]))
    count = len(block)
    inner, outer = [2 * i + 2 for i in range(count)], [2 * i + 1 for i in range(count)]
    last = list(range(2 * count + 1, rank(parts)))
    moved = call.emit(_op.permute_dims(parts, [*inner, 0, *outer, *last]))
    return _op.reshape(moved, [batch * math.prod(block), *small, *rest])


def _batch_to_space_nd(call: OpCall) -> Expr:
    call.expect(1)
    block = call.attrs.integers("block_shape", [1, 1])
    crops, count = call.attrs.pairs("crops"), len(block)
    batch, *extents = dims(call[0])
    if count >= rank(call[0]) or len(crops) != count:
        raise RelayError(f"block_shape {block} or crops {crops} does not fit shape {dims(call[0])}")
    spatial, rest = extents[:count], extents[count:]
    left = batch // math.prod(block)
    parts = call.emit(_op.reshape(call[0], [*block, left, *spatial, *rest]))
    pairs = [axis for i in range(count) for axis in (count + 1 + i, i)]
    last = list(range(2 * count + 1, rank(parts)))
    moved = call.emit(_op.permute_dims(parts, [count, *pairs, *last]))
    large = [n * b for n, b in zip(spatial, block, strict=True)]
    value = call.emit(_op.reshape(moved, [left, *large, *rest]))
    begin, end = [c[0] for c in crops], [n - c[1] for n, c in zip(large, crops, strict=True)]
    return _op.strided_slice(value, list(range(1, count + 1)), begin, end)


def _dilate(call: OpCall) -> Expr:
    call.expect(1)
    strides = call.attrs.integers("strides", [1] * rank(call[0]))
    fill = call.attrs.number("dilation_value", 0.0)
    return call.te(lambda a: topi.nn.dilate(a, strides, fill), call[0])


def _batch_flatten(call: OpCall) -> Expr:
    call.expect(1)
    first, *rest = dims(call[0])
    count = 1
    for extent in rest:
        count = count * extent
    return _op.reshape(call[0], [first, count])


def _fifo_buffer(call: OpCall) -> Expr:
    """The buffer moved on by the data's length, the data behind it."""
    call.expect(2)
    data, buffer = call[0], call[1]
    axis = axis_of(call.attrs.integer("axis", 0), rank(data))
    fresh, length = dims(data)[axis], dims(buffer)[axis]
    joined = call.emit(_op.concat([buffer, data], axis))
    return _op.strided_slice(joined, [axis], [fresh], [fresh + length])


OPERATORS: dict[str, OperatorFunction] = {
    "nn.batch_flatten": _batch_flatten,
    "nn.batch_to_space_nd": _batch_to_space_nd,
    "nn.depth_to_space": _subpixel(topi.nn.depth_to_space, ("DCR", "CDR")),
    "nn.dilate": _dilate,
    "nn.fifo_buffer": _fifo_buffer,
    "nn.mirror_pad": _mirror_pad,
    "nn.pad": _pad,
    "nn.space_to_batch_nd": _space_to_batch_nd,
    "nn.space_to_depth": _subpixel(topi.nn.space_to_depth, ()),
}
