"""Operators that read or write where another tensor says; sorting and scanning."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, tirx, topi

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay.call import (
    Expr,
    OpCall,
    OperatorFunction,
    axis_of,
    dims,
    dtype,
    is_float,
    rank,
)

_op = relax.op


# Reading


def _take(call: OpCall) -> Expr:
    """Negative indices are clipped to 0 like others out of range, unless mode is "wrap"."""
    call.expect(2)
    attrs = call.attrs
    axis, batch = attrs.integer("axis"), attrs.integer("batch_dims", 0)
    mode = attrs.text("mode", "clip")
    if mode not in ("clip", "wrap", "fast"):
        raise RelayError(f"mode {mode!r} is none of clip, wrap, fast")
    axis = None if axis is None else axis_of(axis, rank(call[0]))
    batch = batch + rank(call[1]) if batch < 0 else batch
    return call.te(lambda a, i: topi.take(a, i, axis, batch, mode), call[0], call[1])


def _gather(call: OpCall) -> Expr:
    call.expect(2)
    axis = axis_of(call.attrs.integer("axis", 0), rank(call[0]))
    return call.te(lambda a, i: topi.gather(a, axis, i), call[0], call[1])


def _gather_nd(call: OpCall) -> Expr:
    """The indices' first axis walks the data's axes, as in MXNet; ONNX has it last."""
    call.expect(2)
    call.attrs.ignore("index_rank")
    batch = call.attrs.integer("batch_dims", 0)
    return call.te(lambda a, i: topi.gather_nd(a, i, batch), call[0], call[1])


def _adv_index(call: OpCall) -> Expr:
    """NumPy's advanced indexing: the data and one index tensor for each leading axis."""
    call.expect(1)
    data, *indices = call.fields()
    return call.te(lambda a, *i: topi.adv_index(a, list(i)), data, *indices)


def _embedding(call: OpCall) -> Expr:
    call.expect(2)
    return call.te(lambda table, i: topi.take(table, i, 0, 0, "clip"), call[0], call[1])


def _one_hot(call: OpCall) -> Expr:
    call.expect(3)
    return one_hot(call, call.attrs.integer("depth", 1))


def one_hot(call: OpCall, depth: int) -> Expr:
    """``one_hot`` of a known depth; the values on and off are scalars."""
    axis, name = call.attrs.integer("axis", -1), call.attrs.text("dtype") or dtype(call[1])
    axis = rank(call[0]) if axis == -1 else axis
    positions = [1] * (rank(call[0]) + 1)
    positions[axis] = depth
    indices = call.emit(_op.expand_dims(call[0], axis))
    steps = call.emit(_op.reshape(call.emit(_op.arange(0, depth, 1, dtype(call[0]))), positions))
    hit = call.emit(_op.equal(indices, steps))
    return _op.where(hit, call.cast(call[1], name), call.cast(call[2], name))


def _sequence_mask(call: OpCall) -> Expr:
    call.expect(2)
    fill, axis = call.attrs.number("mask_value", 0.0), call.attrs.integer("axis", 0)
    return call.te(lambda a, n: topi.sequence_mask(a, n, fill, axis), call[0], call[1])


def _unravel_index(call: OpCall) -> Expr:
    call.expect(2)
    shape = call.known_integers(1, "the shape")
    name = dtype(call[0])
    index, parts = call[0], []
    for extent in reversed(shape):
        size = tirx.const(extent, name)
        parts.append(
            call.te(lambda a, s=size: topi.floor_mod(a, s), index, name="unravel_remainder")
        )
        index = call.te(lambda a, s=size: topi.floor_divide(a, s), index, name="unravel_quotient")
    stacked = [call.emit(_op.expand_dims(part, 0)) for part in reversed(parts)]
    return _op.concat(stacked, 0)


def _searchsorted(call: OpCall) -> Expr:
    call.expect(2)
    right, name = call.attrs.flag("right"), call.attrs.text("dtype", "int32")
    return call.te(lambda a, v: topi.searchsorted(a, v, right, name), call[0], call[1])


# Writing


def _scatter(reduction: str | None) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(3)
        axis = axis_of(call.attrs.integer("axis", 0), rank(call[0]))
        how = reduction or call.attrs.text("reduction", "update")
        if how not in ("update", "add", "mul", "mean", "min", "max"):
            raise RelayError(f"reduction {how!r} is not known")
        return call.te(lambda a, i, u: topi.scatter_elements(a, i, u, axis, how), *call.args)

    return operator


def _scatter_nd(call: OpCall) -> Expr:
    call.expect(3)
    mode = call.attrs.text("mode", "update")
    if mode not in ("update", "add", "mul", "min", "max"):
        raise RelayError(f"mode {mode!r} is not known")
    return call.te(lambda a, i, u: topi.scatter_nd(a, i, u, mode), *call.args)


def _matrix_set_diag(call: OpCall) -> Expr:
    call.expect(2)
    attrs = call.attrs
    diagonals = (attrs.integer("k1", 0), attrs.integer("k2", 0))
    above = "RIGHT" if attrs.flag("super_diag_right_align", True) else "LEFT"
    below = "RIGHT" if attrs.flag("sub_diag_right_align") else "LEFT"
    return call.te(
        lambda a, d: topi.matrix_set_diag(a, d, diagonals, f"{above}_{below}"), *call.args
    )


