"""Which sum squares are centred by, as those of a variance are: sum((x - sum(x) / n) ** 2).

In: a Stage and who computes what. Out: the Stage of the sum, and the loads of x and of the sum.
Must not know what is made of it.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass

import tvm_ffi
from tvm import ir, tirx

from tvm_stitch.kernel.ir.inlining import inlined
from tvm_stitch.stages.alike import reduces_alike, same_load
from tvm_stitch.stages.stage import (
    Expr,
    Stage,
    as_int64,
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
    square = followed(stage, stage.value, producer)
    if not isinstance(square, tirx.Mul) or not tvm_ffi.structural_equal(square.a, square.b):
        return None
    centred = followed(stage, square.a, producer)
    if not isinstance(centred, tirx.Sub):
        return None
    mean = followed(stage, centred.b, producer)
    first = _divided(stage, mean, producer)
    if first is None or not isinstance(centred.a, ir.TensorLoad):
        return None
    axes = reduces_alike(stage, first)
    if axes is None or not same_load(stage, substitute(first.value, axes), centred.a):
        return None
    return Centre(first, centred.a, mean.a)


def followed(stage: Stage, value: Expr, producer: MappingOf[int, Stage]) -> Expr:
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
    if not isinstance(mean, tirx.Div | tirx.Mul) or not isinstance(mean.a, ir.TensorLoad):
        return None
    if not _is_by_size(stage, mean):
        return None
    first = producer.get(handle(mean.a.source))
    if first is None or first.combiner != "sum" or dtype_of(first.output) != DTYPE:
        return None
    at = flatten(tuple(mean.a.indices), first.extents)
    own = flatten(stage.axes, stage.extents)
    return first if bind_axes(stage).can_prove_equal(at, own) else None


def _is_by_size(stage: Stage, mean: Expr) -> bool:
    """Whether a quotient, or a product, is by as many values as a stage reduces."""
    size = constant(stage.reduced_size)
    if size is None:
        symbolic = isinstance(mean, tirx.Div) and isinstance(mean.b, tirx.Cast)
        return symbolic and same_size(as_int64(mean.b.value), stage.reduced_size)
    if not isinstance(mean.b, tirx.FloatImm):
        return False
    count = mean.b.value if isinstance(mean, tirx.Div) else 1 / mean.b.value
    return bool(abs(count - size) <= 1e-6 * size)
