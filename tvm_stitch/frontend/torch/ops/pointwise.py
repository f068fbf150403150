"""Element-wise operators, with PyTorch's type promotion.

Halves are computed with in float32 and rounded once, except where rounding a half operation gives
the same. Maxima, minima and limits hand on what is not a number.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isnan
from typing import Any

import numpy as np
from tvm import relax, tirx

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import (
    Call,
    Converter,
    Expr,
    Number,
    differs,
    dtype,
    is_float,
    is_tensor,
    wide,
)
from tvm_stitch.frontend.torch.ops import precise
from tvm_stitch.frontend.torch.ops.precise import library
from tvm_stitch.stages.extremes import is_nan, larger, smaller

_op = relax.op


# Of one operand


def unary(function: Callable[[Expr], Expr], exact: bool = False) -> Converter:
    """An operator of Relax; `exact` if it rounds nothing, in whatever type."""

    def convert(call: Call, x: Expr) -> Expr:
        to = call.dtype
        x = call.cast(x, to)
        return call.cast(call.emit(function(x if exact else call.wide(x))), to)

    return convert


def _elements(compute: Callable[..., Any]) -> Converter:
    """An operator of which Relax has none, by what it computes of an element."""

    def convert(call: Call, *operands: Expr | Number) -> Expr:
        to = call.dtype
        return call.pointwise(compute, *operands, of=wide(to), to=to)

    return convert


def _rounding(compute: Callable[[Any], Any]) -> Converter:
    """Rounding leaves integers as they are."""
    elements = _elements(compute)

    def convert(call: Call, x: Expr) -> Expr:
        return elements(call, x) if is_float(call.dtype) else x

    return convert


def _rounded(call: Call, x: Expr, *, decimals: int) -> Expr:
    """To so many decimals, or tens where they are negative; half to even."""
    if not is_float(call.dtype):
        raise TorchError("integers to decimals")
    of = wide(call.dtype)

    def compute(a: Any) -> Any:
        tens = tirx.const(10.0 ** abs(decimals), of)
        if decimals < 0:
            return tirx.nearbyint(a / tens) * tens
        return tirx.nearbyint(a * tens) / tens if decimals else tirx.nearbyint(a)

    return call.pointwise(compute, x, of=of, to=call.dtype)


def _test(compute: Callable[[Any], Any], of_integers: bool) -> Converter:
    """A question to floating elements; of integers the answer is known."""

    def convert(call: Call, x: Expr) -> Expr:
        of = call.common
        if not is_float(of):
            return call.pointwise(lambda _x: tirx.const(of_integers, "bool"), x, of=of, to="bool")
        return call.pointwise(compute, x, of=wide(of), to="bool")

    return convert


def _is_infinite(a: Any) -> Any:
    of = str(a.ty.dtype)
    largest = float(np.finfo(of).max)
    return tirx.any(a > tirx.const(largest, of), a < tirx.const(-largest, of))


def _negative(call: Call, x: Expr) -> Expr:
    """Of what has no sign, as far below its largest number as x is above 0, like PyTorch's."""
    to = call.dtype
    if to.startswith("uint"):
        return call.pointwise(lambda a: tirx.const(0, to) - a, x, of=to, to=to)
    return call.emit(_op.negative(call.cast(x, to)))


def _sign(call: Call, x: Expr) -> Expr:
    of = call.dtype
    if of == "bool":
        return x

    def compute(a: Any) -> Any:
        zero, one = tirx.const(0, of), tirx.const(1, of)
        if of.startswith("uint"):
            return tirx.Select(tirx.NE(a, zero), one, zero)
        below = tirx.Select(a < zero, tirx.const(-1, of), zero)
        return tirx.Select(a > zero, one, below)

    return call.pointwise(compute, x, of=of, to=of)


def _reciprocal(a: Any) -> Any:
    return tirx.const(1.0, str(a.ty.dtype)) / a


# Of two operands


def _sum(function: Callable[[Expr, Expr], Expr]) -> Converter:
    """left + alpha * right, rounded once."""

    def convert(call: Call, left: Expr, right: Expr | Number, alpha: Number = 1) -> Expr:
        to = call.dtype
        if to == "bool":  # PyTorch has no differences of them
            return call.emit(_op.logical_or(call.operand(left, to), call.operand(right, to)))
        if function is _op.subtract and _is_one(alpha) and _is_itself(left, right):
            return call.pointwise(precise.nought, left, of=wide(to), to=to)
        # A number keeps the precision that it is computed with.
        once = is_tensor(right) and not is_tensor(alpha) and alpha == 1
        of = to if once else wide(to)
        left, right = call.operand(left, of), call.operand(right, of)
        if not _is_one(alpha):
            right = call.emit(_op.multiply(right, call.number(alpha, of)))
        return call.cast(call.emit(function(left, right)), to)

    return convert


def _is_one(value: Number) -> bool:
    return isinstance(value, (int, float)) and value == 1


