"""Sums, products, means and variances that accumulate in float32; two-pass variance."""

from __future__ import annotations

from tvm.ir import Call, Expr
from tvm.relax import op

from tvm_stitch.graph.front.decompose.stages import HALF, Stages, dtype_of

_WIDENED = {"relax.sum": op.sum, "relax.prod": op.prod, "relax.mean": op.mean}


def widened_reduction(call: Call, stage: Stages) -> Expr | None:
    """A sum, product or mean of half-precision data, in float32; any other is a stage already."""
    if dtype_of(call.args[0]) not in HALF:
        return None
    reduce = _WIDENED[call.op.name]
    x = stage.widen(call.args[0])
    return stage.result(
        dtype_of(call), reduce, x, axis=_axes(call), keepdims=bool(call.attrs.keepdims)
    )


def variance(call: Call, stage: Stages) -> Expr:
    """mean((x - mean(x))^2)."""
    squares = _squared_deviations(call, stage)
    keepdims = bool(call.attrs.keepdims)
    return stage.result(dtype_of(call), op.mean, squares, axis=_axes(call), keepdims=keepdims)


def standard_deviation(call: Call, stage: Stages) -> Expr:
    """sqrt(mean((x - mean(x))^2))."""
    squares = _squared_deviations(call, stage)
    keepdims = bool(call.attrs.keepdims)
    spread = stage(op.mean, squares, axis=_axes(call), keepdims=keepdims)
    return stage.result(dtype_of(call), op.sqrt, spread)


def _squared_deviations(call: Call, stage: Stages) -> Expr:
    x = stage.widen(call.args[0])
    mean = stage(op.mean, x, axis=_axes(call), keepdims=True)
    return stage(op.square, stage(op.subtract, x, mean))


def _axes(call: Call) -> list[int] | None:
    return None if call.attrs.axis is None else [int(axis) for axis in call.attrs.axis]
