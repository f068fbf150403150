"""Numbers that know how far rounding may have moved them: an array, and a bound for each element.

The arithmetic is NumPy's in float64. Each operator adds what a bound of its operands can come to
and what it may round itself, so that a cancellation is allowed exactly what it loses. An infinite
bound says that nothing can be said of an element: past the largest number of a dtype, divided by
what may be 0, looked up at an index that may be another. NaN and infinities with a bound of 0 must
come out as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

from tests.outside.graphs.graph import numpy_dtype

Array = np.ndarray
FLOATS = ("float32", "float16", "bfloat16", "float64")
HALVES = ("float16", "bfloat16")
ULP = {"float64": 2.0**-52, "float32": 2.0**-23, "float16": 2.0**-10, "bfloat16": 2.0**-7}
LARGEST = {name: float(ml_dtypes.finfo(numpy_dtype(name)).max) for name in FLOATS}
# Denormals may be flushed to 0; those of float16 are kept, coarse as they are.
SMALLEST = {"float64": 5e-324, "float32": 1.2e-38, "float16": 6e-8, "bfloat16": 1.2e-38}
# What --use_fast_math may lose, absolutely, in log, sin and the like.
FAST = 2.0**-20
# And of a tanh, relatively: the hardware has one.
FAST_TANH = 2.0**-10.5
WILD = np.inf


@dataclass(frozen=True)
class Noise:
    """What a machine may do beyond rounding: `fast` as --use_fast_math has it on a GPU, `cheap` as
    Options(fast_math=True) asks for, `halves` where TVM's own kernels sum halves up in halves."""

    fast: bool = False
    cheap: bool = False
    halves: bool = False

    def computing(self, dtype: str) -> str:
        """The dtype that what is stored in another is computed in, at least."""
        return "float32" if dtype in HALVES and not self.halves else dtype

    @property
    def absolute(self) -> float:
        """The absolute error of logarithms and the like."""
        return FAST if self.fast else 0.0


@dataclass(frozen=True)
class Number:
    """A tensor: floating ones in float64 and others in their own dtype, and the bounds."""

    dtype: str
    value: Array
    bound: Array  # float64, of the value's shape; 1 for booleans that may be otherwise

    @property
    def floating(self) -> bool:
        """Whether it is of a floating dtype."""
        return self.dtype in FLOATS

    @property
    def real(self) -> Array:
        """The value in float64, as far as that holds it."""
        return self.value if self.floating else self.value.astype("float64")


def exact(array: Any, dtype: str) -> Number:
    """A tensor that is known exactly."""
    value = np.asarray(array)
    value = value.astype("float64") if dtype in FLOATS else value.astype(dtype)
    return Number(dtype, value, np.zeros(value.shape))


def rounded(value: Array, bound: Array, dtype: str, ulps: float = 1.0) -> Number:
    """A floating result of that dtype, with what storing it may lose and computing it lost."""
    value = np.asarray(value, "float64")
    size = np.abs(value)
    finite = np.isfinite(value)
    lost = ulps * ULP[dtype] * np.where(finite, size, 0) + SMALLEST[dtype]
    # What is correctly rounded loses nothing where there is nothing to round.
    lost = np.where((np.asarray(ulps) <= 1) & (bound == 0) & _held(value, dtype), 0, lost)
    bound = np.where(finite, bound + lost, bound)
    bound = np.where(finite & (size + bound > LARGEST[dtype]), WILD, bound)
    # An infinity that might have been finite, or a NaN that might have been a number.
    bound = np.where(finite | (bound == 0), bound, WILD)
    return Number(dtype, value, np.asarray(bound, "float64"))


def _held(value: Array, dtype: str) -> Array:
    """Whether the dtype holds a value as it is, and not as a denormal."""
    with np.errstate(all="ignore"):
        same = value.astype(numpy_dtype(dtype)).astype("float64") == value
    return same & ((value == 0) | (np.abs(value) >= SMALLEST[dtype]))


