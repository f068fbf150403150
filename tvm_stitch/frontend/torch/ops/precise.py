"""Functions as exact as PyTorch's, where those of the hardware are not.

TVM compiles CUDA with --use_fast_math, and so has the hardware's tanh (errors of 5e-6), sine and
cosine (which lose with every period what the argument is large), powers and logarithms near 1.
These are computed of what fast math leaves alone: expm1, log1p, polynomials, and float64 where few
operations of it do.

In: elements in TIR. Out: the same. Must not know calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import reduce
from typing import Any

from tvm import tirx

from tvm_stitch.frontend.torch.dtypes import HALVES, is_float

# Of the sine and the cosine up to a quarter of a period, in powers of the square.
_SINE = [(-1) ** n / math.factorial(2 * n + 1) for n in range(7)]
_COSINE = [(-1) ** n / math.factorial(2 * n) for n in range(8)]
_SQRT_2_OVER_PI = math.sqrt(2 / math.pi)
_CUBE = 0.044715
MOST_OF_FLOAT32 = 8
"""Whole exponents up to which products in float32 are as exact as CUDA's powf, wrong by 4 ulp."""
MOST_MULTIPLIED = 64
"""Exponents up to which float32 is more exact than halves are, and integers multiply."""


def library(name: str) -> Any:
    """A function of the C library, as CUDA has it too: exact where a formula would cancel."""

    def compute(*operands: Any) -> Any:
        of = _type(operands[0])
        return tirx.call_pure_extern(of, name if of == "float64" else f"{name}f", *operands)

    return compute


def tanh(x: Any) -> Any:
    """Of what falls off: nothing cancels, nothing overflows."""
    of = _type(x)
    size = tirx.abs(x)
    falling = library("expm1")(size * tirx.const(-2.0, of))
    value = tirx.const(0.0, of) - falling / (falling + tirx.const(2.0, of))
    return tirx.Select(x < tirx.const(0.0, of), tirx.const(0.0, of) - value, value)


def gelu_tanh(x: Any) -> Any:
    """GELU by way of tanh."""
    of = _type(x)
    one, cube, scale = (tirx.const(each, of) for each in (1.0, _CUBE, _SQRT_2_OVER_PI))
    inner = x * scale * (one + cube * x * x)
    return tirx.const(0.5, of) * x * (one + tanh(inner))


def sin(x: Any) -> Any:
    """The sine of an argument of any size."""
    rest, sign = _halves_of_periods(x)
    return sign * rest * _polynomial(_SINE, rest * rest)


def cos(x: Any) -> Any:
    """The cosine of an argument of any size."""
    rest, sign = _halves_of_periods(x)
    return sign * _polynomial(_COSINE, rest * rest)


def tan(x: Any) -> Any:
    """The tangent: near its poles whatever is rounded before is large."""
    return tirx.tan(x.astype("float64")).astype(_type(x))


def log(x: Any) -> Any:
    """The logarithm, near 1 as well."""
    return _logarithm(x, tirx.log, 1.0)


def log2(x: Any) -> Any:
    """The logarithm to base 2."""
    return _logarithm(x, tirx.log2, math.log2(math.e))


def log10(x: Any) -> Any:
    """The logarithm to base 10."""
    return _logarithm(x, tirx.log10, math.log10(math.e))


def known_power(exponent: float, to: str) -> Callable[[Any], Any] | None:
    """Bases to a number, where that takes no float64 to be as exact as the result is."""
    if exponent in _ROOTS and is_float(to):
        return _ROOTS[exponent]
    most = MOST_OF_FLOAT32 if to == "float32" else MOST_MULTIPLIED
    if float(exponent).is_integer() and abs(exponent) <= most:
        return whole_power(int(exponent)) if exponent >= 0 or is_float(to) else None
    if to in HALVES and abs(exponent) <= most:
        return lambda base: tirx.power(base, tirx.const(exponent, _type(base)))
    return None


def whole_power(number: int) -> Callable[[Any], Any]:
    """Of bases to a whole number: by squares, each of which doubles what is rounded before."""

    def compute(base: Any) -> Any:
        one = tirx.const(1, _type(base))
        product, square, left = None, base, abs(number)
        while left:
            if left % 2:
                product = square if product is None else product * square
            square, left = square * square, left // 2
        product = one if product is None else product
        return one / product if number < 0 else product

    return compute


_ROOTS = {0.5: tirx.sqrt, -0.5: tirx.rsqrt}  # of minus infinity no number, as PyTorch's


def power(base: Any, exponent: Any) -> Any:
    """What is small in the exponent's product with a logarithm is large in the power."""
    return tirx.power(base.astype("float64"), exponent.astype("float64")).astype(_type(base))


def _logarithm(x: Any, of_hardware: Any, factor: float) -> Any:
    of = _type(x)
    near = tirx.all(x > tirx.const(0.5, of), x < tirx.const(2.0, of))
    exact = library("log1p")(x - tirx.const(1.0, of)) * tirx.const(factor, of)
    return tirx.Select(near, exact, of_hardware(x))


def _halves_of_periods(x: Any) -> tuple[Any, Any]:
    """What is left of x beyond whole multiples of pi, and the sign of sine and cosine there."""
    of = _type(x)
    turns = x.astype("float64") * tirx.const(1 / math.pi, "float64")
    whole = tirx.nearbyint(turns)
    rest = ((turns - whole) * tirx.const(math.pi, "float64")).astype(of)
    half = whole * tirx.const(0.5, "float64")
    odd = (half - tirx.floor(half)).astype(of)  # 0 or a half
    return rest, tirx.const(1.0, of) - odd * tirx.const(4.0, of)


def _polynomial(factors: list[float], x: Any) -> Any:
    of = _type(x)
    *others, first = factors
    return reduce(
        lambda sum_, factor: sum_ * x + tirx.const(factor, of),
        reversed(others),
        tirx.const(first, of),
    )


def _type(x: Any) -> str:
    return str(x.ty.dtype)


def nought(a: Any) -> Any:
    """0 * a, and a - a: not a number where a is infinite or none. TVM would have 0 everywhere."""
    of = str(a.ty.dtype)
    is_finite = tirx.abs(a) <= tirx.max_value(of)
    return tirx.Select(is_finite, tirx.const(0.0, of), tirx.const(float("nan"), of))
