"""Operators that make tensors out of nothing but a shape, and their ``dyn.*`` forms.

A ``dyn.*`` operator takes as an argument what its twin has as an attribute. Relax's shapes are part
of the types, so the argument has to be a constant or to follow from shapes (see ``fold``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay.call import (
    Dim,
    Expr,
    OpCall,
    OperatorFunction,
    axis_of,
    dims,
    dtype,
    is_float,
    rank,
)
from tvm_stitch.frontend.relay.ops import image, index, movement, slices, spatial
from tvm_stitch.frontend.relay.ops.layers import pool

_op = relax.op


def _shape(call: OpCall, position: int) -> list[Dim]:
    shape = call.attrs.integers("shape")
    if shape is None:
        shape = call.known_integers(position, "the shape")
    return shape


def _full(call: OpCall) -> Expr:
    call.expect(1, 2)
    name = call.attrs.text("dtype") or dtype(call[0])
    return _op.full(_shape(call, 1), call.cast(call[0], name), name)


def _full_like(call: OpCall) -> Expr:
    call.expect(2)
    return _op.full(dims(call[0]), call.cast(call[1], dtype(call[0])), dtype(call[0]))


def _filled(function: Callable[..., Expr]) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(0, 1)
        name = call.attrs.text("dtype", "float32")
        return function(_shape(call, 0), name)

    return operator


def _filled_like(function: Callable[..., Expr]) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(1)
        return function(dims(call[0]), dtype(call[0]))

    return operator


def _arange(call: OpCall) -> Expr:
    """The bounds are scalar arguments; their attributes of the same names say nothing more."""
    call.attrs.ignore("start", "stop", "step")
    call.expect(3)
    name = call.attrs.text("dtype", "float32")
    bounds: list[Any] = []
    for i, what in enumerate(("start", "stop", "step")):
        exact = not is_float(name)
        bounds += call.known_integers(i, what)[:1] if exact else [call.scalar(i, what)]
    start, stop, step = bounds
    return _op.arange(start, stop, step, name)


def _meshgrid(call: OpCall) -> Expr:
    call.expect(1)
    parts, indexing = call.fields(), call.attrs.text("indexing", "ij")
    if indexing not in ("ij", "xy"):
        raise RelayError(f"indexing {indexing!r} is neither ij nor xy")
    sizes = [dims(part)[0] if rank(part) else 1 for part in parts]
    order = list(range(len(parts)))
    if indexing == "xy" and len(parts) > 1:
        order[0], order[1] = 1, 0
    shape = [sizes[i] for i in order]
    grids = []
    for i, part in enumerate(parts):
        own = [sizes[i] if j == i else 1 for j in order]
        column = call.emit(_op.reshape(part, own))
        grids.append(call.emit(_op.broadcast_to(column, shape)))
    return relax.Tuple(grids)


# The dyn dialect


def _dyn_one_hot(call: OpCall) -> Expr:
    call.expect(4)
    call.attrs.ignore("depth")
    return index.one_hot(call, int(call.scalar(3, "the depth")))


def _dyn_expand_dims(call: OpCall) -> Expr:
    call.expect(2)
    return movement.expand_dims(call, int(call.scalar(1, "the axis")))


def _dyn_squeeze(call: OpCall) -> Expr:
    call.expect(2)
    return movement.squeeze(call, call.known_integers(1, "the axes"))


def _dyn_pad(call: OpCall) -> Expr:
    call.expect(3)
    widths = call.known_integers(1, "the widths")
    pairs = list(zip(widths[::2], widths[1::2], strict=True))
    fill = call[2] if call.known_values[2] is None else call.scalar(2, "the fill value")
    return spatial.pad(call, call[0], pairs, fill)


def _dyn_upsampling(call: OpCall) -> Expr:
    call.expect(3)
    call.attrs.ignore("scale_h", "scale_w")
    return pool.upsample(call, [call.scalar(i, "a factor") for i in (1, 2)])


def _dyn_upsampling3d(call: OpCall) -> Expr:
    call.expect(4)
    call.attrs.ignore("scale_d", "scale_h", "scale_w")
    return pool.upsample3d(call, [call.scalar(i, "a factor") for i in (1, 2, 3)])


def _dyn_resize2d(call: OpCall) -> Expr:
    call.expect(2, 3)
    roi = list(call.known(2, "the region").reshape(-1)) if len(call) == 3 else []
    return image.resize(call, 2, call.known_integers(1, "the size"), [float(n) for n in roi])


def _dyn_sparse_to_dense(call: OpCall) -> Expr:
    """Indices, values, default, shape: not the order of ``sparse_to_dense``."""
    call.expect(4)
    shape = call.known_integers(3, "the output shape")
    return index.put_sparse(call, shape, call[0], call[1], call[2])


def _dyn_strided_slice(call: OpCall) -> Expr:
    call.expect(4)
    begin, end, strides = (
        call.known_integers(i, what) for i, what in enumerate(("begin", "end", "strides"), 1)
    )
    axes = call.attrs.integers("axes")
    if axes is not None:
        axes = [axis_of(axis, rank(call[0])) for axis in axes]
    return slices.strided_slice(call, begin, end, strides, axes)


OPERATORS: dict[str, OperatorFunction] = {
    "arange": _arange,
    "full": _full,
    "full_like": _full_like,
    "meshgrid": _meshgrid,
    "ones": _filled(_op.ones),
    "ones_like": _filled_like(_op.ones),
    "zeros": _filled(_op.zeros),
    "zeros_like": _filled_like(_op.zeros),
    "dyn.broadcast_to": movement.OPERATORS["broadcast_to"],
    "dyn.expand_dims": _dyn_expand_dims,
    "dyn.full": _full,
    "dyn.image.resize2d": _dyn_resize2d,
    "dyn.nn.pad": _dyn_pad,
    "dyn.nn.upsampling": _dyn_upsampling,
    "dyn.nn.upsampling3d": _dyn_upsampling3d,
    "dyn.one_hot": _dyn_one_hot,
    "dyn.ones": _filled(_op.ones),
    "dyn.reshape": movement.OPERATORS["reshape"],
    "dyn.sparse_to_dense": _dyn_sparse_to_dense,
    "dyn.squeeze": _dyn_squeeze,
    "dyn.strided_slice": _dyn_strided_slice,
    "dyn.tile": movement.OPERATORS["tile"],
    "dyn.topk": index.OPERATORS["topk"],
    "dyn.zeros": _filled(_op.zeros),
}
