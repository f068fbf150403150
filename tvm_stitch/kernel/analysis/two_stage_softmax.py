"""A maximum and the sum of exponentials that are measured against it, in one pass.

In: Stages in order and their reductions in two stages (kernel/cooperative/split_reduction).
Out: for a maximum that falls into partials, and a sum of exp(x - maximum of x) that does too,
stages that find both from the same partials. Must not know threads, nor rounds.

A partial's exponentials are measured against its own maximum, and sum up to s. When the maximum of
all is known, each s is as much smaller as its partial's maximum is exceeded.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import replace
from functools import partial

from tvm import ir, tirx

from tvm_stitch.kernel.analysis.two_stage_variance import TwoStage, partials_alike
from tvm_stitch.kernel.analysis.variance_pattern import followed
from tvm_stitch.kernel.ir.behind_maximum import DTYPE, is_bounded_maximum, is_measured_against
from tvm_stitch.stages.alike import matched
from tvm_stitch.stages.memoized import remembered
from tvm_stitch.stages.stage import Expr, Stage, dtype_of, handle, substitute


def behind_maxima(
    stages: tuple[Stage, ...], two_stage: MappingOf[int, TwoStage]
) -> dict[int, list[Stage]]:
    """By the handle of what they wrote: what stands instead of a maximum, and of such a sum."""
    producer = {handle(stage.output): stage for stage in stages}
    found: dict[int, list[Stage]] = {}
    for stage in stages:
        key = handle(stage.output)
        maximum = _maximum_of(stage, producer) if key in two_stage else None
        other = handle(maximum.output) if maximum is not None else 0
        if other in found or other not in two_stage:
            continue
        splits = two_stage[other], two_stage[key]
        asked = ("behind a maximum in partials", *splits)
        pair = remembered(stage, asked, partial(_behind_if_alike, *splits))
        if pair is not None:
            found |= {other: pair, key: []}
    return found


def _maximum_of(stage: Stage, producer: MappingOf[int, Stage]) -> Stage | None:
    """The maximum of the values that a stage sums the exponentials of, measured against it."""
    if stage.combiner != "sum" or dtype_of(stage.output) != DTYPE:
        return None
    value = followed(stage, stage.value, producer)
    if getattr(getattr(value, "op", None), "name", "") != "tirx.exp":
        return None
    inner = followed(stage, value.args[0], producer)
    if not isinstance(inner, tirx.Sub) or not isinstance(inner.a, ir.TensorLoad):
        return None
    largest = inner.b
    maximum = producer.get(handle(largest.source)) if isinstance(largest, ir.TensorLoad) else None
    if maximum is None or not is_bounded_maximum(maximum):
        return None
    return maximum if is_measured_against(stage, maximum, inner.a, largest) else None


def _behind_if_alike(maxima: TwoStage, sums: TwoStage) -> list[Stage] | None:
    return _behind(maxima, sums) if partials_alike(maxima, sums) else None


def _behind(maxima: TwoStage, sums: TwoStage) -> list[Stage]:
    """The stages that find a maximum and the sum behind it."""
    m, maximum, final = maxima.partials, maxima.final, sums.final
    s = replace(
        sums.partials,
        axes=m.axes,
        reduced=m.reduced,
        value=tirx.exp(m.value - m.output[m.axes]),
    )
    summed = final.value
    at = matched((maximum.axes, maximum.extents), (final.axes, final.extents))
    assert isinstance(summed, ir.TensorLoad) and at is not None, "both reduce the same partials"
    largest: Expr = substitute(maximum.output[maximum.axes], at)
    lowered = tirx.exp(m.output[tuple(summed.indices)] - largest)
    return [m, s, maximum, replace(final, value=summed * lowered)]
