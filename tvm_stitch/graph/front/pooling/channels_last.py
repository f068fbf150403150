"""Pooling with channels last: small windows written out, whose channels are loaded as vectors.

In: a call of one of Relax's poolings. Out: its TIR, for LegalizeOps, of element-wise stages: as a
reduction a thread would have a channel of its own, and load it alone. Means of 2 x 2 of 32 x 112 x
112 x 128 float16 behind a SiLU take 40.2 us on an H200 so, by vectors of four or eight channels 33
to 35.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import prod
from operator import add
from typing import Any

from tvm import relax, te, tirx
from tvm.ir import Call

from tvm_stitch.graph.front.dataflow import name_of
from tvm_stitch.graph.front.decompose.stages import ACCUMULATORS, dtype_of, has_shape, shape_of
from tvm_stitch.graph.front.pooling.windows import Windows

Expr = Any
POOLINGS = tuple(f"nn.{kind}_pool{rank}d" for kind in ("avg", "max") for rank in (1, 2, 3))
_FLOATS = ("float32", "float16", "bfloat16")
MOST_ELEMENTS = 4
"""Of a window: what is computed of more places is no longer joined with what reads it."""


def legalize_pooling(builder: relax.BlockBuilder, call: Call) -> Expr:
    """Small windows side by side with channels last; what TVM makes of it elsewhere."""
    pooling = _pooling_of(call)
    if pooling is None:
        return call.op.get_attr("FLegalize")(builder, call)
    hint = name_of(call).rpartition(".")[2]
    return builder.call_te(pooling.pooled, call.args[0], primfunc_name_hint=hint)


@dataclass(frozen=True, eq=False)
class _Pooling:
    """The windows along the axes between the batch and the channels; none overlaps another."""

    sides: tuple[Windows, ...]
    is_mean: bool
    shape: tuple[Expr, ...]

    def pooled(self, image: te.Tensor) -> te.Tensor:
        """Means, or the largest, of all windows."""
        dtype = str(image.dtype)
        wide = ACCUMULATORS.get(dtype, dtype) if self.is_mean else dtype
        steps = [*product(*(range(side.size) for side in self.sides))]

        def element(first: Expr, *rest: Expr) -> Expr:
            *windows, channel = rest
            places = ([*map(Windows.element, self.sides, windows, each)] for each in steps)
            values = (image(first, *place, channel).astype(wide) for place in places)
            return reduce(add if self.is_mean else tirx.max, values)

        def mean(*at: Expr) -> Expr:
            return (total(*at) / tirx.const(len(steps), wide)).astype(dtype)

        total = te.compute(self.shape, element, name="pool_sum" if self.is_mean else "pool_max")
        return te.compute(self.shape, mean, name="pool_avg") if self.is_mean else total


def _pooling_of(call: Call) -> _Pooling | None:
    """A pooling that is written out; None for any other."""
    attributes, image = call.attrs, call.args[0]
    layout = str(attributes.layout)
    if not layout.startswith("N") or not layout.endswith("C") or attributes.out_layout != layout:
        return None
    if attributes.ceil_mode or not has_shape(image) or dtype_of(image) not in _FLOATS:
        return None
    size, stride, dilation = (
        [*map(int, each)]
        for each in (attributes.pool_size, attributes.strides, attributes.dilation)
    )
    padding = [*map(int, attributes.padding)]
    sides = tuple(map(Windows, size, stride, padding, dilation))
    if any(padding) or not all(side.are_side_by_side for side in sides):
        return None
    if prod(size) > MOST_ELEMENTS:
        return None
    return _Pooling(sides, name_of(call).startswith("nn.avg"), tuple(shape_of(call)))
