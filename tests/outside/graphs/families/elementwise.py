"""Element by element: functions of one value, of two, of three, comparisons, casts."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

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
from tests.outside.graphs.writer import Skip, Writer

_erf = np.vectorize(math.erf, otypes=["float64"])


def erf(x: np.ndarray) -> np.ndarray:
    """The error function."""
    return _erf(x) if x.size else np.zeros(x.shape)


def sigmoid(x: np.ndarray) -> np.ndarray:
    """1 / (1 + exp(-x)) without overflow."""
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, small) / (1 + small)


def gelu_tanh(x: np.ndarray) -> np.ndarray:
    """GELU by its usual approximation."""
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


# Function, and its error in ulps, in absolute numbers, and in FAST, the loss of fast maths.
_FLOATING: dict[str, tuple[Callable, float, float, float]] = {
    "exp": (np.exp, 4, 0, 0),
    "log": (np.log, 3, 0, 1),
    "sqrt": (np.sqrt, 2, 0, 0),
    "rsqrt": (lambda x: 1 / np.sqrt(x), 3, 0, 0),
    "sin": (np.sin, 3, 0, 1),
    "cos": (np.cos, 3, 0, 1),
    "tan": (np.tan, 4, 0, 4),
    "asin": (np.arcsin, 4, 0, 0),
    "acos": (np.arccos, 4, 0, 0),
    "atan": (np.arctan, 4, 0, 0),
    "sinh": (np.sinh, 6, 0, 0),
    "cosh": (np.cosh, 6, 0, 0),
    "tanh": (np.tanh, 4, 0, 1),
    "asinh": (np.arcsinh, 6, 1e-6, 1),
    "acosh": (np.arccosh, 6, 1e-6, 1),
    "atanh": (np.arctanh, 6, 1e-6, 1),
    "sigmoid": (sigmoid, 6, 0, 0),
    "erf": (erf, 4, 3e-7, 0),
    "nn.gelu_tanh": (gelu_tanh, 6, 0, 0),
    "nn.silu": (lambda x: np.where(np.isinf(x) & (x < 0), np.nan, x * sigmoid(x)), 6, 0, 0),
    "nn.selu": (
        lambda x: 1.0507009873554805 * np.where(x > 0, x, 1.6732632423543772 * np.expm1(x)),
        4, 3e-7, 1,
    ),
}  # fmt: skip
# What is exact, of floating values and of integers.
_EXACT: dict[str, Callable] = {
    "abs": np.abs,
    "negative": np.negative,
    "floor": np.floor,
    "ceil": np.ceil,
    "round": np.round,
    "trunc": np.trunc,
    "sign": np.sign,
    "square": np.square,
    "nn.relu": lambda x: np.maximum(x, 0),
    "nn.relu6": lambda x: np.clip(x, 0, 6),
}
_JUMPS = {"floor", "ceil", "sign"}
_ARITHMETIC: dict[str, Callable] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
    "maximum": np.maximum,
    "minimum": np.minimum,
}
_COMPARED: dict[str, Callable] = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "less": np.less,
    "less_equal": np.less_equal,
    "greater": np.greater,
    "greater_equal": np.greater_equal,
}
_LOGICAL: dict[str, Callable] = {
    "logical_and": np.logical_and,
    "logical_or": np.logical_or,
    "logical_xor": np.logical_xor,
}
_BITWISE: dict[str, Callable] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "left_shift": np.left_shift,
    "right_shift": np.right_shift,
}
_CHEAP = {"sigmoid", "erf", "nn.silu", "nn.gelu", "nn.gelu_tanh"}
# By which NaN may get lost: the hardware's maximum of a number and NaN is the number.
_DROPS_NAN = {"maximum", "minimum", "nn.relu", "nn.relu6", "clip", "nn.leakyrelu", "sign"}


def _floating(name: str) -> Callable:
    function, ulps, absolute, fast = _FLOATING[name]

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
    function = {**_EXACT, **_ARITHMETIC}[name]
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
        return whole(_COMPARED[name](x.value, y.value), unsure.astype("float64"), "bool")

    return meaning


def _logical(name: str) -> Callable:
    def meaning(noise: Noise, x: Number, y: Number) -> Number:
        value, bound = _LOGICAL[name](x.value, y.value), x.bound + y.bound
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
        value = _BITWISE[name](x.value.astype(wide), y.value.astype(wide))
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
    **{name: _floating(name) for name in _FLOATING},
    **{name: _exact(name) for name in (*_EXACT, *_ARITHMETIC)},
    **{name: _compared(name) for name in _COMPARED},
    **{name: _logical(name) for name in _LOGICAL},
    **{name: _bitwise(name) for name in _BITWISE},
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


def _one(w: Writer) -> None:
    x = w.pick(floating=True)
    names = (*_FLOATING, *_EXACT, "nn.gelu", "nn.softplus", "nn.leakyrelu", "clip")
    name = str(w.rng.choice(names))
    if name in ("log", "sqrt", "rsqrt"):
        x = w.call("add", w.call("abs", x), w.number(0.5, x))
    elif name in ("asin", "acos", "atanh"):
        x = w.call("multiply", w.call("tanh", x), w.number(0.75, x))
    elif name == "acosh":
        x = w.call("add", w.call("abs", x), w.number(1.5, x))
    elif name in ("exp", "sinh", "cosh", "tan") and w.chance(0.6):
        x = w.call("negative", w.call("abs", x)) if name == "exp" else w.call("sin", x)
    if name == "clip":
        w.call("clip", x, float(w.one_of((-1.0, 0.0, -0.5))), float(w.one_of((0.25, 1.0, 6.0))))
    else:
        w.call(name, x)


def _two(w: Writer) -> None:
    x = w.pick(numeric=True)
    names = [*_ARITHMETIC] if w.chance(0.8) or not w.floating(x) else ["log_add_exp", "atan2"]
    name = str(w.rng.choice(names))
    operands = [x, w.fitting(x)]
    if w.chance(0.3):
        operands.reverse()
    w.call(name, *operands)


def _divided(w: Writer) -> None:
    x = w.pick(numeric=True)
    if not w.floating(x):
        y = w.constant(x, int(w.one_of((1, 2, 3, 5, 7))))
        w.call(str(w.one_of(("floor_divide", "floor_mod", "mod"))), x, y)
        return
    y = w.fitting(x)
    name = str(w.one_of(("divide", "divide", "divide", "power", "floor_divide", "floor_mod")))
    if name == "power":
        x = w.call("add", w.call("abs", x), w.number(0.25, x))
        y = w.number(float(w.one_of((2.0, 3.0, 0.5, -1.0, 1.5))), x) if w.chance(0.6) else y
    elif not (w.extreme and w.chance(0.3)):
        y = w.call("add", w.call("abs", y), w.number(0.5, y))
    w.call(name, x, y)


def _constant_operand(w: Writer) -> None:
    x = w.pick(numeric=True)
    number = w.one_of((0.5, 2.0, -1.0, 0.1, 3.0, 1e-3)) if w.floating(x) else w.one_of((1, 2, 3))
    if str(w.dtype(x)).startswith("u"):
        name = str(w.one_of(("add", "multiply", "maximum", "minimum")))
    else:
        name = str(w.rng.choice([*_ARITHMETIC]))
    y = w.constant(x, number)
    w.call(name, *((x, y) if w.chance(0.7) else (y, x)))


def _compare(w: Writer) -> None:
    x = w.pick(numeric=True)
    w.call(str(w.rng.choice([*_COMPARED])), x, w.fitting(x))


def _booleans(w: Writer) -> None:
    x = w.pick(dtypes=("bool",))
    if w.chance(0.25):
        w.call("logical_not", x)
    else:
        w.call(str(w.rng.choice([*_LOGICAL])), x, w.fitting(x))


def _bits(w: Writer) -> None:
    x = w.pick(integer=True)
    name = str(w.rng.choice(["bitwise_not", *_BITWISE]))
    if name == "bitwise_not":
        w.call(name, x)
    elif name in ("left_shift", "right_shift"):
        w.call(name, x, w.constant(x, int(w.rng.integers(0, 4))))
    else:
        w.call(name, x, w.fitting(x))


def _select(w: Writer) -> None:
    x = w.pick(numeric=True)
    y = w.fitting(x)
    condition = w.condition(x)
    if w.chance(0.75):
        w.call("where", condition, x, y)
    elif w.shape(condition) == w.shape(x):
        low = -1e4 if w.floating(x) else 1
        w.call("masked_fill", x, condition, w.constant(x, low if not w.extreme else 0))
    else:
        raise Skip


def _three(w: Writer) -> None:
    x = w.pick(floating=True)
    same = [place for place in w.places if w.type(place) == w.type(x)]
    w.call("ewise_fma", x, w.one_of(same), w.one_of(same))


def _cast(w: Writer) -> None:
    x = w.pick()
    dtype = str(w.rng.choice(w.dtypes))
    if dtype == w.dtype(x):
        raise Skip
    w.call("astype", x, dtype=dtype)


def _tests(w: Writer) -> None:
    x = w.pick(floating=True)
    w.call(str(w.one_of(("isnan", "isinf", "isfinite"))), x)


def _prelu_rule(w: Writer) -> None:
    x = w.pick(floating=True, least_rank=1)
    axis = int(w.rng.integers(w.rank(x)))
    w.call("nn.prelu", x, w.input((w.shape(x)[axis],), w.dtype(x)), axis=axis)


RULES = [
    (_one, 14), (_two, 12), (_divided, 4), (_constant_operand, 5), (_compare, 2), (_booleans, 2),
    (_bits, 2), (_select, 3), (_three, 0.2), (_cast, 5), (_tests, 0.5), (_prelu_rule, 0.5),
]  # fmt: skip
