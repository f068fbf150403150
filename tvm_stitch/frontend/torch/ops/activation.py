"""Activations: element-wise functions of one operand that networks have between their layers."""

from __future__ import annotations

from typing import Any

from tvm import relax, tirx

from tvm_stitch.frontend.torch.call import Call, Converter, Expr, Number, wide
from tvm_stitch.frontend.torch.ops import precise
from tvm_stitch.frontend.torch.ops.pointwise import unary

_op = relax.op


def _relu(call: Call, x: Expr) -> Expr:
    of = call.dtype
    return call.pointwise(
        lambda a: tirx.Select(a <= tirx.const(0, of), tirx.const(0, of), a), x, of=of, to=of
    )


def _gelu(call: Call, x: Expr, approximate: str = "none") -> Expr:
    if approximate != "tanh":
        return call.emit(_op.nn.gelu(x))
    if call.dtype == "float32":
        return call.pointwise(precise.gelu_tanh, x, of="float32", to="float32")
    return call.emit(_op.nn.gelu_tanh(x))


def _tanh(call: Call, x: Expr) -> Expr:
    # Halves are rounded so that they do not see what the hardware's lacks.
    if call.dtype == "float32":
        return call.pointwise(precise.tanh, x, of="float32", to="float32")
    return unary(_op.tanh)(call, x)


def _silu(call: Call, x: Expr) -> Expr:
    return call.emit(_op.nn.silu(x))


def _elu(call: Call, x: Expr, alpha: Number, scale: Number, input_scale: Number) -> Expr:
    of, to = wide(call.dtype), call.dtype

    def compute(a: Any) -> Any:
        zero = tirx.const(0.0, of)
        below = precise.library("expm1")(a * tirx.const(float(input_scale), of))
        negative = below * tirx.const(float(alpha) * float(scale), of)
        return tirx.Select(a > zero, a * tirx.const(float(scale), of), negative)

    return call.pointwise(compute, x, of=of, to=to)


def _leaky_relu(call: Call, x: Expr, slope: Number) -> Expr:
    of, to = wide(call.dtype), call.dtype

    def compute(a: Any) -> Any:
        return tirx.Select(a > tirx.const(0.0, of), a, a * tirx.const(float(slope), of))

    return call.pointwise(compute, x, of=of, to=to)


OPERATORS: dict[str, Converter] = {
    "elu": _elu,
    "gelu": _gelu,
    "leaky_relu": _leaky_relu,
    "relu": _relu,
    "silu": _silu,
    "tanh": _tanh,
}
"""By ATen's names; an overload called default is left out."""
