"""Constants of bfloat16, whose arithmetic TVM computes for every other type.

In: a number, or a TIR body. Out: an expression that TVM's CUDA code generator prints, and the body
with arithmetic of two constants computed.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
from tvm import tirx

from tvm_stitch.stages.stage import Expr, dtype_of
from tvm_stitch.stages.visit import mapped, walked

_ARITHMETIC = (
    (tirx.Add, operator.add),
    (tirx.Sub, operator.sub),
    (tirx.Mul, operator.mul),
    (tirx.Div, operator.truediv),
    (tirx.Max, max),
    (tirx.Min, min),
)


def is_bfloat16(node: Expr) -> bool:
    """Whether it is a constant of that type."""
    return isinstance(node, tirx.FloatImm) and dtype_of(node) == "bfloat16"


def by_bits(number: tirx.FloatImm) -> Expr:
    """The same constant; one that is not finite, which TVM does not print, by its bits."""
    if not is_bfloat16(number) or math.isfinite(number.value):
        return number
    bits = int(np.array(number.value, ml_dtypes.bfloat16).view("uint16"))
    return tirx.reinterpret("bfloat16", tirx.const(bits, "uint16"))


def folded(body: tirx.Stmt) -> tirx.Stmt:
    """The body with arithmetic of constants computed, as rounded as a GPU rounds it.

    TVM's CommonSubexprElim has the host compute what all variants of a kernel compute of constants,
    and then TVM fails to pass the kernels a bfloat16.
    """
    found: list[bool] = []
    walked(body, (tirx.FloatImm, lambda number: found.append(is_bfloat16(number))))
    if not any(found):
        return body
    return mapped(body, *((kind, functools.partial(_computed, by)) for kind, by in _ARITHMETIC))


def _computed(by: Callable[[Any, Any], Any], node: Expr) -> Expr:
    if not (is_bfloat16(node.a) and is_bfloat16(node.b)):
        return node
    with np.errstate(all="ignore"):
        value = by(*(ml_dtypes.bfloat16(each.value) for each in (node.a, node.b)))
    return by_bits(tirx.FloatImm("bfloat16", float(value)))
