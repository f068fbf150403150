"""Which sum squares are centred by, as those of a variance are: sum((x - sum(x) / n) ** 2).

In: a Stage and who computes what. Out: the Stage of the sum, and the loads of x and of the sum.
Must not know what is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass

import tvm_ffi
from tvm import ir, tirx

from tvm_stitch.kernel.ir.program import inlined
from tvm_stitch.stages.stage import (
    Expr,
    Stage,
    Var,
    bind_axes,
    constant,
    dtype_of,
    find_reads,
    flatten,
    handle,
    same_size,
    substitute,
)

MAX_CHAIN = 6  # element-wise stages between a sum and the squares around its mean
DTYPE = "float32"

Axes = tuple[tuple[Var, ...], tuple[Expr, ...]]  # and their extents


@dataclass(frozen=True, eq=False)
class Centre:
    """What squares lie around."""

    total: Stage  # the sum whose mean it is
    value: ir.TensorLoad  # what is summed, as the squares' stage loads it
    load: ir.TensorLoad  # the sum, likewise


def centre_of(stage: Stage, producer: MappingOf[int, Stage]) -> Centre | None:
    """The sum of what a stage sums the squares of, around the mean."""
    if stage.combiner != "sum" or dtype_of(stage.output) != DTYPE:
        return None
    square = _followed(stage, stage.value, producer)
    if not isinstance(square, tirx.Mul) or not tvm_ffi.structural_equal(square.a, square.b):
        return None
    centred = _followed(stage, square.a, producer)
    if not isinstance(centred, tirx.Sub):
        return None
    mean = _followed(stage, centred.b, producer)
    first = _divided(stage, mean, producer)
    if first is None or not isinstance(centred.a, ir.TensorLoad):
        return None
    own = matched((first.axes, first.extents), (stage.axes, stage.extents))
    inside = matched((first.reduced, first.reduced_extents), (stage.reduced, stage.reduced_extents))
    if own is None or inside is None:
        return None
    value = substitute(first.value, own | inside)
    if not _same_load(stage, value, centred.a):
        return None
    return Centre(first, centred.a, mean.a)


def matched(one: Axes, other: Axes) -> dict[Var, Expr] | None:
    """Axes as others of the same lengths, whatever axes of one element there are besides."""
    wide, own = (
        [(axis, size) for axis, size in zip(*axes, strict=True) if constant(size) != 1]
        for axes in (one, other)
    )
    if len(wide) != len(own) or any(
        not same_size(a, b) for (_, a), (_, b) in zip(wide, own, strict=True)
    ):
        return None
    zero = dict.fromkeys(one[0], tirx.IntImm("int64", 0))
    return zero | {a: b for (a, _), (b, _) in zip(wide, own, strict=True)}


def _followed(stage: Stage, value: Expr, producer: MappingOf[int, Stage]) -> Expr:
    """A value written out as far as it is the load of what an element-wise stage computes."""
    for _ in range(MAX_CHAIN):
        source = producer.get(handle(value.source)) if isinstance(value, ir.TensorLoad) else None
        if source is None or source.is_reduction:
            break
        (read,) = (read for read in find_reads(value) if read.load.same_as(value))
        value = inlined(source, read, bind_axes(stage))
    return value


def _divided(stage: Stage, mean: Expr, producer: MappingOf[int, Stage]) -> Stage | None:
    """The sum that a mean is made of, if that is the mean of as many values as a stage reduces."""
    if not isinstance(mean, tirx.Div | tirx.Mul) or not isinstance(mean.b, tirx.FloatImm):
        return None
    count = mean.b.value if isinstance(mean, tirx.Div) else 1 / mean.b.value
    size = constant(stage.reduced_size) or 0
    if not isinstance(mean.a, ir.TensorLoad) or abs(count - size) > 1e-6 * size:
        return None
    first = producer.get(handle(mean.a.source))
    if first is None or first.combiner != "sum" or dtype_of(first.output) != DTYPE:
        return None
    at = flatten(tuple(mean.a.indices), first.extents)
    own = flatten(stage.axes, stage.extents)
    return first if bind_axes(stage).can_prove_equal(at, own) else None


def _same_load(stage: Stage, one: Expr, other: Expr) -> bool:
    if not isinstance(one, ir.TensorLoad) or not one.source.same_as(other.source):
        return False
    analyzer = bind_axes(stage)
    pairs = zip(one.indices, other.indices, strict=True)
    return all(analyzer.can_prove_equal(a, b) for a, b in pairs)
