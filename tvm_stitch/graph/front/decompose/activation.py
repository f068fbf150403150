"""Compound element-wise functions: GELU, SiLU, SELU, softplus, powers, dropout and the like.

Each follows the formula of TVM's own legalisation, in float32 where the data is narrower.
"""

from __future__ import annotations

import math

from tvm import relax
from tvm.ir import Call, Expr, GenericConst
from tvm.relax import op

from tvm_stitch.graph.front.decompose.stages import HALF, Stages, dtype_of, rank_of

_SELU_ALPHA = 1.6732632423543772848170429916717
_SELU_SCALE = 1.0507009873554804934193349852946


def gelu(call: Call, stage: Stages) -> Expr:
    """x * (0.5 + 0.5 * erf(x / sqrt(2)))."""
    x = stage.widen(call.args[0])
    erf = stage(op.erf, stage(op.multiply, x, math.sqrt(0.5)))
    gate = stage(op.add, stage(op.multiply, erf, 0.5), 0.5)
    return stage.result(dtype_of(call), op.multiply, x, gate)


def gelu_tanh(call: Call, stage: Stages) -> Expr:
    """0.5 * x * (1 + tanh(sqrt(2 / pi) * x * (1 + 0.044715 * x * x)))."""
    x = stage.widen(call.args[0])
    cubic = stage(op.add, stage(op.multiply, stage(op.square, x), 0.044715), 1.0)
    scaled = stage(op.multiply, x, math.sqrt(2 / math.pi))
    tanh = stage(op.tanh, stage(op.multiply, scaled, cubic))
    half = stage(op.multiply, x, 0.5)
    return stage.result(dtype_of(call), op.multiply, half, stage(op.add, tanh, 1.0))


def sigmoid(call: Call, stage: Stages) -> Expr | None:
    """In float32: halves hold 1 / (1 + exp(-x)) where exp(-x) is too large for them."""
    if dtype_of(call) not in HALF:
        return None
    return stage.result(dtype_of(call), op.sigmoid, stage.widen(call.args[0]))


def silu(call: Call, stage: Stages) -> Expr:
    """x * sigmoid(x)."""
    x = stage.widen(call.args[0])
    return stage.result(dtype_of(call), op.multiply, x, stage(op.sigmoid, x))


def selu(call: Call, stage: Stages) -> Expr:
    """scale * (x where it is positive, alpha * (exp(x) - 1) elsewhere)."""
    x = stage.widen(call.args[0])
    decay = stage(op.multiply, stage(op.subtract, stage(op.exp, x), 1.0), _SELU_ALPHA)
    curve = stage(op.where, stage(op.greater, x, 0.0), x, decay)
    return stage.result(dtype_of(call), op.multiply, curve, _SELU_SCALE)


def softplus(call: Call, stage: Stages) -> Expr:
    """x where beta * x is above the threshold, log(1 + exp(beta * x)) / beta elsewhere."""
    beta, threshold = float(call.attrs.beta), float(call.attrs.threshold)
    x = stage.widen(call.args[0])
    scaled = x if beta == 1.0 else stage(op.multiply, x, beta)
    curve = stage(op.log, stage(op.add, stage(op.exp, scaled), 1.0))
    if beta != 1.0:
        curve = stage(op.divide, curve, beta)
    is_linear = stage(op.greater, scaled, threshold)
    return stage.result(dtype_of(call), op.where, is_linear, x, curve)


def log_add_exp(call: Call, stage: Stages) -> Expr:
    """max + log(1 + exp(-|a - b|)), which overflows nowhere; equal infinities stay themselves.

    The difference is not-a-number where an operand is, which the device's maximum would lose.
    """
    a, b = (stage.widen(argument) for argument in call.args)
    high = stage(op.maximum, a, b)
    gap = stage(op.negative, stage(op.abs, stage(op.subtract, a, b)))
    gap = stage(op.where, stage(op.equal, a, b), relax.const(0.0, dtype_of(gap)), gap)
    curve = stage(op.log, stage(op.add, stage(op.exp, gap), 1.0))
    return stage.result(dtype_of(call), op.add, high, curve)


def fused_multiply_add(call: Call, stage: Stages) -> Expr:
    """a * b + c, which LegalizeOps of TVM 0.27 does not know."""
    a, b, c = (stage.widen(argument) for argument in call.args)
    return stage.result(dtype_of(call), op.add, stage(op.multiply, a, b), c)


def power(call: Call, stage: Stages) -> Expr | None:
    """x to a small constant exponent by products and roots, as a mean square is often written."""
    base, exponent = call.args
    if not (isinstance(exponent, GenericConst) and rank_of(exponent) == 0):
        return None
    exponent = float(exponent.value.numpy())
    if exponent not in (-1.0, -0.5, 0.5, 2.0, 3.0):
        return None
    x, dtype = stage.widen(base), dtype_of(call)
    if exponent == -1.0:
        return stage.result(dtype, op.divide, relax.const(1.0, dtype_of(x)), x)
    if exponent == 3.0:
        return stage.result(dtype, op.multiply, x, stage(op.square, x))
    return stage.result(dtype, {-0.5: op.rsqrt, 0.5: op.sqrt, 2.0: op.square}[exponent], x)


def dropout(call: Call, stage: Stages) -> Expr:
    """The data and a mask of ones, as LegalizeOps has it: dropout does nothing at inference."""
    return relax.Tuple([call.args[0], stage(op.ones_like, call.args[0])])
