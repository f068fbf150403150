"""Tensors from nothing: constants, ranges, the diagonal."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.outside.graphs.extent import Extent
from tests.outside.graphs.graph import Ref, Shape
from tests.outside.graphs.number import FLOATS, Noise, Number, exact
from tests.outside.graphs.writer import Skip, Writer


def _full(noise: Noise, shape: Sequence[int], fill_value: Number, dtype: str) -> Number:
    return exact(np.full(tuple(shape), fill_value.value), dtype)


def _filled(number: float) -> Callable:
    return lambda noise, shape, dtype: exact(np.full(tuple(shape), number), dtype)


def _like(number: float) -> Callable:
    return lambda noise, x: exact(np.full(x.value.shape, number), x.dtype)


def _full_like(noise: Noise, x: Number, fill_value: Number) -> Number:
    return exact(np.full(x.value.shape, fill_value.value), x.dtype)


def _arange(noise: Noise, start: int, end: int, step: int, dtype: str) -> Number:
    return exact(np.arange(start, end, step), dtype)


def _eye(noise: Noise, n: int, m: int, k: int, dtype: str) -> Number:
    return exact(np.eye(n, m, k), dtype)


MEANINGS: dict[str, Callable] = {
    "full": _full,
    "zeros": _filled(0.0),
    "ones": _filled(1.0),
    "zeros_like": _like(0.0),
    "ones_like": _like(1.0),
    "full_like": _full_like,
    "arange": _arange,
    "eye": _eye,
}


def _shape(w: Writer) -> Shape:
    """The shape of some tensor, or one that broadcasts with it."""
    return w.narrower(w.shape(w.pick()))


def _constant(w: Writer) -> None:
    x = w.pick(numeric=True)
    way = str(w.one_of(("full", "zeros", "ones", "zeros_like", "ones_like", "full_like")))
    if way == "full":
        w.call("full", shape=_shape(w), fill_value=Ref(w.constant(x, 2)), dtype=w.dtype(x))
    elif way in ("zeros", "ones"):
        w.call(way, shape=_shape(w), dtype=w.dtype(x))
    elif way == "full_like":
        w.call("full_like", x, w.constant(x, 3))
    else:
        w.call(way, x)


def _range(w: Writer) -> None:
    """Positions, added to what they number; masks of a triangle are made this way."""
    x = w.pick(numeric=True, least_rank=1)
    extent = w.shape(x)[-1]
    dtype = str(w.one_of(("float32", "int32", "int64", w.dtype(x))))
    if max(extent.size(sizes) for sizes in w.bindings) > 100 and dtype not in ("float32", "int64"):
        raise Skip
    numbers = w.call("arange", start=0, end=extent, step=1, dtype=dtype)
    if dtype == w.dtype(x) and w.chance(0.7):
        small = numbers
        if dtype in FLOATS:
            small = w.call("multiply", numbers, w.number(0.0078125, numbers))
        w.call("add", x, small)


def _diagonal(w: Writer) -> None:
    x = w.pick(floating=True, least_rank=2)
    rows, columns = w.shape(x)[-2:]
    if rows.constant is None or columns.constant is None:
        raise Skip
    eye = w.call(
        "eye", n=rows.constant, m=columns.constant, k=int(w.rng.integers(-1, 2)), dtype=w.dtype(x)
    )
    w.call("multiply", x, eye)


def _causal(w: Writer) -> None:
    """Positions compared with positions: a causal mask."""
    x = w.pick(floating=True, least_rank=2)
    rows, columns = w.shape(x)[-2:]
    first = w.call("arange", start=0, end=rows, step=1, dtype="int32")
    second = w.call("arange", start=0, end=columns, step=1, dtype="int32")
    column = w.call("reshape", first, shape=(rows, Extent.of(1)))
    allowed = w.call("greater_equal", column, second)
    low = -1e4 if w.dtype(x) == "float16" else -1e9
    w.call("where", allowed, x, w.constant(x, low if w.extreme else -5.0))


RULES = [(_constant, 1.5), (_range, 1), (_diagonal, 0.5), (_causal, 1)]
