"""``qnn.*`` through its canonical form: integers, and fixed-point multiplications.

A quantised tensor stands for ``scale * (integer - zero_point)``. Scales and zero points have to be
constants wherever Relay multiplied by them in integers. Rounding is upwards (Relay's default) or
to nearest, halves away from zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax

from tvm_stitch.errors import RelayError
from tvm_stitch.frontend.relay.call import (
    Expr,
    OpCall,
    OperatorFunction,
    axis_of,
    dims,
    dtype,
    rank,
)
from tvm_stitch.frontend.relay.ops.elementwise import (
    fixed_point_multiply,
    integer_range,
    per_axis_multiply,
)
from tvm_stitch.frontend.relay.ops.layers import conv, nn

_op = relax.op


# Fixed point


def multiplier_and_shift(factor: float) -> tuple[int, int]:
    """``factor`` as a 31-bit multiplier and a power of two."""
    if factor == 0.0:
        return 0, 0
    significand, exponent = math.frexp(factor)
    # C's round: halves away from zero.
    multiplier = math.floor(significand * (1 << 31) + 0.5)
    if multiplier == 1 << 31:
        multiplier, exponent = multiplier // 2, exponent + 1
    return multiplier, exponent


def _to_nearest(call: OpCall, value: Expr, multiplier: Expr, left: Expr, right: Expr) -> Expr:
    """A fixed-point multiplication that rounds halves away from zero (all int64)."""
    one, zero = call.constant(1, "int64"), call.constant(0, "int64")
    product = call.emit(_op.multiply(call.emit(_op.left_shift(value, left)), multiplier))
    total = call.emit(_op.add(right, call.constant(31, "int64")))
    half = call.emit(_op.left_shift(one, call.emit(_op.subtract(total, one))))
    below = call.emit(_op.subtract(half, one))
    is_positive = call.emit(_op.greater_equal(product, zero))
    nudge = call.emit(_op.where(is_positive, half, below))
    result = call.emit(_op.right_shift(call.emit(_op.add(product, nudge)), total))
    return call.cast(result, "int32")


def _scaled(call: OpCall, value: Expr, factors: np.ndarray, axis: int, rounding: str) -> Expr:
    """``value * factors`` in fixed point; one factor, or one a channel along an axis."""
    pairs = [multiplier_and_shift(float(f)) for f in factors.reshape(-1)]
    if factors.size == 1 and rounding == "UPWARD":
        return fixed_point_multiply(call, value, *pairs[0])
    shape = [1] * rank(value)
    if factors.size > 1:
        shape[axis] = factors.size

    def vector(numbers: list[int]) -> Expr:
        return call.constant(np.array(numbers).reshape(shape), "int64")

    multiplier = vector([m for m, _ in pairs])
    left = vector([max(s, 0) for _, s in pairs])
    right = vector([min(max(-s, 0), 31) for _, s in pairs])
    wide = call.cast(value, "int64")
    if rounding == "UPWARD":
        return per_axis_multiply(call, wide, multiplier, left, right)
    return _to_nearest(call, wide, multiplier, left, right)


def _saturate(call: OpCall, value: Expr, to: str) -> Expr:
    """An int32 tensor in a narrower dtype, clipped to its range."""
    if to == dtype(value):
        return value
    low, high = integer_range(to)
    above = call.emit(_op.maximum(value, call.like(low, value)))
    return call.cast(call.emit(_op.minimum(above, call.like(high, value))), to)


def _requantized(
    call: OpCall,
    value: Expr,
    scale: tuple[np.ndarray, np.ndarray],
    zero: tuple[Any, Any],
    to: str,
    axis: int = -1,
    rounding: str = "UPWARD",
) -> Expr:
    """A tensor of one scale and zero point in another (each pair: from, to)."""
    axis = axis_of(axis, rank(value)) if rank(value) else 0
    wide = call.cast(value, "int32")
    if np.any(zero[0]):
        wide = call.emit(_op.subtract(wide, _channel(call, zero[0], axis, rank(value))))
    if scale[1].size != 1:
        raise RelayError("an output scale by channel was never computed by TVM")
    factors = scale[0].astype(np.float64) / float(scale[1].reshape(-1)[0])
    same = np.all(scale[0] == scale[1])
    result = wide if same else _scaled(call, wide, factors, axis, rounding)
    if np.any(zero[1]):
        result = call.emit(_op.add(result, call.constant(int(zero[1].reshape(-1)[0]), "int32")))
    return _saturate(call, result, to)


def _channel(call: OpCall, numbers: np.ndarray, axis: int, ndim: int) -> Expr:
    """A known scalar or vector, shaped to broadcast along an axis."""
    shape = [1] * ndim if numbers.size > 1 else []
    if numbers.size > 1:
        shape[axis] = numbers.size
    return call.constant(numbers.reshape(shape), "int32")


def _rounding(call: OpCall) -> str:
    rounding = call.attrs.text("rounding", "UPWARD")
    rounding = "UPWARD" if rounding == "None" else rounding
    if rounding not in ("UPWARD", "TONEAREST"):
        raise RelayError(f"rounding {rounding!r} is neither UPWARD nor TONEAREST")
    call.attrs.ignore("compute_dtype")
    return rounding


def _known(call: OpCall, index: int, what: str) -> np.ndarray:
    return call.known(index, what)


# Between numbers and integers


def _spread(call: OpCall, value: Expr, index: int, to: str) -> Expr:
    """A scale or zero point, shaped to broadcast along the call's axis."""
    parameter = call.cast(call[index], to)
    if rank(parameter) == 0 or dims(parameter) == [1]:
        return parameter
    return nn.along(call, parameter, call.attrs.integer("axis", -1), value)


