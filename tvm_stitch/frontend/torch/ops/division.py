"""Quotients and rests, with PyTorch's rounding modes, and shifts of bits."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from tvm import relax, tirx

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import Call, Converter, Expr, Number, is_float, wide
from tvm_stitch.frontend.torch.ops.precise import library

_op = relax.op
_fmod = library("fmod")


def _quotient(
    call: Call, left: Expr, right: Expr | Number, rounding_mode: str | None = None
) -> Expr:
    to = call.dtype
    if not is_float(to):
        return _whole_quotient(call, left, right, rounding_mode)
    if rounding_mode is None:
        of, divide = wide(to), _op.divide
        if isinstance(right, int | float) and right == 0:  # which TVM refuses to divide by
            divide, right = _op.multiply, math.copysign(math.inf, right)
        return call.cast(call.emit(divide(call.operand(left, of), call.operand(right, of))), to)
    compute = _floor_quotient if rounding_mode == "floor" else _truncated_quotient
    return call.pointwise(compute, left, right, of=wide(to), to=to)


def _whole_quotient(call: Call, left: Expr, right: Expr | Number, mode: str | None) -> Expr:
    _never_zero(right)
    divide = tirx.floordiv if mode == "floor" else tirx.truncdiv
    of = call.dtype
    return call.pointwise(divide, left, right, of=of, to=of)


def _never_zero(right: Expr | Number) -> None:
    if not isinstance(right, int) or not right:
        raise TorchError("division of integers by what may be 0: PyTorch says so")


def _truncated_quotient(a: Any, b: Any) -> Any:
    return tirx.trunc(a / b)


def _floor_quotient(a: Any, b: Any) -> Any:
    """As PyTorch and Python do: exact where the rest is, and never beside a whole number."""
    of = str(b.ty.dtype)
    zero, one, half = (tirx.const(value, of) for value in (0.0, 1.0, 0.5))
    rest = _fmod(a, b)
    other_sign = tirx.Select(b < zero, rest > zero, rest < zero)
    quotient = (a - rest) / b - tirx.Select(other_sign, one, zero)
    below = tirx.floor(quotient)
    near = below + tirx.Select(quotient - below > half, one, zero)
    return tirx.Select(tirx.EQ(b, zero), a / b, near)


def _rest(floor: bool) -> Converter:
    """The rest of a division, with the sign of the divisor (`floor`) or of the dividend."""

    def compute(a: Any, b: Any) -> Any:
        zero = tirx.const(0.0, str(b.ty.dtype))
        rest = _fmod(a, b)
        if not floor:
            return rest
        other_sign = tirx.Select(b < zero, rest > zero, rest < zero)
        return tirx.Select(other_sign, rest + b, rest)

    def convert(call: Call, left: Expr | Number, right: Expr | Number) -> Expr:
        to = call.dtype
        if is_float(to):
            return call.pointwise(compute, left, right, of=wide(to), to=to)
        _never_zero(right)
        whole = tirx.floormod if floor else tirx.truncmod
        return call.pointwise(whole, left, right, of=to, to=to)

    return convert


def _shifted(left: bool) -> Converter:
    """Bits moved up or down; by more than there are, or by less than none, all of them are."""

    def convert(call: Call, x: Expr | Number, by: Expr | Number) -> Expr:
        of = call.dtype
        if is_float(of) or of == "bool":
            raise TorchError(f"shifts of {of}")
        bits = np.iinfo(of).bits
        # Of what has a sign, that is all that is left of it.
        most = bits if left or of.startswith("uint") else bits - 1

        def compute(a: Any, b: Any) -> Any:
            zero, end = tirx.const(0, of), tirx.const(most, of)
            far = tirx.any(b < zero, b >= end)
            near = tirx.Select(far, zero, b)
            if left:
                return tirx.Select(far, zero, tirx.shift_left(a, near))
            gone = tirx.Select(a < zero, tirx.const(-1, of), zero) if most < bits else zero
            return tirx.Select(far, gone, tirx.shift_right(a, near))

        return call.pointwise(compute, x, by, of=of, to=of)

    return convert


_SHIFTS = {
    "left": ("__lshift__", "bitwise_left_shift"),
    "right": ("__rshift__", "bitwise_right_shift"),
}

OPERATORS: dict[str, Converter] = {
    "div.Scalar": _quotient,
    "div.Scalar_mode": _quotient,
    "div.Tensor": _quotient,
    "div.Tensor_mode": _quotient,
    "fmod.Scalar": _rest(floor=False),
    "fmod.Tensor": _rest(floor=False),
    "remainder.Scalar": _rest(floor=True),
    "remainder.Tensor": _rest(floor=True),
    **{
        f"{name}.{overload}": _shifted(side == "left")
        for side, (plain, named) in _SHIFTS.items()
        for name, overloads in (
            (plain, ("Scalar", "Tensor")),
            (named, ("Tensor", "Tensor_Scalar", "Scalar_Tensor")),
        )
        for overload in overloads
    },
}
"""By ATen's names; an overload called default is left out."""