def whole(value: Array, bound: Array, dtype: str) -> Number:
    """A result of an integer dtype, computed in float64 or exactly; past its ends it is wild."""
    if dtype == "bool":
        return Number(dtype, np.asarray(value, bool), np.minimum(bound, 1.0))
    info = np.iinfo(dtype)
    real = np.asarray(value, "float64")
    outside = ~((real >= float(info.min)) & (real <= np.nextafter(float(info.max), 0)))
    kept = np.where(outside, 0, value).astype(dtype)
    return Number(dtype, kept, np.where(outside, WILD, bound))


def stored(value: Array, bound: Array, dtype: str, ulps: float = 1.0) -> Number:
    """A result of any dtype."""
    if dtype in FLOATS:
        return rounded(value, bound, dtype, ulps)
    return whole(value, bound, dtype)


def spread(function: Callable[..., Array], operands: tuple[Number, ...]) -> tuple[Array, Array]:
    """A function's value, and how far it goes when its operands go as far as they may."""
    reals = [operand.real for operand in operands]
    with np.errstate(all="ignore"):
        value = np.asarray(function(*reals), "float64")
        bound = np.zeros(value.shape)
        for place, operand in enumerate(operands):
            if not operand.bound.any():
                continue
            for step in (-1.0, -0.5, 0.5, 1.0):
                moved = list(reals)
                far = np.where(np.isfinite(operand.bound), operand.bound, 0)
                moved[place] = reals[place] + step * far
                bound = np.maximum(bound, distance(function(*moved), value))
            bound = np.where(np.isinf(np.broadcast_to(operand.bound, value.shape)), WILD, bound)
    return value, bound


def product(x: Number, y: Number, dtype: str) -> Number:
    """What is 0 twice, but for rounding, is off by what both may be: no product of errors is left
    out here."""
    value, bound = spread(np.multiply, (x, y))
    both = np.where(np.isfinite(x.bound) & np.isfinite(y.bound), x.bound * y.bound, WILD)
    alone = (x.bound == 0) | (y.bound == 0)
    return rounded(value, bound + np.where(alone, 0, both), dtype)


def distance(moved: Array, value: Array) -> Array:
    """How far apart; nothing for equal infinities and NaNs, wild where only one of them is."""
    same = (moved == value) | (np.isnan(moved) & np.isnan(value))
    apart = np.abs(moved - value)
    return np.where(same, 0, np.where(np.isfinite(apart), apart, WILD))


def summed(x: Number, axes: tuple[int, ...], keepdims: bool, dtype: str) -> Number:
    """A sum, accumulated in that dtype in any order."""
    with np.errstate(all="ignore"):
        value = x.real.sum(axis=axes, keepdims=keepdims)
        finite = np.isfinite(x.real)
        total = np.where(finite, np.abs(x.real), 0).sum(axis=axes, keepdims=keepdims)
        bound = x.bound.sum(axis=axes, keepdims=keepdims)
    count = x.real.size / max(value.size, 1)
    bound = bound + (4 + np.sqrt(count)) * ULP[dtype] * total
    # Partial sums past the end may come back, or may not.
    bound = np.where(total > LARGEST[dtype] / 2, WILD, bound)
    exact_special = ~np.isfinite(value) & (x.bound.sum(axis=axes, keepdims=keepdims) < WILD)
    return rounded(value, np.where(exact_special, 0, bound), dtype)


