"""Inputs for a kernel that is only timed and compared: any values that it can digest.

In: a fused PrimFunc's parameters. Out: NumPy arrays, the same for the same shapes. Floating values
are positive, so that roots and logarithms exist; integers that index something stay inside of it.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import tvm_ffi
from tvm import ir, tirx

from tvm_stitch.stages.stage import buffer_shape, constant, dtype_of

# Random numbers are drawn once and repeated: a timing does not depend on them.
DRAWN = (1 << 20) - 3
FEW = 8  # of different integers that index nothing
SEED = 1


def numpy_dtype(dtype: str) -> np.dtype[Any]:
    """NumPy's dtype of a TVM one."""
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


def shape_of(buffer: Any) -> tuple[int, ...]:
    """A constant shape."""
    return tuple(constant(extent) or 0 for extent in buffer_shape(buffer))


def make_array(function: tirx.PrimFunc, buffer: Any) -> np.ndarray:
    """Values for one input of a function."""
    return np.resize(drawn(function, buffer), shape_of(buffer))


def drawn(function: tirx.PrimFunc, buffer: Any) -> np.ndarray:
    """Its first values, which are repeated to its end."""
    dtype = dtype_of(buffer)
    count = min(int(np.prod(shape_of(buffer), dtype="int64")), DRAWN)
    rng = np.random.default_rng(SEED)
    if dtype == "bool":
        values = rng.integers(0, 2, count).astype("bool")
    elif "int" in dtype:
        values = rng.integers(0, _limit(function, buffer), count)
    else:
        values = rng.uniform(0.1, 1.1, count)
    return values.astype(numpy_dtype(dtype))


def _limit(function: tirx.PrimFunc, buffer: Any) -> int:
    """Integers below this index nothing outside of its buffer."""
    limits = [FEW]

    def visit(load: Any) -> None:
        extents = buffer_shape(load.source)
        for index, extent in zip(load.indices, extents, strict=True):
            if _reads(index, buffer):
                limits.append(constant(extent) or 1)

    tvm_ffi.structural_walk(function.body, (ir.TensorLoad, visit))
    return limits[0] if len(limits) == 1 else min(limits[1:])


def _reads(index: Any, buffer: Any) -> bool:
    found: list[bool] = []

    def visit(load: Any) -> None:
        found.append(bool(load.source == buffer))

    tvm_ffi.structural_walk(index, (ir.TensorLoad, visit))
    return any(found)


def difference(got: np.ndarray, want: np.ndarray, scale: float) -> float:
    """The largest difference of two arrays of float64, over their scale; infinite if a value is
    not a number in one of them only."""
    with np.errstate(invalid="ignore"):
        apart = np.abs(got - want)
    agree = (got == want) | (np.isnan(got) & np.isnan(want))
    apart[agree] = 0.0
    apart[np.isnan(apart)] = np.inf
    return float(apart.max(initial=0.0)) / scale


# Two orders of summation differ by roundings; a wrong schedule differs by whole values.
TOLERANCE = {"float64": 1e-9, "float32": 1e-3, "float16": 2e-2, "bfloat16": 1e-1}
# An output that cancels to nothing is judged by the scale of the others.
LEAST_SCALE = 1e-3


def disagreement(got: list[np.ndarray], want: list[np.ndarray], dtypes: list[str]) -> str:
    """Which output differs from the default schedule's by more than rounding; empty if none."""
    wide = [(g.astype("float64"), w.astype("float64")) for g, w in zip(got, want, strict=True)]
    magnitudes = [float(np.abs(w[np.isfinite(w)]).max(initial=0.0)) for _, w in wide]
    least = LEAST_SCALE * max(magnitudes, default=0.0)
    for number, ((g, w), dtype, magnitude) in enumerate(zip(wide, dtypes, magnitudes, strict=True)):
        found = difference(g, w, max(magnitude, least) or 1.0)
        if found > TOLERANCE.get(dtype, 0.0):
            return f"output {number} differs from the default schedule's by {found:.1e}"
    return ""
