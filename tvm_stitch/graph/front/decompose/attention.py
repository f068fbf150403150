"""Attention as two matrix products around a softmax, which computes in float32.

TVM's own has its scores and its softmax in the dtype of the data, and runs no product of it on
tensor cores. A bias may hide all keys of a query, whose result is 0 then, as PyTorch has it.
"""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import Any

from tvm import te, tirx
from tvm.ir import Call, Expr
from tvm.relax import op

from tvm_stitch.graph.front.decompose import product, softmax
from tvm_stitch.graph.front.decompose.stages import ACCUMULATORS, Stages, dtype_of, shape_of

_MASKS = (None, "TopLeft", "BottomRight")


def attention(call: Call, stage: Stages) -> Expr | None:
    """softmax(query . keys * scale + bias) . values, over (batch, length, heads, depth)."""
    attributes, dtype = call.attrs, dtype_of(call)
    scale = _scale(call)
    if scale is None or attributes.window_size is not None or attributes.causal_mask not in _MASKS:
        return None
    query, keys, values = (
        stage(op.permute_dims, operand, axes=axes)
        for operand, axes in zip(
            call.args[:3], ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True
        )
    )
    wide = ACCUMULATORS[str(dtype)]
    scores = _product(query, keys, wide, stage)
    scores = stage(op.multiply, scores, scale)
    is_biased = len(call.args) > 3
    if is_biased:
        scores = stage(op.add, scores, stage.widen(call.args[3]))
    if attributes.causal_mask is not None:
        scores = stage.compute(_masked(attributes.causal_mask), scores, name="causal_mask")
    family = softmax.safe_softmax if is_biased else softmax.softmax
    weights = stage.written(family, op.nn.softmax(scores))
    # Rounded before it is turned: products end with a cast, and read what is turned in place.
    found = _product(stage.cast(weights, dtype), values, dtype, stage)
    return stage.last(op.permute_dims, found, axes=[0, 2, 1, 3])


def _scale(call: Call) -> float | None:
    """What the scores are multiplied by; None where the depth is not known."""
    if call.attrs.scale is not None:
        return float(call.attrs.scale)
    depth = shape_of(call.args[0])[-1]
    return 1 / sqrt(int(depth)) if isinstance(depth, tirx.IntImm) and int(depth) else None


def _product(left: Expr, right: Expr, dtype: str | None, stage: Stages) -> Expr:
    return stage.written(product.product, op.matmul(left, right, out_dtype=dtype))


def _masked(mask: str) -> Callable[[te.Tensor], te.Tensor]:
    """Scores of keys that come later are as good as none."""

    def causal(scores: te.Tensor) -> te.Tensor:
        rows, keys = scores.shape[-2:]
        # As TVM has it also where there are more queries than keys.
        offset = 0 if mask == "TopLeft" else tirx.abs(rows - keys)
        none = tirx.const(float("-inf"), scores.dtype)

        def element(*place: Any) -> Expr:
            *_, row, key = place
            return tirx.Select(key <= row + offset, scores(*place), none)

        return te.compute(scores.shape, element, name="causal_mask")

    return causal
