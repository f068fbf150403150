"""Extremes as PyTorch has them: what is not a number is larger, and smaller, than all else.

In: two elements. Out: the one that is left. TVM's own, like CUDA's, drop what is not a number.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tvm
import tvm_ffi
from tvm import te, tirx

HALVES = ("float16", "bfloat16")


def is_nan(a: Any) -> Any:
    """Whether an element is not a number, of any floating type."""
    return tirx.isnan(a.astype("float32") if str(a.ty.dtype) in HALVES else a)


def larger(a: Any, b: Any) -> Any:
    """The larger element, or the one that is not a number."""
    return tirx.Select(tirx.any(a >= b, is_nan(a)), a, b)


def smaller(a: Any, b: Any) -> Any:
    """The smaller element, or the one that is not a number."""
    return tirx.Select(tirx.any(a <= b, is_nan(a)), a, b)


EXTREMES: dict[str, Callable[[Any, Any], Any]] = {"largest": larger, "smallest": smaller}
"""Combiners by name."""


def nothing(name: str, dtype: str) -> Any:
    """What changes no extreme of that name."""
    if "float" in dtype:
        return tirx.const(-float("inf") if name == "largest" else float("inf"), dtype)
    return tirx.min_value(dtype) if name == "largest" else tirx.max_value(dtype)


def reducer(name: str) -> Callable[..., Any]:
    """The extreme of that name over axes, of floats; where there is none, what changes none."""
    found: Callable[..., Any] = te.comm_reducer(EXTREMES[name], partial(nothing, name), name)
    return found


def extreme_of(combined: tvm.ir.Expr) -> str:
    """The name of the extreme that a selected element is; empty if it is none."""
    if not isinstance(combined, tirx.Select):
        return ""
    left, right = combined.true_value, combined.false_value
    if str(left.ty.dtype) != str(right.ty.dtype) or "float" not in str(left.ty.dtype):
        return ""
    return next(
        (
            name
            for name, combine in EXTREMES.items()
            if tvm_ffi.structural_equal(combined, combine(left, right))
        ),
        "",
    )
