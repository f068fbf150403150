"""Softmax and log-softmax as a row maximum, a row sum and element-wise stages."""

from __future__ import annotations

from typing import Any

from tvm import te, tirx
from tvm.ir import Call, Expr
from tvm.relax import op

from tvm_stitch.graph.front.decompose.stages import Stages, dtype_of


def softmax(call: Call, stage: Stages) -> Expr:
    """exp(x - max) / sum(exp(x - max))."""
    return stage.result(dtype_of(call), op.divide, *_powers(call, stage))


def safe_softmax(call: Call, stage: Stages) -> Expr:
    """The same, but 0 along rows of nothing but minus infinity, as weights of attention are."""
    powers, total = _powers(call, stage)
    divisor = stage.compute(_nonzero, total, name="seen")
    return stage.result(dtype_of(call), op.divide, powers, divisor)


def _powers(call: Call, stage: Stages) -> tuple[Expr, Expr]:
    """exp(x - max), and its sum: 0 where all is minus infinity, as a maximum is finite."""
    axis = int(call.attrs.axis)
    powers = stage(op.exp, _shifted(call.args[0], axis, stage))
    return powers, stage(op.sum, powers, axis=axis, keepdims=True)


def _nonzero(total: te.Tensor) -> te.Tensor:
    """What is divided by; what is no number stays none."""
    zero, one = (tirx.const(each, total.dtype) for each in (0, 1))

    def element(*place: Any) -> Expr:
        return tirx.Select(total(*place) == zero, one, total(*place))

    return te.compute(total.shape, element, name="seen")


def log_softmax(call: Call, stage: Stages) -> Expr:
    """(x - max) - log(sum(exp(x - max)))."""
    axis = int(call.attrs.axis)
    shifted = _shifted(call.args[0], axis, stage)
    total = stage(op.sum, stage(op.exp, shifted), axis=axis, keepdims=True)
    return stage.result(dtype_of(call), op.subtract, shifted, stage(op.log, total))


def _shifted(data: Expr, axis: int, stage: Stages) -> Expr:
    x = stage.widen(data)
    return stage(op.subtract, x, stage(op.max, x, axis=axis, keepdims=True))
