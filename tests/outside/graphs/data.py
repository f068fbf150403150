"""What the inputs hold: the same for the same graph, binding and NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.outside.graphs.graph import Input, numpy_dtype
from tests.outside.graphs.number import FLOATS

TAME = ("normal", "uniform", "positive", "ties", "zeros")
EXTREME = ("masked", "nan", "denormal", "large", "infinite")
_DENORMAL = {"float64": 1e-310, "float32": 1e-39, "float16": 1e-6, "bfloat16": 1e-39}


def array(given: Input, place: int, sizes: Mapping[str, int], seed: int) -> np.ndarray:
    """The values of an input: floating ones in float64, exactly as the dtype holds them."""
    shape = tuple(extent.size(sizes) for extent in given.shape)
    if given.data.literal is not None:
        return held(np.asarray(given.data.literal).reshape(shape), given.dtype)
    random = np.random.default_rng([seed, place])
    if given.dtype in FLOATS:
        return held(_floating(given, shape, random) * given.data.scale, given.dtype)
    if given.dtype == "bool":
        return random.random(shape) < 0.5
    if given.data.limit is not None:
        return random.integers(0, max(given.data.limit.size(sizes), 1), shape).astype(given.dtype)
    low = 0 if given.dtype.startswith("u") else -5
    if given.data.kind == "positive":
        low = 1
    return random.integers(low, 6, shape).astype(given.dtype)


def held(values: np.ndarray, dtype: str) -> np.ndarray:
    """The values as the dtype holds them; floating ones in float64."""
    with np.errstate(all="ignore"):
        stored = values.astype(numpy_dtype(dtype))
    return stored.astype("float64") if dtype in FLOATS else stored


def _floating(given: Input, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    kind = given.data.kind
    values: Any = random.standard_normal(shape)
    if kind == "uniform":
        values = random.uniform(-1, 1, shape)
    elif kind == "positive":
        values = random.uniform(0.5, 2, shape)
    elif kind == "ties":
        values = random.integers(-2, 3, shape).astype("float64")
    elif kind == "zeros":
        values = np.zeros(shape)
    elif kind == "masked":
        values = np.where(random.random(shape) < 0.3, -np.inf, 0.0)
    elif kind == "nan":
        values = np.where(random.random(shape) < 0.02, np.nan, values)
    elif kind == "infinite":
        values = np.where(random.random(shape) < 0.05, np.inf * np.sign(values), values)
    elif kind == "denormal":
        values = values * _DENORMAL[given.dtype]
    elif kind == "large":
        values = values * 1e4
    return values
