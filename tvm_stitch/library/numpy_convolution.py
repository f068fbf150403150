"""The library's convolutions by NumPy, for modules that run where there is no GPU.

In: a Convolution and arrays. Out: its result, summed in float64. Slow and plain: what the CPU
executor calls in the library's place, and what tests compare with.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from tvm_stitch.library.convolution import DATA, FORWARD, Convolution


def convolved(
    convolution: Convolution, tensors: Sequence[np.ndarray], extents: Sequence[int]
) -> np.ndarray:
    """The result of these extents, of a call's tensors; in the call's own layout, in float64."""
    first, second, *more = tensors
    a, b = (_channels_first(np.asarray(x, "float64"), convolution) for x in (first, second))
    shape = _extents_channels_first(extents, convolution)
    result = np.zeros(shape)
    if convolution.what == FORWARD:
        _forward(convolution, a, b, result)
    elif convolution.what == DATA:
        _data(convolution, a, b, result)
    else:
        _weight(convolution, a, b, result)
    if convolution.bias:
        bias = np.asarray(more.pop(0), "float64").reshape(-1, *[1] * len(convolution.strides))
        result += bias
    if convolution.residual:
        result += _channels_first(np.asarray(more.pop(0), "float64"), convolution)
    if convolution.relu:
        result = np.maximum(result, 0)
    return np.moveaxis(result, 1, -1) if convolution.channels_last else result


def _channels_first(array: np.ndarray, convolution: Convolution) -> np.ndarray:
    return np.moveaxis(array, -1, 1) if convolution.channels_last else array


def _extents_channels_first(extents: Sequence[int], convolution: Convolution) -> tuple[int, ...]:
    if not convolution.channels_last:
        return tuple(extents)
    batch, *spatial, channels = extents
    return batch, channels, *spatial


Indices = Any  # of NumPy, whose types say less than it takes


def _groups(
    convolution: Convolution, data: np.ndarray, weight: np.ndarray, result: np.ndarray
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Views of the channels that belong together."""
    along = ((data, 1), (weight, 0), (result, 1))
    return zip(*(np.split(each, convolution.groups, axis) for each, axis in along), strict=True)


def _taps(
    convolution: Convolution, window: Sequence[int], results: Sequence[int]
) -> Iterator[tuple[Indices, Indices]]:
    """For each place of the window: its weights, and what all results read there of padded data."""
    every = slice(None)
    for tap in product(*map(range, window)):
        places = zip(tap, convolution.dilation, convolution.strides, results, strict=True)
        where = [
            slice(at * apart, at * apart + (count - 1) * step + 1, step)
            for at, apart, step, count in places
        ]
        yield (every, every, *tap), (every, every, *where)


def _padded(convolution: Convolution, data: np.ndarray) -> np.ndarray:
    around = zip(convolution.before, convolution.after, strict=True)
    return np.pad(data, [(0, 0), (0, 0), *around])


def _forward(
    convolution: Convolution, data: np.ndarray, weight: np.ndarray, result: np.ndarray
) -> None:
    padded = _padded(convolution, data)
    for tap, where in _taps(convolution, weight.shape[2:], result.shape[2:]):
        for own, weights, out in _groups(convolution, padded, weight, result):
            out += np.einsum("nc...,kc->nk...", own[where], weights[tap])


def _data(
    convolution: Convolution, gradient: np.ndarray, weight: np.ndarray, result: np.ndarray
) -> None:
    padded = _padded(convolution, result)
    for tap, where in _taps(convolution, weight.shape[2:], gradient.shape[2:]):
        for own, weights, out in _groups(convolution, padded, weight, gradient):
            own[where] += np.einsum("nk...,kc->nc...", out, weights[tap])
    inner = zip(convolution.before, result.shape[2:], strict=True)
    kept: Indices = (slice(None), slice(None), *(slice(pad, pad + n) for pad, n in inner))
    result += padded[kept]


def _weight(
    convolution: Convolution, data: np.ndarray, gradient: np.ndarray, result: np.ndarray
) -> None:
    padded = _padded(convolution, data)
    but_channels = [0, *range(2, data.ndim)]
    for tap, where in _taps(convolution, result.shape[2:], gradient.shape[2:]):
        for own, weights, out in _groups(convolution, padded, result, gradient):
            weights[tap] += np.tensordot(out, own[where], (but_channels, but_channels))
