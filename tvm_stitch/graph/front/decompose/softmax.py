"""Softmax and log-softmax as a row maximum, a row sum and element-wise stages."""

from __future__ import annotations

from tvm.ir import Call, Expr
from tvm.relax import op

from tvm_stitch.graph.front.decompose.stages import Stages, dtype_of


def softmax(call: Call, stage: Stages) -> Expr:
    """exp(x - max) / sum(exp(x - max))."""
    axis = int(call.attrs.axis)
    shifted = _shifted(call.args[0], axis, stage)
    powers = stage(op.exp, shifted)
    total = stage(op.sum, powers, axis=axis, keepdims=True)
    return stage.result(dtype_of(call), op.divide, powers, total)


def log_softmax(call: Call, stage: Stages) -> Expr:
    """(x - max) - log(sum(exp(x - max)))."""
    axis = int(call.attrs.axis)
    shifted = _shifted(call.args[0], axis, stage)
    total = stage(op.sum, stage(op.exp, shifted), axis=axis, keepdims=True)
    return stage.result(dtype_of(call), op.subtract, shifted, stage(op.log, total))


def _shifted(data: Expr, axis: int, stage: Stages) -> Expr:
    x = stage.widen(data)
    return stage(op.subtract, x, stage(op.max, x, axis=axis, keepdims=True))