def _quantize(call: OpCall) -> Expr:
    call.expect(3)
    to, value = call.attrs.text("out_dtype", "int8"), call[0]
    call.attrs.integer("axis", -1)
    scaled = call.emit(_op.divide(value, _spread(call, value, 1, dtype(value))))
    # Half away from zero, as C's round.
    whole = call.emit(_op.trunc(scaled))
    rest = call.emit(_op.abs(call.emit(_op.subtract(scaled, whole))))
    up = call.cast(call.emit(_op.greater_equal(rest, call.like(0.5, value))), dtype(value))
    rounded = call.emit(_op.add(whole, call.emit(_op.multiply(call.emit(_op.sign(scaled)), up))))
    integers = call.cast(rounded, "int32")
    shifted = call.emit(_op.add(integers, _spread(call, value, 2, "int32")))
    return _saturate(call, shifted, to)


def _dequantize(call: OpCall) -> Expr:
    call.expect(3)
    value, to = call[0], call.attrs.text("out_dtype", "float32")
    call.attrs.integer("axis", -1)
    shifted = call.emit(_op.subtract(call.cast(value, "int32"), _spread(call, value, 2, "int32")))
    return _op.multiply(call.cast(shifted, to), _spread(call, value, 1, to))


def _requantize(call: OpCall) -> Expr:
    call.expect(5)
    scales = _known(call, 1, "the input scale"), _known(call, 3, "the output scale")
    zeros = _known(call, 2, "the input zero point"), _known(call, 4, "the output zero point")
    to, axis = call.attrs.text("out_dtype", "int8"), call.attrs.integer("axis", -1)
    return _requantized(call, call[0], scales, zeros, to, axis, _rounding(call))


# Arithmetic


def _pair(call: OpCall, index: int, what: str) -> tuple[np.ndarray, np.ndarray]:
    return _known(call, index, f"{what} scale"), _known(call, index + 1, f"{what} zero point")