def _sparse_to_dense(call: OpCall) -> Expr:
    """Indices, values, default; before 0.7 the default was always 0 and not written."""
    call.expect(2, 3)
    shape = call.attrs.integers("output_shape")
    if shape is None:
        raise RelayError("attribute output_shape is needed")
    default = call[2] if len(call) == 3 else call.like(0, call[1])
    return put_sparse(call, shape, call[0], call[1], default)


def put_sparse(call: OpCall, shape: list[int], indices: Expr, values: Expr, default: Expr) -> Expr:
    """A dense tensor with values put at indices, and a default elsewhere."""
    return call.te(lambda i, v, d: topi.sparse_to_dense(i, shape, v, d()), indices, values, default)


# Order


def _sort(call: OpCall) -> Expr:
    call.expect(1)
    call.attrs.ignore("dtype")
    axis = axis_of(call.attrs.integer("axis", -1), rank(call[0]))
    return _op.sort(call[0], axis, not call.attrs.flag("is_ascend", True))


def _argsort(call: OpCall) -> Expr:
    call.expect(1)
    attrs = call.attrs
    axis = axis_of(attrs.integer("axis", -1), rank(call[0]))
    descending, name = not attrs.flag("is_ascend", True), attrs.text("dtype", "int32")
    if is_float(name):
        order = call.emit(_op.argsort(call[0], axis, descending, "int32"))
        return call.cast(order, name)
    return _op.argsort(call[0], axis, descending, name)


def topk(call: OpCall, count: int) -> Expr:
    """The ``count`` largest (or smallest) along an axis, with their places."""
    attrs = call.attrs
    axis = axis_of(attrs.integer("axis", -1), rank(call[0]))
    name, wanted = attrs.text("dtype", "int32"), attrs.text("ret_type", "both")
    if wanted not in ("both", "values", "indices"):
        raise RelayError(f"ret_type {wanted!r} is none of both, values, indices")
    largest = not attrs.flag("is_ascend")
    found = call.emit(_op.topk(call[0], count, axis, "both", largest, "int32"))
    values = call.emit(relax.TupleGetItem(found, 0))
    indices = call.cast(call.emit(relax.TupleGetItem(found, 1)), name)
    if wanted == "both":
        return relax.Tuple([values, indices])
    return values if wanted == "values" else indices


def _topk(call: OpCall) -> Expr:
    call.expect(1, 2)
    if len(call) == 2:
        call.attrs.ignore("k")
        return topk(call, int(call.scalar(1, "k")))
    count = call.attrs.integer("k", 1)
    if count < 1:
        axis = axis_of(call.attrs.integer("axis", -1), rank(call[0]))
        count = dims(call[0])[axis]
        if not isinstance(count, int):
            raise RelayError("topk of all elements of a symbolic axis is not read")
    return topk(call, count)


def _scan(function: Callable[..., Any]) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(1)
        attrs, value = call.attrs, call[0]
        axis, name = attrs.integer("axis"), attrs.text("dtype") or dtype(value)
        exclusive = attrs.flag("exclusive")
        if axis is None:
            count = 1
            for extent in dims(value):
                count = count * extent
            value, axis = call.emit(_op.reshape(value, [count])), 0
        else:
            axis = axis_of(axis, rank(value))
        return call.te(lambda a: function(a, axis, name, exclusive), value)

    return operator


def _trilu(call: OpCall) -> Expr:
    """The triangle above (or below) the k-th diagonal."""
    call.expect(1, 2)
    upper = call.attrs.flag("upper", True)
    diagonal = int(call.scalar(1, "k")) if len(call) == 2 else 0
    return (_op.triu if upper else _op.tril)(call[0], diagonal)


def _invert_permutation(call: OpCall) -> Expr:
    call.expect(1)
    return call.cast(call.emit(_op.argsort(call[0], 0, False, "int32")), dtype(call[0]))


def _einsum(call: OpCall) -> Expr:
    call.expect(1)
    equation = call.attrs.text("equation")
    if not equation:
        raise RelayError("attribute equation is needed")
    return call.te(lambda *parts: topi.einsum(equation, *parts), *call.fields())


OPERATORS: dict[str, OperatorFunction] = {
    "adv_index": _adv_index,
    "argsort": _argsort,
    "cumprod": _scan(topi.cumprod),
    "cumsum": _scan(topi.cumsum),
    "einsum": _einsum,
    "gather": _gather,
    "gather_nd": _gather_nd,
    "invert_permutation": _invert_permutation,
    "matrix_set_diag": _matrix_set_diag,
    "nn.embedding": _embedding,
    "one_hot": _one_hot,
    "scatter": _scatter("update"),
    "scatter_add": _scatter("add"),
    "scatter_elements": _scatter(None),
    "scatter_nd": _scatter_nd,
    "searchsorted": _searchsorted,
    "sequence_mask": _sequence_mask,
    "sort": _sort,
    "sparse_to_dense": _sparse_to_dense,
    "take": _take,
    "topk": _topk,
    "trilu": _trilu,
    "unravel_index": _unravel_index,
}
