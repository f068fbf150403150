"""Shares of images that differ in size, as of 7 elements for 3, reduced by as many steps each.

In: a call of relax.nn.adaptive_avg_pool, or an image. Out: a call of its TIR, for LegalizeOps, that
goes through as many elements as the largest share has, of which a smaller one counts its own. TVM
writes loops whose lengths are computed on the way, which are no plain reduction. Knows no kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import relax, te, tirx
from tvm.ir import Call

from tvm_stitch.graph.front.decompose.stages import ACCUMULATORS, has_shape, shape_of
from tvm_stitch.graph.front.pooling.windows import share_of
from tvm_stitch.stages.stage import constant

Expr = Any


def legalize_adaptive_avg_pool(builder: relax.BlockBuilder, call: Call) -> Expr:
    """Means of shares of known sizes, if these differ; what TVM makes of it elsewhere."""
    usual = call.op.get_attr("FLegalize")
    image, layout = call.args[0], str(call.attrs.layout)
    spatial = "DHW"[-len(layout) + 2 :]
    if sorted(layout) != sorted(f"NC{spatial}") or not has_shape(image):
        return usual(builder, call)
    axes = [layout.index(each) for each in spatial]
    given = [constant(shape_of(image)[axis]) for axis in axes]
    made = [constant(shape_of(call)[axis]) or 0 for axis in axes]
    if str(image.ty.dtype.dtype) not in ACCUMULATORS or not are_uneven(given, made):
        return usual(builder, call)

    def shares(image: te.Tensor) -> te.Tensor:
        return reduced_shares(image, axes, made, "avg")

    return builder.call_te(shares, image, primfunc_name_hint=call.op.name.rpartition(".")[2])


def are_uneven(given: Sequence[int | None], made: Sequence[int]) -> bool:
    """Whether shares of sides differ in size; not where only run time knows how long these are."""
    known = [each for each in given if each]
    if len(known) < len(given) or 0 in made:
        return False
    return any(whole % parts for whole, parts in zip(known, made, strict=True))


@dataclass(frozen=True)
class _Shares:
    """Equal parts of an axis, which overlap where it does not divide."""

    whole: int
    parts: int

    def span(self, number: Any) -> tuple[Any, Any]:
        """Where one begins, and how long it is."""
        first, end = share_of(number, self.parts, self.whole)
        return first, end - first

    @property
    def longest(self) -> int:
        """Elements of the largest one."""
        return max(self.span(number)[1] for number in range(self.parts))


def reduced_shares(
    image: te.Tensor, axes: Sequence[int], made: Sequence[int], kind: str
) -> te.Tensor:
    """The means ("avg") or the largest ("max") of so many shares along some axes, all known."""
    dtype, is_mean = str(image.dtype), kind == "avg"
    wide = ACCUMULATORS.get(dtype, dtype) if is_mean else dtype
    sides = [_Shares(int(image.shape[axis]), n) for axis, n in zip(axes, made, strict=True)]
    steps = [te.reduce_axis((0, side.longest), "step") for side in sides]
    nothing = tirx.const(0, wide) if is_mean else te.min_value(wide)
    shape = [*image.shape]
    for axis, parts in zip(axes, made, strict=True):
        shape[axis] = tirx.IntImm("int64", parts)

    def spans(at: Sequence[Expr]) -> list[tuple[Expr, Expr]]:
        return [side.span(at[axis]) for side, axis in zip(sides, axes, strict=True)]

    def combined(*at: Expr) -> Expr:
        place, inside = [*at], []
        for axis, (first, length), step in zip(axes, spans(at), steps, strict=True):
            place[axis] = first + step.var
            inside.append(step.var < length)
        value = tirx.if_then_else(tirx.all(*inside), image(*place).astype(wide), nothing)
        return (te.sum if is_mean else te.max)(value, axis=steps)

    total = te.compute(shape, combined, name="share")

    def result(*at: Expr) -> Expr:
        if not is_mean:
            return total(*at)
        count = prod((length for _, length in spans(at)), start=tirx.const(1, "int64"))
        return (total(*at) / count.astype(wide)).astype(dtype)

    return te.compute(shape, result, name="pooled")
