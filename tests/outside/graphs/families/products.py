"""Sums of products, and windows: matrix products, attention, convolutions, pools."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.outside.graphs.extent import Extent
from tests.outside.graphs.families.compound import softmax
from tests.outside.graphs.families.reductions import filled
from tests.outside.graphs.number import (
    FLOATS,
    ULP,
    WILD,
    Arithmetic,
    Noise,
    Number,
    cast,
    rounded,
    whole,
)
from tests.outside.graphs.writer import Skip, Writer


def contracted(
    noise: Noise,
    function: Callable[[np.ndarray, np.ndarray], np.ndarray],
    x: Number,
    y: Number,
    count: int,
    dtype: str,
) -> Number:
    """A bilinear function that sums up `count` products for each result."""
    a, b = x.real, y.real
    value = function(a, b)
    size = function(np.abs(a), np.abs(b))
    bound = function(np.abs(a), y.bound) + function(x.bound, np.abs(b))
    bound = bound + function(x.bound, y.bound)
    if dtype not in FLOATS:
        return whole(value, np.where(size < 2.0**52, bound, WILD), dtype)
    bound = bound + (4 + np.sqrt(count)) * ULP[noise.computing(dtype)] * size
    # A product of something with nothing is nothing, but not of the infinite.
    bound = np.where(np.isnan(value) | np.isnan(bound), WILD, bound)
    return rounded(np.where(np.isnan(value), 0, value), bound, dtype, 1)


def _matmul(noise: Noise, x: Number, y: Number, out_dtype: str | None = None) -> Number:
    dtype = out_dtype or x.dtype
    return contracted(noise, np.matmul, x, y, x.value.shape[-1], dtype)


def _linear(noise: Noise, x: Number, weight: Number, bias: Number) -> Number:
    turned = Number(weight.dtype, weight.value.T, weight.bound.T)
    return Arithmetic(x.dtype, noise).add(_matmul(noise, x, turned), bias)


def _einsum(noise: Noise, xs: Sequence[Number], subscripts: str) -> Number:
    x, y = xs
    count = x.value.shape[-1]
    return contracted(noise, lambda a, b: np.einsum(subscripts, a, b), x, y, count, x.dtype)


def attention(noise: Noise, query: Number, key: Number, value: Number) -> Number:
    """Over (batch, sequence, heads, columns)."""
    how = Arithmetic(noise.computing(query.dtype), noise)
    wide = how.dtype
    turn = (0, 2, 1, 3)
    q, k, v = (
        Number(wide, n.value.transpose(turn), n.bound.transpose(turn)) for n in (query, key, value)
    )
    back = Number(wide, np.swapaxes(k.value, -1, -2), np.swapaxes(k.bound, -1, -2))
    depth = query.value.shape[-1]
    scores = contracted(noise, np.matmul, q, back, depth, wide)
    weights = softmax(how, how.mul(scores, how.number(1 / np.sqrt(depth))), (3,))
    weights = cast(cast(weights, query.dtype), wide)
    found = contracted(noise, np.matmul, weights, v, key.value.shape[1], wide)
    return cast(Number(wide, found.value.transpose(turn), found.bound.transpose(turn)), query.dtype)


def windows(
    x: np.ndarray, sizes: Sequence[int], strides: Sequence[int], padding: int, fill: float
) -> np.ndarray:
    """Over (batch, channels, ...): the windows, their elements in the last axes."""
    spatial = len(sizes)
    widths = [(0, 0)] * 2 + [(padding, padding)] * spatial
    padded = np.pad(x, widths, constant_values=fill)
    axes = tuple(range(2, 2 + spatial))
    view = np.lib.stride_tricks.sliding_window_view(padded, tuple(sizes), axes)
    return view[(slice(None), slice(None), *(slice(None, None, s) for s in strides))]


def _convolution(
    noise: Noise,
    x: Number,
    weight: Number,
    strides: Sequence[int],
    padding: Sequence[int],
    groups: int = 1,
) -> Number:
    spatial = x.value.ndim - 2
    letters = "hwd"[:spatial]
    inner = "klm"[:spatial]

    def convolve(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        parts = []
        per, made = a.shape[1] // groups, b.shape[0] // groups
        for group in range(groups):
            seen = windows(
                a[:, group * per : (group + 1) * per], b.shape[2:], strides, padding[0], 0.0
            )
            part = b[group * made : (group + 1) * made]
            parts.append(np.einsum(f"nc{letters}{inner},oc{inner}->no{letters}", seen, part))
        return np.concatenate(parts, 1)

    count = int(np.prod(weight.value.shape[1:]))
    return contracted(noise, convolve, x, weight, count, x.dtype)


def _max_pool(
    noise: Noise, x: Number, pool_size: Sequence[int], strides: Sequence[int], padding: Any
) -> Number:
    last = tuple(range(-len(pool_size), 0))
    args = (pool_size, strides, padding[0])
    value = windows(x.real, *args, -np.inf).max(last)
    bound = np.where(np.isfinite(x.bound), x.bound, 0)
    high = windows(x.real + bound, *args, -np.inf).max(last)
    low = windows(x.real - bound, *args, -np.inf).max(last)
    off = np.maximum(high - value, value - low)
    lost = windows((np.isnan(x.real) | np.isinf(x.bound)) * 1.0, *args, 0.0).max(last) > 0
    off = np.where(lost | ~np.isfinite(value) | np.isnan(off), WILD, off)
    return Number(x.dtype, np.where(np.isnan(value), 0, value), off)


def _average_pool(
    noise: Noise,
    x: Number,
    pool_size: Sequence[int],
    strides: Sequence[int],
    padding: Any,
    count_include_pad: bool,
) -> Number:
    last = tuple(range(-len(pool_size), 0))
    args = (pool_size, strides, padding[0])
    ones = windows(np.ones(x.real.shape), *args, 0.0).sum(last)
    count = float(np.prod(pool_size)) if count_include_pad else ones
    value = windows(x.real, *args, 0.0).sum(last) / count
    size = windows(np.abs(x.real), *args, 0.0).sum(last) / count
    bound = windows(x.bound, *args, 0.0).sum(last) / count
    bound = bound + 4 * np.sqrt(np.prod(pool_size)) * ULP[x.dtype] * size
    return rounded(value, np.where(np.isnan(bound), WILD, bound), x.dtype, 2)


def _global_pool(noise: Noise, x: Number, output_size: Sequence[int]) -> Number:
    how = Arithmetic(noise.computing(x.dtype), noise)
    return cast(how.mean(x, tuple(range(2, x.value.ndim))), x.dtype)


MEANINGS: dict[str, Callable] = {
    "matmul": _matmul,
    "linear": _linear,
    "outer": lambda noise, x, y: contracted(noise, np.outer, x, y, 1, x.dtype),
    "einsum": _einsum,
    "nn.attention": attention,
    "nn.conv1d": _convolution,
    "nn.conv2d": _convolution,
    "nn.max_pool1d": _max_pool,
    "nn.max_pool2d": _max_pool,
    "nn.avg_pool1d": _average_pool,
    "nn.avg_pool2d": _average_pool,
    "nn.adaptive_avg_pool1d": _global_pool,
    "nn.adaptive_avg_pool2d": _global_pool,
}


def _product(w: Writer) -> None:
    x = w.pick(floating=True, least_rank=2)
    columns = w.shape(x)[-1]
    if not filled(w, x, [w.rank(x) - 1]) or any(columns.size(s) > 520 for s in w.bindings):
        raise Skip
    # So that sums of products stay as large as what they are of.
    scaled = w.call("multiply", x, w.number(0.125, x))
    width = w.one_of((Extent.of(int(w.one_of((1, 3, 8, 16, 33, 64)))), columns))
    way = str(w.one_of(("weights", "weights", "linear", "own", "einsum", "batch")))
    dtype = w.dtype(x)
    if way == "weights":
        w.call("matmul", scaled, w.input((columns, width), dtype))
    elif way == "linear":
        weight, bias = w.input((width, columns), dtype), w.input((width,), dtype)
        w.call("linear", scaled, weight, bias)
    elif way == "own":
        axes = [*range(w.rank(x) - 2), w.rank(x) - 1, w.rank(x) - 2]
        w.call("matmul", scaled, w.call("permute_dims", x, axes=axes))
    elif way == "einsum":
        letters = "abcd"[: w.rank(x) - 1]
        other = w.input((columns, width), dtype)
        w.call("einsum", [scaled, other], subscripts=f"{letters}k,kn->{letters}n")
    else:
        shape = (*w.shape(x)[:-2], columns, width)
        w.call("matmul", scaled, w.input(shape, dtype))


def _outer(w: Writer) -> None:
    x, y = w.pick(floating=True, ranks=(1,)), w.pick(floating=True, ranks=(1,))
    if w.dtype(x) != w.dtype(y):
        raise Skip
    w.call("outer", x, y)


def _attention(w: Writer) -> None:
    dtype = str(w.one_of(("float32", "float16")))
    if dtype not in w.dtypes:
        raise Skip
    batch, length, heads, depth = (
        Extent.of(int(w.one_of(options))) for options in ((1, 2), (1, 7, 16), (1, 3), (4, 16, 32))
    )
    query, key, value = (w.input((batch, length, heads, depth), dtype) for _ in range(3))
    w.call("nn.attention", query, key, value)


def _convolve(w: Writer) -> None:
    x = w.pick(floating=True, ranks=(3, 4))
    spatial = w.rank(x) - 2
    channels = w.shape(x)[1]
    if channels.constant is None or channels.constant > 32 or not filled(w, x, range(w.rank(x))):
        raise Skip
    size = int(w.one_of((1, 3)))
    pad = int(w.rng.integers(0, 2))
    if any(e.constant is None or e.constant + 2 * pad < size for e in w.shape(x)[2:]):
        raise Skip
    scaled = w.call("multiply", x, w.number(0.25, x))
    depthwise = w.chance(0.3)
    out = channels if depthwise else Extent.of(int(w.one_of((1, 4, 7))))
    weight = w.input(
        (out, Extent.of(1) if depthwise else channels, *[Extent.of(size)] * spatial), w.dtype(x)
    )
    w.call(
        f"nn.conv{spatial}d", scaled, weight, strides=[int(w.one_of((1, 1, 2)))] * spatial,
        padding=[pad] * spatial, groups=int(channels.constant) if depthwise else 1,
    )  # fmt: skip


def _pool(w: Writer) -> None:
    x = w.pick(floating=True, ranks=(3, 4))
    spatial = w.rank(x) - 2
    if not filled(w, x, range(w.rank(x))):
        raise Skip
    if w.chance(0.3):
        w.call(f"nn.adaptive_avg_pool{spatial}d", x, output_size=[1] * spatial)
        return
    size, pad = int(w.one_of((2, 3))), int(w.rng.integers(0, 2))
    if any(e.constant is None or e.constant + 2 * pad < size for e in w.shape(x)[2:]):
        raise Skip
    kind = str(w.one_of(("max", "avg")))
    attrs: dict[str, Any] = {
        "pool_size": [size] * spatial,
        "strides": [int(w.one_of((1, 2)))] * spatial,
        "padding": [pad] * spatial,
    }
    if kind == "avg":
        attrs["count_include_pad"] = w.chance(0.5)
    w.call(f"nn.{kind}_pool{spatial}d", x, **attrs)


RULES = [(_product, 2.5), (_outer, 0.4), (_attention, 0.4), (_convolve, 1), (_pool, 1)]
