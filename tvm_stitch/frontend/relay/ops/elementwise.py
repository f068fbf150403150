"""Relay's element-wise operators, one input element to one output element, with broadcasting.

Relay never promotes: both sides of a binary operator have one dtype. Division and remainder of
integers truncate towards zero.
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
    same_dim,
)

_op = relax.op


# Broadcasting


def align(call: OpCall, left: Expr, right: Expr) -> Expr:
    """``right``, with symbolic extents that must be ``left``'s asserted to be.

    Relay found out at run time whether two ``?`` agree. Relax needs to know: they are taken to be
    equal, and the compiled model checks that they are.
    """
    ours, theirs = dims(left), dims(right)
    wanted = list(theirs)
    for i in range(1, min(len(ours), len(theirs)) + 1):
        a, b = ours[-i], theirs[-i]
        symbolic = not isinstance(a, int) or not isinstance(b, int)
        if symbolic and 1 not in (a, b) and not same_dim(a, b):
            wanted[-i] = a
    if all(a is b for a, b in zip(wanted, theirs, strict=True)):
        return right
    return call.builder.match_cast(right, relax.TensorType(wanted, dtype(right)))


def _pair(call: OpCall) -> tuple[Expr, Expr]:
    call.expect(2)
    left, right = call[0], call[1]
    if dtype(left) != dtype(right):
        raise RelayError(
            f"the two sides have dtypes {dtype(left)} and {dtype(right)}; Relay does not promote, "
            "a cast is needed"
        )
    return left, align(call, left, right)


def _binary(function: Callable[[Expr, Expr], Expr]) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        return function(*_pair(call))

    return operator


def _unary(function: Callable[[Expr], Expr]) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(1)
        return function(call[0])

    return operator


def _rounding(function: Callable[[Expr], Expr]) -> OperatorFunction:
    """Rounding leaves integers as they are."""

    def operator(call: OpCall) -> Expr:
        call.expect(1)
        return function(call[0]) if is_float(dtype(call[0])) else call[0]

    return operator


def _elements(compute: Callable[..., Any]) -> OperatorFunction:
    """An operator given as what it computes of the elements, where Relax has none."""

    def operator(call: OpCall) -> Expr:
        left, right = _pair(call)
        return call.te(lambda a, b: _broadcast(a, b, compute), left, right)

    return operator


def _broadcast(a: te.Tensor, b: te.Tensor, compute: Callable[..., Any]) -> te.Tensor:
    """A tensor expression over two broadcast operands."""
    ndim = max(len(a.shape), len(b.shape))

    def extent(tensor: te.Tensor, i: int) -> Any:
        j = i - ndim + len(tensor.shape)
        return tensor.shape[j] if j >= 0 else 1

    def is_one(value: Any) -> bool:
        return isinstance(value, (int, tirx.IntImm)) and int(value) == 1

    def pick(tensor: te.Tensor, indices: tuple[Any, ...]) -> Any:
        own = indices[ndim - len(tensor.shape) :]
        return tensor(
            *[
                tirx.const(0, "int64") if is_one(size) else i
                for i, size in zip(own, tensor.shape, strict=True)
            ]
        )

    shape = [extent(b, i) if is_one(extent(a, i)) else extent(a, i) for i in range(ndim)]
    return te.compute(shape, lambda *i: compute(pick(a, i), pick(b, i)), name="broadcast")


# Single operators


def _divide(call: OpCall) -> Expr:
    if is_float(dtype(call[0])):
        return _op.divide(*_pair(call))
    return _elements(tirx.truncdiv)(call)


def _trunc_divide(call: OpCall) -> Expr:
    if is_float(dtype(call[0])):
        return _op.trunc(call.emit(_op.divide(*_pair(call))))
    return _elements(tirx.truncdiv)(call)


def _floor_divide(call: OpCall) -> Expr:
    if is_float(dtype(call[0])):
        return _op.floor(call.emit(_op.divide(*_pair(call))))
    return _elements(tirx.floordiv)(call)


def _trunc_mod(call: OpCall) -> Expr:
    if is_float(dtype(call[0])):
        left, right = _pair(call)
        quotient = call.emit(_op.trunc(call.emit(_op.divide(left, right))))
        return _op.subtract(left, call.emit(_op.multiply(quotient, right)))
    return _elements(tirx.truncmod)(call)


def _floor_mod(call: OpCall) -> Expr:
    if is_float(dtype(call[0])):
        left, right = _pair(call)
        quotient = call.emit(_op.floor(call.emit(_op.divide(left, right))))
        return _op.subtract(left, call.emit(_op.multiply(quotient, right)))
    return _elements(tirx.floormod)(call)


def _round(call: OpCall) -> Expr:
    """Halves go away from zero, as C's ``round`` has it; Relax's goes to the even neighbour."""
    call.expect(1)
    value = call[0]
    if not is_float(dtype(value)):
        return value
    whole = call.emit(_op.trunc(value))
    rest = call.emit(_op.abs(call.emit(_op.subtract(value, whole))))
    up = call.emit(_op.greater_equal(rest, call.like(0.5, value)))
    return _op.add(
        whole, call.emit(_op.multiply(call.emit(_op.sign(value)), call.cast(up, dtype(value))))
    )


def _logarithm(base_log: float) -> OperatorFunction:
    def operator(call: OpCall) -> Expr:
        call.expect(1)
        return _op.divide(call.emit(_op.log(call[0])), call.like(base_log, call[0]))

    return operator


def _clip(call: OpCall) -> Expr:
    call.expect(1)
    low, high = call.attrs.number("a_min"), call.attrs.number("a_max")
    if low is None or high is None:
        raise RelayError("attributes a_min and a_max are needed")
    value = call[0]
    if not is_float(dtype(value)):
        # Bounds beyond what the dtype holds bind nothing.
        lowest, highest = integer_range(dtype(value))
        low, high = max(int(low), lowest), min(int(high), highest)
    above = call.emit(_op.maximum(value, call.like(low, value)))
    return _op.minimum(above, call.like(high, value))


def integer_range(name: str) -> tuple[int, int]:
    """The least and the greatest value of an integer dtype."""
    if name == "bool":
        return 0, 1
    bits = int(name.lstrip("uint"))
    return (0, 2**bits - 1) if name.startswith("u") else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def cast_to(call: OpCall, value: Expr, to: str) -> Expr:
    """Relay's cast, also to bool, which is true for what is not zero."""
    if to in ("bool", "uint1"):
        if dtype(value) == "bool":
            return value
        return call.emit(_op.not_equal(value, call.like(0, value)))
    return call.cast(value, to)


