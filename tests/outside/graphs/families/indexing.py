"""Elements by index: gathers, scatters, sorts, one-hot rows, quantization's levels."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from tests.outside.graphs.extent import Extent
from tests.outside.graphs.families.reductions import filled
from tests.outside.graphs.graph import Data, Ref
from tests.outside.graphs.number import (
    ULP,
    WILD,
    Noise,
    Number,
    exact,
    rounded,
    spread,
    whole,
)
from tests.outside.graphs.writer import Skip, Writer


def _sure(values: Number, index: Number, bound: np.ndarray) -> np.ndarray:
    """The bound of what was looked up; nothing is known where the index may be another."""
    return np.where(index.bound > 0, WILD, bound) if index.bound.any() else bound


def _take(noise: Noise, x: Number, indices: Number, axis: int) -> Number:
    value = np.take(x.value, indices.value, axis)
    bound = np.take(x.bound, indices.value, axis)
    if indices.bound.any():
        bound = np.full_like(bound, WILD)
    return Number(x.dtype, value, bound)


def _gather_elements(noise: Noise, x: Number, indices: Number, axis: int) -> Number:
    value = np.take_along_axis(x.value, indices.value, axis)
    return Number(
        x.dtype, value, _sure(x, indices, np.take_along_axis(x.bound, indices.value, axis))
    )


def _gather_nd(noise: Noise, x: Number, indices: Number) -> Number:
    where = tuple(np.moveaxis(indices.value, -1, 0))
    return Number(x.dtype, x.value[where], x.bound[where])


def _index_tensor(noise: Noise, x: Number, indices: Sequence[Number]) -> Number:
    where = tuple(index.value for index in indices)
    return Number(x.dtype, x.value[where], x.bound[where])


def _scatter_elements(
    noise: Noise, x: Number, indices: Number, updates: Number, axis: int, reduction: str
) -> Number:
    """Sums where several meet; only sums are made, for others depend on the order."""
    value, bound, size = x.real.copy(), x.bound.copy(), np.abs(x.real)
    grid = np.indices(indices.value.shape)
    where = [*grid]
    where[axis] = indices.value
    np.add.at(value, tuple(where), updates.real)
    np.add.at(bound, tuple(where), updates.bound)
    np.add.at(size, tuple(where), np.abs(updates.real))
    return rounded(value, bound + 8 * ULP[x.dtype] * size, x.dtype, 1)


def _one_hot(
    noise: Noise, indices: Number, on_value: Number, off_value: Number, depth: int, axis: int = -1
) -> Number:
    hit = np.expand_dims(indices.value, axis)
    rank = hit.ndim
    shape = [-1 if place == axis % rank else 1 for place in range(rank)]
    value = np.where(hit == np.arange(depth).reshape(shape), on_value.value, off_value.value)
    return exact(value, on_value.dtype)


def _sorted(x: Number, axis: int, descending: bool) -> tuple[np.ndarray, np.ndarray]:
    """The order, stable, and where it is not certain."""
    real = -x.real if descending else x.real
    order = np.argsort(real, axis=axis, kind="stable")
    ordered = np.take_along_axis(real, order, axis)
    off = np.take_along_axis(x.bound, order, axis)
    count = real.shape[axis]
    first = np.take(ordered, range(count - 1), axis)
    second = np.take(ordered, range(1, count), axis)
    reach = np.take(off, range(count - 1), axis) + np.take(off, range(1, count), axis)
    close = ~(second - first > reach)
    widths = [(0, 0)] * real.ndim
    widths[axis] = (1, 0)
    before = np.pad(close, widths)
    widths[axis] = (0, 1)
    return order, before | np.pad(close, widths)


def _sort(noise: Noise, x: Number, axis: int, descending: bool) -> Number:
    real = -x.real if descending else x.real
    bound = np.where(np.isfinite(x.bound), x.bound, 0)
    value = np.sort(real, axis=axis)
    high, low = np.sort(real + bound, axis=axis), np.sort(real - bound, axis=axis)
    off = np.maximum(np.abs(high - value), np.abs(value - low))
    lost = (np.isnan(real) | np.isinf(x.bound)).any(axis, keepdims=True)
    off = np.where(lost, WILD, np.where(np.isnan(off), 0, off))
    value = -value if descending else value
    return Number(x.dtype, value.astype(x.value.dtype), off)


def _argsort(noise: Noise, x: Number, axis: int, descending: bool, dtype: str) -> Number:
    order, unsure = _sorted(x, axis, descending)
    # Equal elements may come in either order.
    lost = np.isnan(x.real).any(axis, keepdims=True)
    return whole(order, np.where(unsure | lost, WILD, 0), dtype)


def _topk(
    noise: Noise, x: Number, k: int, axis: int, ret_type: str, largest: bool, dtype: str
) -> tuple[Number, Number]:
    values = _sort(noise, x, axis, largest)
    places = _argsort(noise, x, axis, largest, dtype)
    first = range(k)
    pick = [np.take(n, first, axis) for n in (values.value, values.bound)]
    place = [np.take(n, first, axis) for n in (places.value, places.bound)]
    return Number(x.dtype, pick[0], pick[1]), Number(dtype, place[0], place[1])


def _bucketize(noise: Noise, x: Number, boundaries: Number, out_int32: bool, right: bool) -> Number:
    edges = boundaries.real
    value = np.searchsorted(edges, x.real, "right" if right else "left")
    with np.errstate(all="ignore"):
        low = np.searchsorted(edges, x.real - x.bound, "left")
        high = np.searchsorted(edges, x.real + x.bound, "right")
    unsure = ((low != high) & (x.bound > 0)) | np.isnan(x.real)
    return whole(value, np.where(unsure, WILD, 0), "int32" if out_int32 else "int64")


def _quantize(
    noise: Noise, x: Number, scale: Number, zero: Number, axis: int, out_dtype: str
) -> Number:
    shape = [-1 if place == axis % x.value.ndim else 1 for place in range(x.value.ndim)]
    info = np.iinfo(out_dtype)
    level = x.real / scale.real.reshape(shape)
    value = np.clip(np.round(level) + zero.real.reshape(shape), info.min, info.max)
    _, bound = spread(lambda v: np.round(v / scale.real.reshape(shape)), (x,))
    near = np.abs(np.abs(level - np.floor(level)) - 0.5) < np.abs(level) * 4 * ULP[x.dtype] + 1e-6
    return whole(value, np.where(near, np.maximum(bound, 1), bound), out_dtype)


def _dequantize(
    noise: Noise, x: Number, scale: Number, zero: Number, axis: int, out_dtype: str
) -> Number:
    shape = [-1 if place == axis % x.value.ndim else 1 for place in range(x.value.ndim)]
    factor = scale.real.reshape(shape)
    value = (x.real - zero.real.reshape(shape)) * factor
    return rounded(value, x.bound * np.abs(factor), out_dtype, 2)


MEANINGS: dict[str, Callable] = {
    "take": _take,
    "gather_elements": _gather_elements,
    "gather_nd": _gather_nd,
    "index_tensor": _index_tensor,
    "scatter_elements": _scatter_elements,
    "one_hot": _one_hot,
    "sort": _sort,
    "argsort": _argsort,
    "topk": _topk,
    "bucketize": _bucketize,
    "quantize": _quantize,
    "dequantize": _dequantize,
}


def _lookup(w: Writer) -> None:
    x = w.pick(least_rank=1)
    axis = w.axis(x)
    if not filled(w, x, [axis]):
        raise Skip
    limit = w.shape(x)[axis]
    dtype = str(w.one_of(("int32", "int64")))
    way = str(w.one_of(("take", "take", "take", "elements", "nd", "tensor")))
    if way == "take":
        count = w.one_of(((), (Extent.of(3),), (Extent.of(2), Extent.of(5)), (limit,)))
        indices = w.input(count, dtype, Data("index", limit))
        w.call("take", x, indices, axis=axis)
    elif way == "elements":
        shape = list(w.shape(x))
        shape[axis] = Extent.of(int(w.one_of((1, 2, 7))))
        w.call("gather_elements", x, w.input(tuple(shape), dtype, Data("index", limit)), axis=axis)
    elif way == "nd":
        limit = w.shape(x)[0]
        if not filled(w, x, [0]):
            raise Skip
        indices = w.input((Extent.of(4), Extent.of(1)), dtype, Data("index", limit))
        w.call("gather_nd", x, indices)
    else:
        if not filled(w, x, [0]):
            raise Skip
        indices = w.input((Extent.of(5),), dtype, Data("index", w.shape(x)[0]))
        w.call("index_tensor", x, [indices])


def _scatter(w: Writer) -> None:
    x = w.pick(floating=True, least_rank=1)
    axis = w.axis(x)
    if not filled(w, x, [axis]):
        raise Skip
    shape = list(w.shape(x))
    shape[axis] = Extent.of(int(w.one_of((1, 2, 5))))
    indices = w.input(tuple(shape), "int64", Data("index", w.shape(x)[axis]))
    updates = w.input(tuple(shape), w.dtype(x))
    w.call("scatter_elements", x, indices, updates, axis=axis, reduction="add")


def _one_hot_rule(w: Writer) -> None:
    depth = int(w.one_of((2, 5, 8, 17)))
    base = w.pick(least_rank=1)
    indices = w.input(w.shape(base)[:1], "int32", Data("index", Extent.of(depth)))
    like = w.pick(numeric=True)
    on, off = w.constant(like, 1), w.constant(like, 0)
    w.call("one_hot", indices, depth=depth, axis=-1, on_value=Ref(on), off_value=Ref(off))


def _ordered(w: Writer) -> None:
    x = w.pick(floating=True, least_rank=1)
    axis = w.rank(x) - 1
    number = w.shape(x)[axis].constant
    if not number or number > 300:
        raise Skip
    descending = w.chance(0.5)
    way = str(w.one_of(("sort", "argsort", "topk")))
    if way == "topk":
        k = int(w.rng.integers(1, min(number, 8) + 1))
        call = w.call("topk", x, k=k, axis=axis, ret_type="both", largest=descending, dtype="int32")
        w.items(call)
    elif way == "sort":
        w.call("sort", x, axis=axis, descending=descending)
    else:
        w.call("argsort", x, axis=axis, descending=descending, dtype="int32")


def _levels(w: Writer) -> None:
    if w.chance(0.3):
        x = w.pick(dtypes=("float32",))
        edges = w.constant(x, [-1.0, -0.25, 0.3, 1.1])
        w.call("bucketize", x, edges, out_int32=w.chance(0.5), right=w.chance(0.5))
        return
    x = w.pick(dtypes=("float32",), least_rank=1)
    axis = w.rank(x) - 1
    channels = (w.shape(x)[axis],)
    scale = w.input(channels, "float32", Data("positive", scale=0.0625))
    zero = w.input(channels, "int8", Data("small"))
    levels = w.call("quantize", x, scale, zero, axis=axis, out_dtype="int8")
    w.call("dequantize", levels, scale, zero, axis=axis, out_dtype="float32")


RULES = [(_lookup, 3), (_scatter, 0.5), (_one_hot_rule, 0.7), (_ordered, 0.5), (_levels, 0.7)]
