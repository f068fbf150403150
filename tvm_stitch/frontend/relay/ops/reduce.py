"""Relay's reductions.

``axis`` absent or empty means all axes; ``exclude`` means the axes not listed. Indices are int32.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, te, tirx, topi

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
from tvm_stitch.graph.front.arg_reduce import positions

_op = relax.op


def _axes(call: OpCall) -> list[int]:
    """The axes to reduce."""
    ndim = rank(call[0])
    listed = call.attrs.integers("axis") or []
    axes = sorted({axis_of(axis, ndim) for axis in listed})
    if call.attrs.flag("exclude"):
        return [i for i in range(ndim) if i not in axes]
    return axes or list(range(ndim))


def _reduction(function: Callable[..., Expr]) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(1)
        axes, keepdims = _axes(call), call.attrs.flag("keepdims")
        return function(call[0], axes, keepdims) if axes else call[0]

    return operator


def _mean(call: OpCall) -> Expr:
    call.expect(1)
    axes, keepdims = _axes(call), call.attrs.flag("keepdims")
    if not axes:
        return call[0]
    if is_float(dtype(call[0])):
        return _op.mean(call[0], axes, keepdims)
    total = call.emit(_op.sum(call[0], axes, keepdims))
    count = _count(call[0], axes)

    def divide(a: Any) -> Any:
        return topi.cast(topi.divide(a, tirx.const(count, dtype(call[0]))), dtype(call[0]))

    return call.te(divide, total)


def _count(value: Expr, axes: list[int]) -> int:
    count = 1
    for axis in axes:
        extent = dims(value)[axis]
        if not isinstance(extent, int):
            raise RelayError("the mean of integers over a symbolic axis is not read")
        count *= extent
    return count


def _variance(call: OpCall) -> Expr:
    """The mean is the second argument, its reduced axes kept."""
    call.expect(2)
    value, mean = call[0], call[1]
    axes, keepdims = _axes(call), call.attrs.flag("keepdims")
    deviation = call.emit(_op.subtract(value, mean))
    square = call.emit(_op.multiply(deviation, deviation))
    if not call.attrs.flag("unbiased"):
        return _op.mean(square, axes, keepdims)
    total = call.emit(_op.sum(square, axes, keepdims))
    return _op.divide(total, call.like(_count(value, axes) - 1, value))


def _boolean(function: Callable[..., Any]) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(1)
        axes, keepdims = _axes(call), call.attrs.flag("keepdims")
        if dtype(call[0]) != "bool":
            raise RelayError(f"the argument must be bool, not {dtype(call[0])}")
        return call.te(lambda a: function(a, axes, keepdims), call[0]) if axes else call[0]

    return operator


def _position(extreme: Callable[..., Any]) -> OperatorFunction:
    """Where the extreme is; over several axes its place in the flattened part."""

    def operator(call: OpCall) -> Expr:
        call.expect(1)
        keepdims, last = call.attrs.flag("keepdims"), call.attrs.flag("select_last_index")

        def compute(a: te.Tensor) -> te.Tensor:
            return positions(a, _axes(call), extreme, keepdims, "int32", last)

        return call.te(compute, call[0])

    return operator


def _logsumexp(call: OpCall) -> Expr:
    call.expect(1)
    value, axes, keepdims = call[0], _axes(call), call.attrs.flag("keepdims")
    largest = call.emit(_op.max(value, axes, True))
    shifted = call.emit(_op.exp(call.emit(_op.subtract(value, largest))))
    total = call.emit(_op.log(call.emit(_op.sum(shifted, axes, keepdims))))
    return _op.add(total, largest if keepdims else call.emit(_op.squeeze(largest, axes)))


def _collapse_sum_like(call: OpCall) -> Expr:
    call.expect(2)
    return _op.collapse_sum_to(call[0], dims(call[1]))


def _collapse_sum_to(call: OpCall) -> Expr:
    shape = call.attrs.integers("shape") or call.known_integers(1, "the shape to collapse to")
    return _op.collapse_sum_to(call[0], shape)


OPERATORS: dict[str, OperatorFunction] = {
    "all": _boolean(topi.all),
    "any": _boolean(topi.any),
    "argmax": _position(te.max),
    "argmin": _position(te.min),
    "collapse_sum_like": _collapse_sum_like,
    "collapse_sum_to": _collapse_sum_to,
    "logsumexp": _logsumexp,
    "max": _reduction(_op.max),
    "mean": _mean,
    "min": _reduction(_op.min),
    "prod": _reduction(_op.prod),
    "sum": _reduction(_op.sum),
    "variance": _variance,
}
