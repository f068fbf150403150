"""Reductions. Halves are summed in float32, integers and booleans in int64, as PyTorch does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from tvm import relax, te, tirx

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import (
    Call,
    Converter,
    Dim,
    Expr,
    Number,
    axes,
    dims,
    dtype,
    is_float,
    rank,
    wide,
)
from tvm_stitch.graph.front.undispatched import scans_rows
from tvm_stitch.stages.extremes import reducer

_op = relax.op
Axes = Sequence[int] | int | None


def over(call: Call, function: Callable[..., Expr], x: Expr, dim: Axes, keepdim: bool) -> Expr:
    """A reduction of Relax over dimensions as PyTorch gives them."""
    if not rank(x):
        return x
    return call.emit(function(x, axes(dim, rank(x)), keepdims=keepdim))


def count(x: Expr, dim: Axes) -> Dim:
    """How many elements are reduced to one."""
    extents, total = dims(x), 1
    for axis in axes(dim, len(extents)):
        total = total * extents[axis]
    return total


def divided(call: Call, x: Expr, by: Dim, less: Number = 0) -> Expr:
    """A sum by a number of elements, less a correction; nothing is left of none."""
    of = dtype(x)
    if isinstance(by, int):
        left = max(by - less, 0)
        if left and not _is_power_of_two(left):
            return call.emit(_op.divide(x, call.number(left, of)))
        factor = 1.0 / left if left else float("inf")  # exact; TVM divides by no constant of 0
        return call.emit(_op.multiply(x, call.number(factor, of)))

    def compute(a: Any) -> Any:
        number = by.astype(of) - tirx.const(float(less), of)
        return a / tirx.max(number, tirx.const(0.0, of))

    return call.pointwise(compute, x, of=of, to=of)


def _is_power_of_two(number: float) -> bool:
    return isinstance(number, int) and number & (number - 1) == 0


def mean_of(call: Call, x: Expr, dim: Axes, keepdim: bool) -> Expr:
    """The mean, of what is wide enough to sum."""
    return divided(call, over(call, _op.sum, x, dim, keepdim), count(x, dim))


def variance_of(
    call: Call, x: Expr, dim: Axes, keepdim: bool, correction: Number = 0
) -> tuple[Expr, Expr]:
    """Variance and mean in two passes: squares of what is left of the mean."""
    if not rank(x):
        x, dim = call.emit(_op.reshape(x, [1])), [0]
        variance, mean = variance_of(call, x, dim, False, correction)
        return variance, mean
    mean = mean_of(call, x, dim, True)
    centred = call.emit(_op.subtract(x, mean))
    squares = over(call, _op.sum, call.emit(_op.multiply(centred, centred)), dim, keepdim)
    if not keepdim:
        mean = call.emit(_op.reshape(mean, dims(squares)))
    return divided(call, squares, count(x, dim), correction), mean


def _summed(function: Callable[..., Expr]) -> Converter:
    def convert(
        call: Call, x: Expr, dim: Axes = None, keepdim: bool = False, dtype: Any = None
    ) -> Expr:
        to = call.dtype
        return call.cast(over(call, function, call.cast(x, wide(to)), dim, keepdim), to)

    return convert


def _product(call: Call, x: Expr, dtype: Any = None) -> Expr:
    return _summed(_op.prod)(call, x)


def _product_along(call: Call, x: Expr, dim: int, keepdim: bool = False, dtype: Any = None) -> Expr:
    return _summed(_op.prod)(call, x, dim, keepdim)


def _mean(call: Call, x: Expr, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Expr:
    to = call.dtype
    return call.cast(mean_of(call, call.cast(x, wide(to)), dim, keepdim), to)


def _mean_of_all(call: Call, x: Expr, dtype: Any = None) -> Expr:
    return _mean(call, x)


Extreme = Callable[..., Expr]


def _extreme(function: Callable[..., Expr], name: str) -> Extreme:
    """The largest or smallest element, or what is not a number if there is any."""

    def convert(call: Call, x: Expr, dim: Axes = (), keepdim: bool = False) -> Expr:
        of = dtype(x)
        if not rank(x):
            return x
        if of == "bool":
            narrow = over(call, function, call.cast(x, "int32"), dim, keepdim)
            return call.cast(narrow, of)
        if not is_float(of):
            return over(call, function, x, dim, keepdim)
        compute = partial(_reduced, name, axes(dim, rank(x)), keepdim)
        return call.cast(call.te(compute, call.wide(x)), of)

    return convert


def _reduced(name: str, along: Sequence[int], keepdim: bool, x: te.Tensor) -> Any:
    """The extreme of that name over axes; infinite where there is none, not TVM's finite number."""
    extreme = reducer(name)
    inside = {axis: te.reduce_axis((0, x.shape[axis]), f"r{axis}") for axis in along}
    outside = [axis for axis in range(len(x.shape)) if keepdim or axis not in inside]

    def found(*place: Any) -> Any:
        read = {**dict(zip(outside, place, strict=True)), **inside}
        return extreme(x[tuple(read[a] for a in range(len(x.shape)))], axis=list(inside.values()))

    return te.compute([1 if a in inside else x.shape[a] for a in outside], found, name=name)