def _sum_like(function: Callable[[Expr, Expr], Expr]) -> OperatorFunction:
    """Both sides at the output's scale, then added (or subtracted) as integers."""

    def operator(call: OpCall) -> Expr:
        call.expect(8)
        call.attrs.ignore("lhs_axis", "rhs_axis")
        out_scale, out_zero = _pair(call, 6, "the output")
        sides = []
        for index, at, what in ((0, 2, "the left"), (1, 4, "the right")):
            scale, zero = _pair(call, at, what)
            if np.all(scale == out_scale) and np.all(zero == out_zero):
                sides.append(call.cast(call[index], "int32"))
            else:
                scales, zeros = (scale, out_scale), (zero, out_zero)
                sides.append(_requantized(call, call[index], scales, zeros, "int32"))
        result = call.emit(function(*sides))
        if np.any(out_zero):
            offset = call.constant(int(out_zero.reshape(-1)[0]), "int32")
            # Each side carries the zero point: a sum has it twice, a difference not at all.
            back = _op.subtract if function is _op.add else _op.add
            result = call.emit(back(result, offset))
        return _saturate(call, result, dtype(call[0]))

    return operator


def _multiply(call: OpCall) -> Expr:
    call.expect(8)
    call.attrs.ignore("lhs_axis", "rhs_axis")
    (left_scale, left_zero), (right_scale, right_zero) = (
        _pair(call, 2, "the left"),
        _pair(call, 4, "the right"),
    )
    out_scale, out_zero = _pair(call, 6, "the output")
    sides = []
    for index, zero in ((0, left_zero), (1, right_zero)):
        side = call.cast(call[index], "int32")
        if np.any(zero):
            side = call.emit(_op.subtract(side, call.constant(int(zero.reshape(-1)[0]), "int32")))
        sides.append(side)
    product = call.emit(_op.multiply(*sides))
    # Relay multiplied the scales as float32.
    scale = (left_scale.astype(np.float32) * right_scale.astype(np.float32)).astype(np.float32)
    zeros = np.zeros((), np.int32), out_zero
    return _requantized(call, product, (scale, out_scale), zeros, dtype(call[0]))


def _concatenate(call: OpCall) -> Expr:
    """Each part brought to the output's scale, then joined."""
    call.expect(5)
    parts = call.fields(0)
    out_scale, out_zero = _pair(call, 3, "the output")
    scales = _known_fields(call, 1, "the input scales", len(parts))
    zeros = _known_fields(call, 2, "the input zero points", len(parts))
    joined = []
    for part, scale, zero in zip(parts, scales, zeros, strict=True):
        same = np.all(scale == out_scale) and np.all(zero == out_zero)
        joined.append(
            part
            if same
            else _requantized(call, part, (scale, out_scale), (zero, out_zero), dtype(part))
        )
    return _op.concat(joined, axis_of(call.attrs.integer("axis", 0), rank(parts[0])))


def _known_fields(call: OpCall, index: int, what: str, count: int) -> list[np.ndarray]:
    value = call.known(index, what)
    if value.shape[:1] != (count,):
        raise RelayError(f"{what} do not match the {count} parts")
    return list(value)


# Products


def _minus(call: OpCall, value: Expr, index: int, what: str, axis: int = 0) -> Expr:
    """An integer tensor as int32 without its zero point."""
    zero = _known(call, index, what)
    wide = call.cast(value, "int32")
    if not np.any(zero):
        return wide
    return call.emit(_op.subtract(wide, _channel(call, zero, axis, rank(value))))


def _scales(call: OpCall) -> None:
    """The scales of a product are for the requantize that follows."""
    for index in (4, 5):
        call[index]


def _conv2d(call: OpCall) -> Expr:
    call.expect(6)
    _scales(call)
    layout = call.attrs.text("kernel_layout", "OIHW")
    data = _minus(call, call[0], 2, "the data's zero point")
    outputs = layout.index("O") if "O" in layout else 0
    weight = _minus(call, call[1], 3, "the weights' zero point", outputs)
    return conv.conv(call, 2, data, weight, call.attrs.text("out_dtype") or "int32")


def _conv2d_transpose(call: OpCall) -> Expr:
    call.expect(6)
    _scales(call)
    data = _minus(call, call[0], 2, "the data's zero point")
    weight = _minus(call, call[1], 3, "the weights' zero point", 1)
    return conv.conv_transpose(call, 2, data, weight, call.attrs.text("out_dtype") or "int32")