def _is_itself(left: Expr | Number, right: Expr | Number) -> bool:
    """Whether floating elements meet themselves: TVM takes each for equal, be it no number."""
    return is_tensor(left) and left.same_as(right) and is_float(dtype(left))


def _product(call: Call, left: Expr, right: Expr | Number) -> Expr:
    to = call.dtype
    if to == "bool":
        return call.emit(_op.logical_and(call.cast(left, to), call.operand(right, to)))
    if is_float(to) and isinstance(right, (int, float)) and right == 0:
        return call.pointwise(precise.nought, left, of=wide(to), to=to)
    of = to if is_tensor(right) else wide(to)
    return call.cast(call.emit(_op.multiply(call.operand(left, of), call.operand(right, of))), to)


def _power(call: Call, base: Expr | Number, exponent: Expr | Number) -> Expr:
    to = call.dtype
    of = wide(to)
    power = precise.known_power(exponent, to) if isinstance(exponent, (int, float)) else None
    if power is not None:
        return call.pointwise(power, base, of=of, to=to)
    if not is_float(to):
        raise TorchError(
            f"powers of integers that are no number from 0 to {precise.MOST_MULTIPLIED}"
        )
    return call.pointwise(precise.power, base, exponent, of=of, to=to)


def _update(combine: Callable[[Expr, Expr], Expr]) -> Converter:
    """x + value * (left combined with right), rounded once."""

    def convert(call: Call, x: Expr, left: Expr, right: Expr, *, value: Number = 1) -> Expr:
        of = wide(call.dtype)
        step = call.emit(combine(call.cast(left, of), call.cast(right, of)))
        if not _is_one(value):
            step = call.emit(_op.multiply(step, call.number(value, of)))
        return call.cast(call.emit(_op.add(call.cast(x, of), step)), call.dtype)

    return convert


def _interpolated(call: Call, start: Expr, end: Expr, weight: Expr | Number) -> Expr:
    """start + weight * (end - start), from the end that is nearer: both ends are exact."""
    of = wide(call.dtype)

    def compute(a: Any, b: Any, w: Any) -> Any:
        one, half = tirx.const(1.0, of), tirx.const(0.5, of)
        from_end = b - (b - a) * (one - w)
        return tirx.Select(tirx.abs(w) < half, a + w * (b - a), from_end)

    return call.pointwise(compute, start, end, weight, of=of, to=call.dtype)


def _extreme(floating: Callable[..., Any], whole: Callable[..., Any]) -> Converter:
    def convert(call: Call, left: Expr, right: Expr) -> Expr:
        of = call.dtype
        if of == "bool":
            whole_of_bool = tirx.any if whole is tirx.max else tirx.all
            return call.pointwise(whole_of_bool, left, right, of=of, to=of)
        return call.pointwise(floating if is_float(of) else whole, left, right, of=of, to=of)

    return convert


def _clamp(call: Call, x: Expr, low: Expr | Number = None, high: Expr | Number = None) -> Expr:
    """Not below low, then not above high, which counts where the two cross."""
    to, of = call.dtype, _comparable(call.dtype)
    if is_float(of) and not (low is None or high is None):
        # One after the other: of one within the other, TVM writes the element out in branches.
        return _clamp(call, _clamp(call, x, low), None, high)
    limits = [limit for limit in (low, high) if limit is not None]

    def compute(a: Any, *given: Any) -> Any:
        remaining = iter(given)
        at_least, at_most = (larger, smaller) if is_float(of) else (tirx.max, tirx.min)
        if low is not None:
            a = _limited(at_least, a, next(remaining))
        return a if high is None else _limited(at_most, a, next(remaining))

    return call.pointwise(compute, x, *limits, of=of, to=to)


def _limited(choose: Callable[..., Any], a: Any, limit: Any) -> Any:
    if isinstance(limit, tirx.FloatImm) and not isnan(limit.value):
        # What is not a number is beyond none, without being asked for it in a branch.
        return tirx.Select(a < limit if choose is larger else a > limit, limit, a)
    return choose(a, limit)


def _comparable(of: str) -> str:
    """The type to compare in: TVM compares booleans as if they were floating."""
    return "int8" if of == "bool" else of


def _comparison(function: Callable[[Expr, Expr], Expr]) -> Converter:
    def convert(call: Call, left: Expr, right: Expr | Number) -> Expr:
        of = _comparable(call.common)
        if function is _op.equal and _is_itself(left, right):
            return call.emit(_op.logical_not(_not_equal(call, left, right)))
        return call.emit(function(call.operand(left, of), call.operand(right, of)))

    return convert


def _not_equal(call: Call, left: Expr, right: Expr | Number) -> Expr:
    if _is_itself(left, right):
        return call.pointwise(is_nan, left, of=dtype(left), to="bool")
    return call.pointwise(differs, left, right, of=_comparable(call.common), to="bool")


def _logical(function: Callable[..., Expr]) -> Converter:
    def convert(call: Call, *operands: Expr | Number) -> Expr:
        return call.emit(function(*(call.operand(value, "bool") for value in operands)))

    return convert


