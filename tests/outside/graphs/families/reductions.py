"""Many elements become one, along some axes or running along one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.outside.graphs.number import (
    FLOATS,
    ULP,
    WILD,
    Arithmetic,
    Noise,
    Number,
    cast,
    extremum,
    rounded,
    whole,
)
from tests.outside.graphs.writer import Skip, Writer, broadcast


def axes_of(x: Number, axis: Any) -> tuple[int, ...]:
    """The axes meant, none of them negative; all where none is named."""
    rank = x.value.ndim
    if axis is None:
        return tuple(range(rank))
    return tuple(int(a) % rank for a in (axis if isinstance(axis, list | tuple) else [axis]))


def _sum(noise: Noise, x: Number, axis: Any = None, keepdims: bool = False) -> Number:
    axes = axes_of(x, axis)
    if x.dtype not in FLOATS:
        value = x.value.astype("int64").sum(axis=axes, keepdims=keepdims)
        return whole(value, x.bound.sum(axis=axes, keepdims=keepdims), x.dtype)
    how = Arithmetic(noise.computing(x.dtype), noise)
    return cast(how.sum(x, axes, keepdims), x.dtype)


def _mean(noise: Noise, x: Number, axis: Any = None, keepdims: bool = False) -> Number:
    how = Arithmetic(noise.computing(x.dtype), noise)
    return cast(how.mean(x, axes_of(x, axis), keepdims), x.dtype)


def _extreme(sign: float) -> Callable:
    def meaning(noise: Noise, x: Number, axis: Any = None, keepdims: bool = False) -> Number:
        return extremum(x, axes_of(x, axis), keepdims, sign)

    return meaning


def _prod(noise: Noise, x: Number, axis: Any = None, keepdims: bool = False) -> Number:
    axes = axes_of(x, axis)
    with np.errstate(all="ignore"):
        value = x.real.prod(axis=axes, keepdims=keepdims)
        high = (np.abs(x.real) + x.bound).prod(axis=axes, keepdims=keepdims)
        low = np.abs(x.real).prod(axis=axes, keepdims=keepdims)
    count = x.value.size / max(value.size, 1)
    if x.dtype not in FLOATS:
        exact = x.value.astype("int64").prod(axis=axes, keepdims=keepdims)
        return whole(np.where(np.abs(value) < 2.0**62, exact, value), high - low, x.dtype)
    bound = np.where(np.isfinite(high), high - low, WILD)
    # Halves may be multiplied in halves, one after the other.
    return rounded(value, bound, x.dtype, 2 + count)


def variance(how: Arithmetic, x: Number, axes: tuple[int, ...], keepdims: bool) -> Number:
    """The mean of the squares of what differs from the mean."""
    centred = how.sub(x, how.mean(x, axes))
    return how.mean(how.mul(centred, centred), axes, keepdims)


def _variance(noise: Noise, x: Number, axis: Any = None, keepdims: bool = False) -> Number:
    how = Arithmetic(noise.computing(x.dtype), noise)
    return cast(variance(how, x, axes_of(x, axis), keepdims), x.dtype)


def _std(noise: Noise, x: Number, axis: Any = None, keepdims: bool = False) -> Number:
    how = Arithmetic(noise.computing(x.dtype), noise)
    found = variance(how, x, axes_of(x, axis), keepdims)
    return cast(how.apply(lambda v: np.sqrt(np.maximum(v, 0)), found), x.dtype)


def _place(function: Callable, sign: float) -> Callable:
    """Where the largest is: the first of equals; of those that may be equal, either."""

    def meaning(noise: Noise, x: Number, axis: Any = None, keepdims: bool = False) -> Number:
        real = x.real if axis is not None else x.real.reshape(-1)
        bound = x.bound if axis is not None else x.bound.reshape(-1)
        along = 0 if axis is None else int(axis)
        place = np.expand_dims(function(np.where(np.isnan(real), 0, real), axis=along), along)
        best = np.take_along_axis(real, place, along) * sign
        off = np.take_along_axis(bound, place, along)
        own = _counting(real, along) == place
        near = ~own & ((off + bound) > 0) & ~(best - real * sign > off + bound)
        lost = np.isnan(real).any(along, keepdims=True) | near.any(along, keepdims=True)
        lost |= np.isinf(best)
        if axis is None:
            place, lost = place.reshape(()), lost.reshape(())
        elif not keepdims:
            place, lost = np.squeeze(place, along), np.squeeze(lost, along)
        if axis is None and keepdims:
            shape = (1,) * x.value.ndim
            place, lost = place.reshape(shape), lost.reshape(shape)
        return whole(place, np.where(lost, WILD, 0.0), "int64")

    return meaning


def _counting(real: np.ndarray, axis: int) -> np.ndarray:
    """0, 1, 2 and so on along an axis."""
    shape = [-1 if place == axis % real.ndim else 1 for place in range(real.ndim)]
    return np.arange(real.shape[axis]).reshape(shape)


def _scan(multiplied: bool) -> Callable:
    def meaning(
        noise: Noise,
        x: Number,
        axis: int | None = None,
        dtype: str | None = None,
        exclusive: bool = False,
    ) -> Number:
        real = x.real if axis is not None else x.real.reshape(-1)
        bound = x.bound if axis is not None else x.bound.reshape(-1)
        along = 0 if axis is None else axis
        count = _counting(real, along) + 1
        if multiplied:
            value = real.cumprod(along)
            far = (np.abs(real) + bound).cumprod(along)
            off = np.where(np.isfinite(far), far - np.abs(value), WILD)
        else:
            value = real.cumsum(along)
            off = bound.cumsum(along)
            # Scans of halves run in halves.
            off = off + ULP.get(x.dtype, 0) * count * np.abs(real).cumsum(along)
        if exclusive:
            value = _shifted(value, along, 1.0 if multiplied else 0.0)
            off = _shifted(off, along, 0.0)
        if x.dtype in FLOATS:
            return rounded(value, off, x.dtype, 1 + (count if multiplied else 0))
        return whole(np.where(np.abs(value) < 2.0**52, value, np.inf), off, dtype or x.dtype)

    return meaning


def _shifted(values: np.ndarray, axis: int, first: float) -> np.ndarray:
    start = np.full_like(np.take(values, [0], axis), first)
    rest = np.take(values, range(values.shape[axis] - 1), axis)
    return np.concatenate([start, rest], axis)


def _collapsed(noise: Noise, x: Number, shape: Sequence[int]) -> Number:
    extra = x.value.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(
        extra + place
        for place, extent in enumerate(shape)
        if extent == 1 and x.value.shape[extra + place] != 1
    )
    found = _sum(noise, x, axes, True) if axes else x
    target = tuple(shape)
    return Number(x.dtype, found.value.reshape(target), found.bound.reshape(target))


MEANINGS: dict[str, Callable] = {
    "sum": _sum,
    "mean": _mean,
    "max": _extreme(1.0),
    "min": _extreme(-1.0),
    "prod": _prod,
    "variance": _variance,
    "std": _std,
    "argmax": _place(np.argmax, 1.0),
    "argmin": _place(np.argmin, -1.0),
    "cumsum": _scan(False),
    "cumprod": _scan(True),
    "collapse_sum_to": _collapsed,
}


def some_axes(w: Writer, x: int) -> list[int]:
    """Axes to reduce: the last one or the last few most often."""
    rank = w.rank(x)
    style = w.rng.random()
    if style < 0.5:
        return [rank - 1]
    if style < 0.75:
        return list(range(int(w.rng.integers(rank)), rank))
    if style < 0.85:
        return [int(w.rng.integers(rank))]
    return [axis for axis in range(rank) if w.chance(0.5)] or [0]


def filled(w: Writer, x: int, axes: Sequence[int]) -> bool:
    """Whether there is something to reduce, whatever the symbols are."""
    return all(w.shape(x)[axis].size(sizes) for axis in axes for sizes in w.bindings)


def _reduce(w: Writer) -> None:
    x = w.pick(numeric=True, least_rank=0 if w.chance(0.03) else 1)
    axes = some_axes(w, x) if w.rank(x) else []
    names = ["sum", "sum", "max", "min"] + (["mean", "mean"] if w.floating(x) else [])
    name = str(w.one_of(names))
    if name in ("max", "min", "mean") and not filled(w, x, axes):
        raise Skip
    if name == "sum" and not w.floating(x) and w.dtype(x) in ("int8", "uint8"):
        x = w.call("astype", x, dtype="int32")
    given: Any = None if not axes or w.chance(0.05) else axes
    if given is None and not filled(w, x, range(w.rank(x))):
        raise Skip
    w.call(name, x, axis=given, keepdims=w.chance(0.6))


def _moments(w: Writer) -> None:
    x = w.pick(floating=True, least_rank=1)
    axes = some_axes(w, x)
    name = str(w.one_of(("variance", "variance", "std", "prod")))
    if not filled(w, x, axes):
        raise Skip
    if name == "prod":
        x = w.call("add", w.call("multiply", x, w.number(0.01, x)), w.number(1.0, x))
    w.call(name, x, axis=axes, keepdims=w.chance(0.6))


def _places(w: Writer) -> None:
    x = w.pick(numeric=True, least_rank=1)
    axis = w.axis(x)
    if not filled(w, x, [axis]):
        raise Skip
    name = str(w.one_of(("argmax", "argmin")))
    w.call(name, x, axis=axis, keepdims=w.chance(0.5))


def _running(w: Writer) -> None:
    x = w.pick(floating=True, least_rank=1)
    axis = w.axis(x)
    if not filled(w, x, [axis]):
        raise Skip
    if w.chance(0.3):
        x = w.call("add", w.call("multiply", x, w.number(0.01, x)), w.number(1.0, x))
        w.call("cumprod", x, axis=axis)
    else:
        w.call("cumsum", x, axis=axis, exclusive=w.chance(0.2))


def _collapse(w: Writer) -> None:
    x = w.pick(floating=True, least_rank=1)
    target = w.narrower(w.shape(x))
    if broadcast(target, w.shape(x)) != w.shape(x) or target == w.shape(x):
        raise Skip
    w.call("collapse_sum_to", x, shape=target)


RULES = [(_reduce, 11), (_moments, 3), (_places, 1), (_running, 0.6), (_collapse, 0.7)]
