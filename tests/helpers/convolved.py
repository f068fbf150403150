"""Convolutions in NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np


def convolved(
    x: np.ndarray,
    w: np.ndarray,
    strides: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
) -> np.ndarray:
    """Of images and weights with channels first, in float64, a tap at a time."""
    around = [(0, 0), (0, 0), *((each, each) for each in padding)]
    x = np.pad(x, around).astype(float)
    how = list(zip(x.shape[2:], w.shape[2:], strides, dilation, strict=True))
    counts = [(extent - apart * (size - 1) - 1) // step + 1 for extent, size, step, apart in how]
    images = x.reshape(len(x), groups, -1, *x.shape[2:])
    weights = w.reshape(groups, -1, *w.shape[1:])
    total = 0.0
    for taps in itertools.product(*map(range, w.shape[2:])):
        cut = [
            slice(tap * apart, tap * apart + step * (count - 1) + 1, step)
            for tap, count, (_, _, step, apart) in zip(taps, counts, how, strict=True)
        ]
        part = images[(..., *cut)].reshape(len(x), groups, images.shape[2], -1)
        total = total + np.einsum("ngis,goi->ngos", part, weights[(..., *taps)])
    return total.reshape(len(x), len(w), *counts)