def _bitwise(of_bits: Callable[..., Any], of_bools: Callable[..., Expr]) -> Converter:
    """Operators of bits; of booleans they are the logical ones."""

    def convert(call: Call, *operands: Expr | Number) -> Expr:
        of = call.dtype
        if of == "bool":
            return call.emit(of_bools(*(call.operand(value, of) for value in operands)))
        return call.pointwise(of_bits, *operands, of=of, to=of)

    return convert


def _where(call: Call, condition: Expr, yes: Expr | Number, no: Expr | Number) -> Expr:
    of = call.dtype
    return call.pointwise(tirx.Select, condition, yes, no, of=("bool", of, of), to=of)


_EQUAL = {
    "eq": _op.equal,
    "lt": _op.less,
    "le": _op.less_equal,
    "gt": _op.greater,
    "ge": _op.greater_equal,
}

OPERATORS: dict[str, Converter] = {
    "abs": unary(_op.abs, exact=True),
    "acos": unary(_op.acos),
    "acosh": _elements(library("acosh")),
    "add.Tensor": _sum(_op.add),
    "add.Scalar": _sum(_op.add),
    "addcdiv": _update(_op.divide),
    "addcmul": _update(_op.multiply),
    "asin": unary(_op.asin),
    "asinh": _elements(library("asinh")),
    "atan": unary(_op.atan),
    "atan2": _elements(tirx.atan2),
    "atanh": _elements(library("atanh")),
    "bitwise_and.Tensor": _bitwise(tirx.bitwise_and, _op.logical_and),
    "bitwise_and.Scalar": _bitwise(tirx.bitwise_and, _op.logical_and),
    "bitwise_not": _bitwise(tirx.bitwise_not, _op.logical_not),
    "bitwise_or.Tensor": _bitwise(tirx.bitwise_or, _op.logical_or),
    "bitwise_or.Scalar": _bitwise(tirx.bitwise_or, _op.logical_or),
    "bitwise_xor.Tensor": _bitwise(tirx.bitwise_xor, _op.logical_xor),
    "bitwise_xor.Scalar": _bitwise(tirx.bitwise_xor, _op.logical_xor),
    "ceil": _rounding(tirx.ceil),
    "clamp": _clamp,
    "clamp.Tensor": _clamp,
    "clamp_max": lambda call, x, high: _clamp(call, x, None, high),
    "clamp_min": lambda call, x, low: _clamp(call, x, low, None),
    "copysign.Scalar": _elements(library("copysign")),
    "copysign.Tensor": _elements(library("copysign")),
    "cos": _elements(precise.cos),
    "cosh": _elements(library("cosh")),
    "erf": unary(_op.erf),
    "erfc": _elements(library("erfc")),
    "exp": unary(_op.exp),
    "exp2": _elements(library("exp2")),
    "expm1": _elements(library("expm1")),
    "floor": _rounding(tirx.floor),
    "hardtanh": lambda call, x, low, high: _clamp(call, x, low, high),
    "hypot": _elements(library("hypot")),
    "isinf": _test(_is_infinite, of_integers=False),
    "isnan": _test(is_nan, of_integers=False),
    "lgamma": _elements(library("lgamma")),
    "lerp.Scalar": _interpolated,
    "lerp.Tensor": _interpolated,
    "log": _elements(precise.log),
    "log10": _elements(precise.log10),
    "log1p": _elements(library("log1p")),
    "log2": _elements(precise.log2),
    "logical_and": _logical(_op.logical_and),
    "logical_not": _logical(_op.logical_not),
    "logical_or": _logical(_op.logical_or),
    "logical_xor": _logical(_op.logical_xor),
    "maximum": _extreme(larger, tirx.max),
    "minimum": _extreme(smaller, tirx.min),
    "mul.Tensor": _product,
    "mul.Scalar": _product,
    "ne.Scalar": _not_equal,
    "ne.Tensor": _not_equal,
    "neg": _negative,
    "pow.Scalar": _power,
    "pow.Tensor_Scalar": _power,
    "pow.Tensor_Tensor": _power,
    "prims.fma": _elements(library("fma")),
    "reciprocal": _elements(_reciprocal),
    "round": _rounding(tirx.nearbyint),
    "round.decimals": _rounded,
    "rsqrt": unary(_op.rsqrt),
    "sigmoid": unary(_op.sigmoid),
    "sign": _sign,
    "sin": _elements(precise.sin),
    "sinh": _elements(library("sinh")),
    "sqrt": unary(_op.sqrt),
    "sub.Tensor": _sum(_op.subtract),
    "sub.Scalar": _sum(_op.subtract),
    "tan": _elements(precise.tan),
    "trunc": _rounding(tirx.trunc),
    "where.self": _where,
    **{
        f"{name}.{overload}": _comparison(function)
        for name, function in _EQUAL.items()
        for overload in ("Tensor", "Scalar")
    },
}
"""By ATen's names; an overload called default is left out."""
