"""The library's attention by NumPy, for modules that run where there is no GPU.

In: an Attention and arrays. Out: its result is written where it says, computed in float64. A row
that sees no key is 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tvm_stitch.library.attention import BOTTOM_RIGHT, NO_MASK, Attention, Place
from tvm_stitch.library.by_numpy import strided


def attend(attention: Attention, tensors: Sequence[np.ndarray], output: np.ndarray) -> None:
    """Write softmax(scale * query . keys + bias, masked) . values, each in its place."""
    a = attention
    query = _heads(tensors[0], a.query, (a.batch, a.heads, a.queries, a.depth))
    keys = _heads(tensors[1], a.key, (a.batch, a.key_heads, a.keys, a.depth))
    values = _heads(tensors[2], a.value, (a.batch, a.key_heads, a.keys, a.value_depth))
    keys, values = (_repeated(each, a.heads // a.key_heads) for each in (keys, values))
    with np.errstate(invalid="ignore"):
        found = _softmax(_scores(a, query, keys, tensors)) @ values
    shape = (a.batch, a.heads, a.queries, a.value_depth)
    written = strided(output, shape, _strides(a.output), a.output.start)
    written[...] = found.astype(output.dtype)


def _scores(
    a: Attention, query: np.ndarray, keys: np.ndarray, tensors: Sequence[np.ndarray]
) -> np.ndarray:
    scores = np.float32(a.scale) * (query @ keys.swapaxes(-1, -2))
    if a.bias is not None:
        steps = (a.bias.batch, a.bias.head, a.bias.query, a.bias.key)
        bias = strided(tensors[3], scores.shape, steps, a.bias.start)
        scores = scores + bias.astype("float64")
    if a.mask != NO_MASK:
        diagonal = a.keys - a.queries if a.mask == BOTTOM_RIGHT else 0
        scores = np.where(np.tri(a.queries, a.keys, diagonal, bool), scores, -np.inf)
    return scores


def _softmax(scores: np.ndarray) -> np.ndarray:
    most = scores.max(-1, keepdims=True)
    powers = np.exp(scores - np.where(most == -np.inf, 0, most))
    total = powers.sum(-1, keepdims=True)
    return powers / np.where(total == 0, 1, total)


def _heads(array: np.ndarray, place: Place, shape: tuple[int, ...]) -> np.ndarray:
    return strided(array, shape, _strides(place), place.start).astype("float64")


def _strides(place: Place) -> tuple[int, ...]:
    return place.batch, place.head, place.row, 1


def _repeated(array: np.ndarray, count: int) -> np.ndarray:
    return np.repeat(array, count, axis=1)