def _dense(call: OpCall) -> Expr:
    call.expect(6)
    _scales(call)
    call.attrs.ignore("units")
    data = _minus(call, call[0], 2, "the data's zero point")
    weight = _minus(call, call[1], 3, "the weights' zero point")
    return call.cast(
        call.emit(nn.matmul(call, data, weight, False, True)),
        call.attrs.text("out_dtype") or "int32",
    )


def _batch_matmul(call: OpCall) -> Expr:
    call.expect(6)
    _scales(call)
    left = _minus(call, call[0], 2, "the left zero point")
    right = _minus(call, call[1], 3, "the right zero point")
    transpose_b = call.attrs.flag("transpose_b", True)
    return nn.matmul(call, left, right, call.attrs.flag("transpose_a"), transpose_b)


# Functions of one tensor: through floating point, as Relay computed its tables


def _through_float(function: Callable[[Expr], Expr]) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(5)
        value = call[0]
        scale, zero = _pair(call, 1, "the input")
        out_scale, out_zero = _pair(call, 3, "the output")
        shifted = call.cast(value, "int32")
        if np.any(zero):
            offset = call.constant(int(zero.reshape(-1)[0]), "int32")
            shifted = call.emit(_op.subtract(shifted, offset))
        real = call.emit(
            _op.multiply(
                call.cast(shifted, "float32"), call.constant(float(scale.item()), "float32")
            )
        )
        result = call.emit(function(real))
        scaled = call.emit(_op.divide(result, call.constant(float(out_scale.item()), "float32")))
        moved = call.emit(_op.add(scaled, call.constant(float(out_zero.item()), "float32")))
        low, high = integer_range(dtype(value))
        above = call.emit(_op.maximum(moved, call.constant(low, "float32")))
        inside = call.emit(_op.minimum(above, call.constant(high, "float32")))
        # The tables were made by NumPy, whose rounding takes halves to the even neighbour.
        return call.cast(call.emit(_op.round(inside)), dtype(value))

    return operator


def _leaky_relu(call: OpCall) -> Expr:
    """Negative values times alpha, in fixed point; then to the output's scale."""
    call.expect(5)
    alpha = call.attrs.number("alpha", 0.25)
    scale, zero = _pair(call, 1, "the input")
    out_scale, out_zero = _pair(call, 3, "the output")
    value = call.cast(call[0], "int32")
    offset = call.constant(int(zero.item()), "int32")
    multiplier, shift = multiplier_and_shift(alpha)
    scaled = fixed_point_multiply(call, value, multiplier, shift)
    lost = fixed_point_multiply(call, offset, multiplier, shift)
    moved = call.emit(_op.add(call.emit(_op.subtract(scaled, lost)), offset))
    negative = call.emit(_op.less(value, offset))
    result = call.emit(_op.where(negative, moved, value))
    return _requantized(call, result, (scale, out_scale), (zero, out_zero), dtype(call[0]))


OPERATORS: dict[str, OperatorFunction] = {
    "qnn.add": _sum_like(_op.add),
    "qnn.batch_matmul": _batch_matmul,
    "qnn.concatenate": _concatenate,
    "qnn.conv2d": _conv2d,
    "qnn.conv2d_transpose": _conv2d_transpose,
    "qnn.dense": _dense,
    "qnn.dequantize": _dequantize,
    "qnn.leaky_relu": _leaky_relu,
    "qnn.mul": _multiply,
    "qnn.quantize": _quantize,
    "qnn.requantize": _requantize,
    "qnn.subtract": _sum_like(_op.subtract),
    **{
        f"qnn.{name}": _through_float(function)
        for name, function in {
            "abs": _op.abs,
            "erf": _op.erf,
            "exp": _op.exp,
            "log": _op.log,
            "rsqrt": _op.rsqrt,
            "sigmoid": _op.sigmoid,
            "sqrt": _op.sqrt,
            "tanh": _op.tanh,
        }.items()
    },
}