class Arithmetic:
    """Numbers computed with in one dtype, for operators that are written out in stages."""

    def __init__(self, dtype: str, noise: Noise) -> None:
        self.dtype, self.noise = dtype, noise

    def apply(
        self, function: Callable, *xs: Number, ulps: float = 2.0, absolute: float = 0.0
    ) -> Number:
        """An element-wise function."""
        value, bound = spread(function, xs)
        bound = bound + np.where(np.isfinite(value), absolute, 0)
        return rounded(value, bound, self.dtype, ulps)

    def add(self, x: Number, y: Number) -> Number:
        """Their sum."""
        return self.apply(np.add, x, y, ulps=1)

    def sub(self, x: Number, y: Number) -> Number:
        """Their difference."""
        return self.apply(np.subtract, x, y, ulps=1)

    def mul(self, x: Number, y: Number) -> Number:
        """Their product."""
        return product(x, y, self.dtype)

    def div(self, x: Number, y: Number) -> Number:
        """Their quotient."""
        return self.apply(np.divide, x, y)

    def exp(self, x: Number) -> Number:
        """As the hardware computes it, by powers of 2."""
        size = np.minimum(np.abs(np.where(np.isfinite(x.real), x.real, 0)), 1e4)
        value, bound = spread(np.exp, (x,))
        return rounded(value, bound, self.dtype, 2 + 1.5 * size)

    def log(self, x: Number) -> Number:
        """The natural logarithm."""
        return self.apply(np.log, x, absolute=self.noise.absolute)

    def sum(self, x: Number, axes: tuple[int, ...], keepdims: bool = True) -> Number:
        """A sum over axes."""
        return summed(x, axes, keepdims, self.dtype)

    def mean(self, x: Number, axes: tuple[int, ...], keepdims: bool = True) -> Number:
        """A mean over axes."""
        total = self.sum(x, axes, keepdims)
        count = x.real.size / max(total.real.size, 1)
        return self.apply(lambda v: v / count, total)

    def number(self, value: float) -> Number:
        """A constant, as the dtype holds it."""
        return rounded(np.asarray(value, "float64"), np.zeros(()), self.dtype)

    def largest(self, x: Number, axes: tuple[int, ...], keepdims: bool = True) -> Number:
        """The maximum over axes."""
        return extremum(x, axes, keepdims, 1.0)


def extremum(x: Number, axes: tuple[int, ...], keepdims: bool, sign: float) -> Number:
    """The maximum over axes, or the minimum where sign is -1. NaN is anyone's guess."""
    real = x.real * sign
    bound = np.where(np.isfinite(x.bound), x.bound, 0)
    with np.errstate(all="ignore"):
        value = real.max(axis=axes, keepdims=keepdims)
        high = (real + bound).max(axis=axes, keepdims=keepdims)
        low = (real - bound).max(axis=axes, keepdims=keepdims)
        off = np.maximum(distance(high, value), distance(low, value))
    lost = np.isnan(real) | np.isinf(x.bound)
    # TVM starts from the smallest finite number: nothing but -inf comes to that.
    lost_rows = lost.any(axis=axes, keepdims=keepdims) | (np.isinf(value) & (value < 0))
    off = np.where(lost_rows, WILD, off)
    value = np.where(np.isnan(value), 0, value) * sign
    if x.floating:
        return Number(x.dtype, value, off)
    function = np.max if sign > 0 else np.min
    return Number(x.dtype, function(x.value, axis=axes, keepdims=keepdims), off)


def cast(x: Number, dtype: str) -> Number:
    """The tensor in another dtype."""
    if dtype == x.dtype:
        return x
    if dtype in FLOATS:
        narrower = not x.floating or ULP[dtype] > ULP[x.dtype]
        return rounded(x.real, x.bound, dtype, 1.0 if narrower else 0.0)
    if dtype == "bool":
        nonzero = x.real != 0
        unsure = (x.bound > 0) & (np.abs(x.real) <= x.bound)
        return Number("bool", nonzero, unsure.astype("float64"))
    if not x.floating:
        value, bound = x.value, x.bound
        if x.dtype == "bool":
            value = value.astype("int64")
        return whole(value, bound, dtype)
    value, bound = spread(np.trunc, (x,))
    value = np.where(np.isnan(value), np.inf, value)
    return whole(value, bound, dtype)