def _cast(call: OpCall) -> Expr:
    call.expect(1)
    to = call.attrs.text("dtype")
    if not to:
        raise RelayError("attribute dtype is needed")
    return cast_to(call, call[0], to)


def _cast_like(call: OpCall) -> Expr:
    call.expect(2)
    return cast_to(call, call[0], dtype(call[1]))


def _reinterpret(call: OpCall) -> Expr:
    call.expect(1)
    to = call.attrs.text("dtype")
    return call.te(lambda a: topi.reinterpret(a, to), call[0])


def _where(call: OpCall) -> Expr:
    call.expect(3)
    condition, left, right = call[0], call[1], call[2]
    if dtype(left) != dtype(right):
        raise RelayError(f"the two choices have dtypes {dtype(left)} and {dtype(right)}")
    if dtype(condition) != "bool":
        condition = call.emit(_op.not_equal(condition, call.like(0, condition)))
    # Before 0.8 a vector condition chose rows, not columns.
    if rank(condition) == 1 and rank(left) > 1:
        extent = dims(condition)[0]
        if same_dim(extent, dims(left)[0]) and not same_dim(extent, dims(left)[-1]):
            condition = call.emit(_op.reshape(condition, [extent] + [1] * (rank(left) - 1)))
    right = align(call, left, right)
    return _op.where(align(call, left, condition), left, right)


def _fixed_point_multiply(call: OpCall) -> Expr:
    call.expect(1)
    multiplier, shift = call.attrs.integer("multiplier", 0), call.attrs.integer("shift", 0)
    return fixed_point_multiply(call, call[0], multiplier, shift)


def fixed_point_multiply(call: OpCall, value: Expr, multiplier: int, shift: int) -> Expr:
    """``value * multiplier * 2**(shift - 31)`` in 64-bit integers, halves rounded upwards."""
    wide = call.cast(value, "int64")
    if shift > 0:
        wide = call.emit(_op.left_shift(wide, call.constant(shift, "int64")))
    product = call.emit(_op.multiply(wide, call.constant(multiplier, "int64")))
    right = 31 - min(shift, 0)
    if right > 62:
        # The product has 62 bits at most: nothing but its rounding would be left.
        return call.emit(_op.multiply(value, call.like(0, value)))
    rounded = call.emit(_op.add(product, call.constant(1 << (right - 1), "int64")))
    result = call.emit(_op.right_shift(rounded, call.constant(right, "int64")))
    return call.cast(result, "int32")


