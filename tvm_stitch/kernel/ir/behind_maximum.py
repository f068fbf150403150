"""Sums of exponentials that are measured against the maximum of the same values.

In: a reduction, and who computes what. Out: the maximum, if the sum can be found together with it.
Must not know threads: how the sum grows with the maximum is the emitters' to say.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial

from tvm import ir, tirx

from tvm_stitch.stages.alike import reduces_alike, same_load
from tvm_stitch.stages.memoized import memoized, remembered
from tvm_stitch.stages.stage import (
    Expr,
    Stage,
    bind_axes,
    dtype_of,
    flatten,
    handle,
    substitute,
)

DTYPE = "float32"  # of the maximum and the sum: halves were widened before


def maximum_behind(stage: Stage, producer: Mapping[int, Stage]) -> Stage | None:
    """The maximum that a sum of exponentials, perhaps with a factor each, is measured against.

    It is never less than some finite number: infinities have no difference.
    """
    if stage.combiner != "sum" or dtype_of(stage.output) != DTYPE:
        return None
    loads = _loads_of(stage)
    maximum = producer.get(handle(loads[1].source)) if loads is not None else None
    if loads is None or maximum is None or not is_bounded_maximum(maximum):
        return None
    key = "behind a maximum", maximum  # itself: the last stage of partials writes the same buffer
    fits = remembered(stage, key, partial(is_measured_against, stage, maximum, *loads))
    return maximum if fits else None


def is_bounded_maximum(stage: Stage) -> bool:
    """Whether a stage is a maximum that is finite of no values at all."""
    return (
        stage.combiner == "max"
        and dtype_of(stage.output) == DTYPE
        and math.isfinite(stage.identity.value)
    )


def exponent(value: Expr) -> tuple[ir.TensorLoad, ir.TensorLoad] | None:
    """The loads x and m of exp(x - m)."""
    if getattr(getattr(value, "op", None), "name", "") != "tirx.exp":
        return None
    inner = value.args[0]
    if not isinstance(inner, tirx.Sub):
        return None
    both = isinstance(inner.a, ir.TensorLoad) and isinstance(inner.b, ir.TensorLoad)
    return (inner.a, inner.b) if both else None


@memoized
def _loads_of(stage: Stage) -> tuple[ir.TensorLoad, ir.TensorLoad] | None:
    value = stage.value
    return exponent(value.b if isinstance(value, tirx.Mul) else value)


def is_measured_against(
    stage: Stage, maximum: Stage, value: ir.TensorLoad, largest: ir.TensorLoad
) -> bool:
    """Whether a maximum of the same places is loaded at its own, beside what it is of."""
    axes = reduces_alike(stage, maximum)
    if axes is None or stage.row_segments != maximum.row_segments:
        return False
    at = flatten(tuple(largest.indices), maximum.extents)
    own = substitute(flatten(maximum.axes, maximum.extents), axes)
    if not bind_axes(stage).can_prove_equal(at, own):
        return False
    return same_load(stage, substitute(maximum.value, axes), value)