def _any(call: Call, x: Expr, dim: Axes = None, keepdim: bool = False) -> Expr:
    found = over(call, _op.max, call.cast(call.cast(x, "bool"), "int32"), dim, keepdim)
    # The largest of none is the least integer.
    zero = tirx.const(0, "int32")
    return call.pointwise(lambda a: a > zero, found, of="int32", to=call.dtype)


def _variance(
    call: Call,
    x: Expr,
    dim: Axes = None,
    correction: Number = None,
    keepdim: bool = False,
) -> Expr:
    to, correction = call.dtype, 1 if correction is None else correction
    return call.cast(variance_of(call, call.wide(x), dim, keepdim, correction)[0], to)


def _variance_unbiased(
    call: Call, x: Expr, dim: Axes, unbiased: bool = True, keepdim: bool = False
) -> Expr:
    return _variance(call, x, dim, int(unbiased), keepdim)


def _variance_and_mean(
    call: Call, x: Expr, dim: Axes = None, correction: Number = None, keepdim: bool = False
) -> tuple[Expr, Expr]:
    to, correction = dtype(x), 1 if correction is None else correction
    variance, mean = variance_of(call, call.wide(x), dim, keepdim, correction)
    return call.cast(variance, to), call.cast(mean, to)


def _softmax(function: Callable[..., Expr]) -> Converter:
    def convert(call: Call, x: Expr, dim: int, half_to_float: bool) -> Expr:
        to = call.dtype
        x = call.wide(x)
        if not rank(x):
            raise TorchError("a softmax of one element")
        return call.cast(call.emit(function(x, dim)), to)

    return convert


def _safe_softmax(call: Call, x: Expr, dim: int, dtype: Any = None) -> Expr:
    """exp(x - max) / sum, but 0 along rows of nothing but minus infinity, of which the sum is 0."""
    to, x = call.dtype, call.wide(x)
    if not rank(x):
        raise TorchError("a softmax of one element")
    most = call.emit(_op.max(x, dim, keepdims=True))  # TVM's, which is finite of no values at all
    powers = call.emit(_op.exp(call.emit(_op.subtract(x, most))))
    total = call.emit(_op.sum(powers, dim, keepdims=True))
    zero, one = (call.number(each, wide(to)) for each in (0.0, 1.0))
    is_unseen = call.emit(_op.equal(total, zero))
    divisor = call.emit(_op.where(is_unseen, one, total))
    return call.cast(call.emit(_op.divide(powers, divisor)), to)


def _running(function: Callable[..., Expr]) -> Converter:
    """Running sums or products along rows; PyTorch has those along a few long ones."""

    def convert(call: Call, x: Expr, dim: int, dtype: Any = None) -> Expr:
        to, extents = call.dtype, dims(x)
        if not extents:
            return call.cast(x, to)
        axis, last = dim % len(extents), len(extents) - 1
        known = [extent if isinstance(extent, int) else None for extent in extents]
        if known[axis] == 0 or not scans_rows(known, axis, [wide(to)]):
            raise TorchError("it scans a few rows that are too long for a block to keep")
        if to == "float64":
            raise TorchError("it scans in float64")
        x = call.cast(x, wide(to))
        if axis == last:
            return call.cast(call.emit(function(x, axis=axis)), to)
        # Kernels scan along the last axis: it changes places with the one that is scanned.
        swapped = list(range(len(extents)))
        swapped[axis], swapped[last] = last, axis
        rows = call.emit(function(call.emit(_op.permute_dims(x, swapped)), axis=last))
        return call.cast(call.emit(_op.permute_dims(rows, swapped)), to)

    return convert


LARGEST = _extreme(_op.max, "largest")
SMALLEST = _extreme(_op.min, "smallest")

OPERATORS: dict[str, Converter] = {
    "_log_softmax": _softmax(_op.nn.log_softmax),
    "_safe_softmax": _safe_softmax,
    "_softmax": _softmax(_op.nn.softmax),
    "amax": LARGEST,
    "amin": SMALLEST,
    "cumprod": _running(_op.cumprod),
    "cumsum": _running(_op.cumsum),
    "any": _any,
    "any.dim": _any,
    "any.dims": _any,
    "max": LARGEST,
    "mean": _mean_of_all,
    "mean.dim": _mean,
    "min": SMALLEST,
    "prod": _product,
    "prod.dim_int": _product_along,
    "sum": lambda call, x, dtype=None: _summed(_op.sum)(call, x),
    "sum.dim_IntList": _summed(_op.sum),
    "var.correction": _variance,
    "var.dim": _variance_unbiased,
    "var_mean.correction": _variance_and_mean,
}

ALONG = frozenset({
    "amax", "amin", "mean.dim", "sum.dim_IntList", "var.correction", "var_mean.correction",
})  # fmt: skip
"""Those that take their dimensions as a list, and whether they stay as dimensions of 1."""