def _fixed_point_multiply_per_axis(call: OpCall) -> Expr:
    """``x``, then by channel: multipliers, left shifts, right shifts."""
    call.expect(4)
    call.attrs.ignore("is_lshift_required", "is_rshift_required")
    value = call[0]
    axes = [axis_of(axis, rank(value)) for axis in call.attrs.integers("axes", [])]
    shape = [extent if i in axes else 1 for i, extent in enumerate(dims(value))]
    factor, left, right = (
        call.emit(_op.reshape(call.cast(call[i], "int64"), shape)) for i in (1, 2, 3)
    )
    return per_axis_multiply(call, value, factor, left, right)


def per_axis_multiply(call: OpCall, value: Expr, factor: Expr, left: Expr, right: Expr) -> Expr:
    """The same with int64 tensors of multipliers, left shifts and right shifts that broadcast."""
    one = call.constant(1, "int64")
    wide = call.emit(_op.left_shift(call.cast(value, "int64"), left))
    product = call.emit(_op.multiply(wide, factor))
    total = call.emit(_op.add(right, call.constant(31, "int64")))
    half = call.emit(_op.left_shift(one, call.emit(_op.subtract(total, one))))
    result = call.emit(_op.right_shift(call.emit(_op.add(product, half)), total))
    return call.cast(result, "int32")


def _identity(call: OpCall) -> Expr:
    call.attrs.ignore(*call.attrs.names())
    return call[0]


LN2, LN10 = 0.6931471805599453, 2.302585092994046

OPERATORS: dict[str, OperatorFunction] = {
    "abs": _unary(_op.abs),
    "acos": _unary(_op.acos),
    "acosh": _unary(_op.acosh),
    "asin": _unary(_op.asin),
    "asinh": _unary(_op.asinh),
    "atan": _unary(_op.atan),
    "atanh": _unary(_op.atanh),
    "bitwise_not": _unary(_op.bitwise_not),
    "ceil": _rounding(_op.ceil),
    "cos": _unary(_op.cos),
    "cosh": _unary(_op.cosh),
    "erf": _unary(_op.erf),
    "exp": _unary(_op.exp),
    "fast_erf": _unary(_op.erf),
    "fast_exp": _unary(_op.exp),
    "fast_tanh": _unary(_op.tanh),
    "floor": _rounding(_op.floor),
    "isfinite": _unary(_op.isfinite),
    "isinf": _unary(_op.isinf),
    "isnan": _unary(_op.isnan),
    "log": _unary(_op.log),
    "log10": _logarithm(LN10),
    "log2": _logarithm(LN2),
    "logical_not": _unary(_op.logical_not),
    "negative": _unary(_op.negative),
    "round": _round,
    "rsqrt": _unary(_op.rsqrt),
    "sigmoid": _unary(_op.sigmoid),
    "sign": _unary(_op.sign),
    "sin": _unary(_op.sin),
    "sinh": _unary(_op.sinh),
    "sqrt": _unary(_op.sqrt),
    "tan": _unary(_op.tan),
    "tanh": _unary(_op.tanh),
    "trunc": _rounding(_op.trunc),
    "add": _binary(_op.add),
    "bitwise_and": _binary(_op.bitwise_and),
    "bitwise_or": _binary(_op.bitwise_or),
    "bitwise_xor": _binary(_op.bitwise_xor),
    "divide": _divide,
    "equal": _binary(_op.equal),
    "floor_divide": _floor_divide,
    "floor_mod": _floor_mod,
    "greater": _binary(_op.greater),
    "greater_equal": _binary(_op.greater_equal),
    "left_shift": _binary(_op.left_shift),
    "less": _binary(_op.less),
    "less_equal": _binary(_op.less_equal),
    "logical_and": _binary(_op.logical_and),
    "logical_or": _binary(_op.logical_or),
    "logical_xor": _binary(_op.logical_xor),
    "maximum": _binary(_op.maximum),
    "minimum": _binary(_op.minimum),
    "mod": _trunc_mod,
    "multiply": _binary(_op.multiply),
    "not_equal": _binary(_op.not_equal),
    "power": _binary(_op.power),
    "right_shift": _binary(_op.right_shift),
    "subtract": _binary(_op.subtract),
    "trunc_divide": _trunc_divide,
    "trunc_mod": _trunc_mod,
    "cast": _cast,
    "cast_like": _cast_like,
    "clip": _clip,
    "fixed_point_multiply": _fixed_point_multiply,
    "fixed_point_multiply_per_axis": _fixed_point_multiply_per_axis,
    "reinterpret": _reinterpret,
    "where": _where,
    # Marks for Relay's own passes; the value is the argument's.
    "annotation.cast_hint": _identity,
    "annotation.checkpoint": _identity,
    "annotation.stop_fusion": _identity,
    "compiler_begin": _identity,
    "compiler_end": _identity,
    "copy": _identity,
    "device_copy": _identity,
    "on_device": _identity,
}
