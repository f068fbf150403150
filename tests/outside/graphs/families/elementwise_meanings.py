"""What element-wise operators mean in NumPy, and how far a kernel may be from that."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.outside.graphs.families.functions import (
    ARITHMETIC,
    BITWISE,
    COMPARED,
    EXACT,
    FLOATING,
    LOGICAL,
    erf,
)
from tests.outside.graphs.number import (
    FAST_TANH,
    FLOATS,
    HALVES,
    SMALLEST,
    ULP,
    WILD,
    Arithmetic,
    Noise,
    Number,
    cast,
    product,
    rounded,
    spread,
    stored,
    whole,
)

_JUMPS = {"floor", "ceil", "sign"}
_CHEAP = {"sigmoid", "erf", "nn.silu", "nn.gelu", "nn.gelu_tanh"}
# By which NaN may get lost: the hardware's maximum of a number and NaN is the number.
_DROPS_NAN = {"maximum", "minimum", "nn.relu", "nn.relu6", "clip", "nn.leakyrelu", "sign"}


def _floating(name: str) -> Callable:
    function, ulps, absolute, fast = FLOATING[name]

    def meaning(noise: Noise, x: Number) -> Number:
        value, bound = spread(function, (x,))
        finite = np.isfinite(x.real)
        size = np.where(finite, np.abs(x.real), 0)
        lost = absolute + fast * noise.absolute + (1e-5 if noise.cheap and name in _CHEAP else 0)
        if name in ("sin", "cos", "tan"):
            lost = lost + (size * 2.0**-21 if noise.fast else 0)
        if name in ("nn.gelu_tanh", "nn.silu"):
            lost = (lost + 2.0**-21) * size  # 1 + tanh(x) cancels
        if name == "nn.gelu_tanh" and noise.fast:
            # value - x / 2 is x / 2 times the tanh, which loses what it loses alone
            lost = lost + np.abs(np.where(finite, value - x.real / 2, 0)) * FAST_TANH
        if name == "tan":
            lost = lost * (1 + np.where(np.isfinite(value), value, 0) ** 2)
        if name == "tanh" and noise.fast:
            lost = np.abs(value) * FAST_TANH
        relative = ulps + (1.5 * np.minimum(size, 1e4) if name in ("exp", "sigmoid") else 0)
        bound = bound + np.where(np.isfinite(value), lost, 0)
        return rounded(value, bound + _wide(value, relative, x.dtype), x.dtype, 2)

    return meaning


def _wide(value: np.ndarray, ulps: Any, dtype: str) -> np.ndarray:
    """The loss of a function whose result is wider than what stores it, at least float32."""
    wide = "float32" if dtype in HALVES else dtype
    # Halves may have functions of their own in hardware.
    return np.where(np.isfinite(value), np.abs(value), 0) * ulps * ULP[wide]


def _numbers(name: str, function: Callable, *xs: Number) -> Number:
    """A function that is exact but for the last rounding."""
    dtype = xs[0].dtype
    if dtype in FLOATS:
        value, bound = spread(function, xs)
    else:
        value = function(*(x.value.astype(_wider(dtype)) for x in xs))
        _, bound = spread(function, xs)
        big = np.abs(spread(function, xs)[0]) > 2.0**62
        bound = np.where(big, WILD, bound)
    if name in _DROPS_NAN and dtype in FLOATS:
        nan = np.zeros(value.shape, bool)
        for x in xs:
            nan |= np.isnan(x.real)
        bound, value = np.where(nan, WILD, bound), np.where(nan, 0, value)
    return stored(value, bound, dtype)


def _wider(dtype: str) -> str:
    return "uint64" if dtype == "uint64" else "int64"


def _exact(name: str) -> Callable:
    function = {**EXACT, **ARITHMETIC}[name]
    if name in _JUMPS:
        return lambda noise, *xs: _numbers(name, function, *_flushed(noise, *xs))
    return lambda noise, *xs: _numbers(name, function, *xs)


def _multiply(noise: Noise, x: Number, y: Number) -> Number:
    if x.dtype in FLOATS:
        return product(*_flushed(noise, x, y), x.dtype)
    return _numbers("multiply", np.multiply, x, y)


def _subtract(noise: Noise, x: Number, y: Number) -> Number:
    found = _numbers("subtract", np.subtract, x, y)
    if x is y and x.floating:
        # TVM's simplifier takes x - x for 0, also of infinities and NaN.
        found = Number(x.dtype, found.value, np.where(np.isfinite(x.real), found.bound, WILD))
    return found


def _flushed(noise: Noise, *xs: Number) -> tuple[Number, ...]:
    """Operands, with the bounds of those whose denormals fast maths take for 0.

    For what jumps there, and for products with something large.
    """
    if not noise.fast:
        return xs

    def moved(x: Number) -> Number:
        denormal = np.abs(x.real) < SMALLEST.get(x.dtype, 0)
        return Number(x.dtype, x.value, x.bound + np.where(denormal, np.abs(x.real), 0))

    return tuple(moved(x) for x in xs)


def _compared(name: str) -> Callable:
    def meaning(noise: Noise, x: Number, y: Number) -> Number:
        x, y = _flushed(noise, x, y)
        apart, bound = np.abs(x.real - y.real), x.bound + y.bound
        unsure = (bound > 0) & ~(apart > bound)
        return whole(COMPARED[name](x.value, y.value), unsure.astype("float64"), "bool")

    return meaning


def _logical(name: str) -> Callable:
    def meaning(noise: Noise, x: Number, y: Number) -> Number:
        value, bound = LOGICAL[name](x.value, y.value), x.bound + y.bound
        if name != "logical_xor":
            # One operand that is sure may settle it.
            settles = name == "logical_or"
            sure = (x.value == settles) & (x.bound == 0) | (y.value == settles) & (y.bound == 0)
            bound = np.where(sure, 0, bound)
        return whole(value, bound, "bool")

    return meaning


def _bitwise(name: str) -> Callable:
    def meaning(noise: Noise, x: Number, y: Number) -> Number:
        wide = _wider(x.dtype) if x.dtype != "bool" else "bool"
        value = BITWISE[name](x.value.astype(wide), y.value.astype(wide))
        return whole(value, np.where(x.bound + y.bound > 0, WILD, 0), x.dtype)

    return meaning


def _divide(noise: Noise, x: Number, y: Number) -> Number:
    value, bound = spread(np.divide, (x, y))
    # A divisor that may be 0 or have either sign.
    bound = np.where((y.bound > 0) & (np.abs(y.real) <= y.bound), WILD, bound)
    if noise.fast:
        bound = np.where(np.abs(y.real) > 2.0**125, WILD, bound)
        flushed = (np.abs(y.real) < 1.2e-38) & (y.real != 0) & (x.dtype != "float64")
        bound = np.where(flushed, WILD, bound)
    return rounded(value, bound, x.dtype, 3)


def _power(noise: Noise, x: Number, y: Number) -> Number:
    value, bound = spread(np.power, (x, y))
    size = np.abs(np.where(np.isfinite(value), value, 0))
    logarithm = np.where(x.real > 0, np.abs(np.log(np.abs(x.real) + 1e-300)), 0)
    exponent = np.abs(y.real) * (logarithm * 2.0**-22 + (2.0**-20 if noise.fast else 0))
    return rounded(value, bound + size * np.where(np.isfinite(exponent), exponent, 0), x.dtype, 6)


def _whole_division(function: Callable) -> Callable:
    """Floor or truncated division and its rest: a quotient near a whole number may be either."""

    def meaning(noise: Noise, x: Number, y: Number) -> Number:
        if x.dtype not in FLOATS:
            wide = _wider(x.dtype)
            zero = y.value == 0
            value = function(x.value.astype(wide), np.where(zero, 1, y.value).astype(wide))
            unsure = zero | (x.bound + y.bound > 0)
            return whole(value, np.where(unsure, WILD, 0), x.dtype)
        value, bound = spread(function, (x, y))
        quotient = x.real / y.real
        near = np.abs(quotient - np.round(quotient)) <= np.abs(quotient) * 8 * ULP[x.dtype]
        size = np.abs(x.real) * 4 * ULP[x.dtype]
        return rounded(value, np.where(near | ~np.isfinite(quotient), WILD, bound + size), x.dtype)

    return meaning


def _clip(noise: Noise, x: Number, low: float, high: float) -> Number:
    return _numbers("clip", lambda v: np.clip(v, low, high), x)


def _leakyrelu(noise: Noise, x: Number, alpha: float = 0.01) -> Number:
    return _numbers("nn.leakyrelu", lambda v: np.where(v > 0, v, v * alpha), x)


def _gelu(noise: Noise, x: Number) -> Number:
    value, bound = spread(lambda v: 0.5 * v * (1 + erf(v / math.sqrt(2))), (x,))
    size = np.where(np.isfinite(x.real), np.abs(x.real), 0)
    cheap = 1e-5 if noise.cheap else 0
    wide = ULP["float64"] if x.dtype == "float64" else ULP["float32"]
    return rounded(value, bound + size * (4 * wide + 3e-7 * (wide > 1e-10) + cheap), x.dtype, 2)


def _softplus(noise: Noise, x: Number, beta: float = 1.0, threshold: float = 20.0) -> Number:
    value, bound = spread(lambda v: np.logaddexp(0, beta * v) / beta, (x,))
    # Past the threshold it is x; before, 1 + exp(x) loses what is small.
    lost = (2.0**-22 if x.dtype != "float64" else 2.0**-50) + noise.absolute + 3e-9
    return rounded(value, bound + np.where(np.isfinite(value), lost, 0) / beta, x.dtype, 3)


def _log_add_exp(noise: Noise, x: Number, y: Number) -> Number:
    value, bound = spread(np.logaddexp, (x, y))
    lost = 2 * (2.0**-22 if x.dtype != "float64" else 2.0**-50) + noise.absolute
    return rounded(value, bound + np.where(np.isfinite(value), lost, 0), x.dtype, 4)


def _atan2(noise: Noise, x: Number, y: Number) -> Number:
    x, y = _flushed(noise, x, y)
    value, bound = spread(np.arctan2, (x, y))
    turn = (np.abs(x.real) <= x.bound) & (x.bound > 0)
    return rounded(value, np.where(turn, WILD, bound), x.dtype, 4)


def _fused(noise: Noise, x: Number, y: Number, z: Number) -> Number:
    """x * y + z, rounded after the product as well."""
    how = Arithmetic(x.dtype, noise)
    return how.add(how.mul(x, y), z)


def _where(noise: Noise, condition: Number, x: Number, y: Number) -> Number:
    value = np.where(condition.value, x.value, y.value)
    bound = np.where(condition.value, x.bound, y.bound)
    both = np.where(
        np.broadcast_to(x.real, value.shape) == y.real, 0, distance_or_wild(x.real, y.real)
    )
    unsure = both + np.maximum(x.bound, y.bound)
    return Number(x.dtype, value, np.where(condition.bound > 0, unsure, bound))


def distance_or_wild(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """How far apart, wild where that is no number."""
    apart = np.abs(x - y)
    return np.where(np.isnan(apart), WILD, apart)


def _masked_fill(noise: Noise, x: Number, mask: Number, value: Number) -> Number:
    return _where(noise, mask, value, x)


def _test(function: Callable) -> Callable:
    def meaning(noise: Noise, x: Number) -> Number:
        return whole(function(x.real), np.isinf(x.bound).astype("float64"), "bool")

    return meaning


def _prelu(noise: Noise, x: Number, alpha: Number, axis: int = 1) -> Number:
    shape = [-1 if place == axis % x.value.ndim else 1 for place in range(x.value.ndim)]
    slope = Number(alpha.dtype, alpha.value.reshape(shape), alpha.bound.reshape(shape))
    return _numbers("nn.prelu", lambda v, a: np.where(v > 0, v, v * a), x, slope)


MEANINGS: dict[str, Callable] = {
    **{name: _floating(name) for name in FLOATING},
    **{name: _exact(name) for name in (*EXACT, *ARITHMETIC)},
    **{name: _compared(name) for name in COMPARED},
    **{name: _logical(name) for name in LOGICAL},
    **{name: _bitwise(name) for name in BITWISE},
    "multiply": _multiply,
    "subtract": _subtract,
    "divide": _divide,
    "power": _power,
    "floor_divide": _whole_division(np.floor_divide),
    "floor_mod": _whole_division(np.mod),
    "mod": _whole_division(np.fmod),
    "clip": _clip,
    "nn.leakyrelu": _leakyrelu,
    "nn.gelu": _gelu,
    "nn.softplus": _softplus,
    "nn.prelu": _prelu,
    "log_add_exp": _log_add_exp,
    "atan2": _atan2,
    "ewise_fma": _fused,
    "where": _where,
    "masked_fill": _masked_fill,
    "isnan": _test(np.isnan),
    "isinf": _test(np.isinf),
    "isfinite": _test(np.isfinite),
    "logical_not": lambda noise, x: whole(np.logical_not(x.value), x.bound, "bool"),
    "bitwise_not": lambda noise, x: whole(
        np.invert(x.value), np.where(x.bound > 0, WILD, 0), x.dtype
    ),
    "astype": lambda noise, x, dtype: cast(x, dtype),
}
