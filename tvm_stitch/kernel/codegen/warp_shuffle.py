"""Threads of a warp exchange registers: partial results as one, by shuffles in a butterfly.

In: a thread's partial result of a reduction. Writes TIR into a Writer. Must not know rows.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen.tir_builder import Writer
from tvm_stitch.kernel.ir.mapping import WARP
from tvm_stitch.stages.extremes import EXTREMES
from tvm_stitch.stages.stage import Expr, Stage

_EVERYONE = tirx.IntImm("uint32", 0xFFFFFFFF)


def combine(combiner: str, left: Expr, right: Expr) -> Expr:
    """Two partial results as one."""
    if combiner == "sum":
        return left + right
    if combiner == "prod":
        return left * right
    if combiner in EXTREMES:
        return EXTREMES[combiner](left, right)
    return tirx.max(left, right) if combiner in ("max", "any") else tirx.min(left, right)


def chained(writer: Writer, stage: Stage, values: Sequence[Expr]) -> Expr:
    """The partial results of a thread as one."""
    value = values[0]
    for other in values[1:]:
        value = combine(stage.combiner, value, other)
        if stage.combiner in EXTREMES:  # which name their operands several times
            value = writer.value(f"{stage.name}_so_far", value)
    return value


def from_lower(value: Expr, distance: int, width: int) -> Expr:
    """The value of the lane so far below, of `width` neighbours; the lowest get their own."""
    return T.cuda.__shfl_up_sync(_EVERYONE, value, distance, width)


def from_upper(value: Expr, distance: int, width: int) -> Expr:
    """The same of the lane so far above; the uppermost get their own."""
    return T.cuda.__shfl_down_sync(_EVERYONE, value, distance, width)


def from_lane(value: Expr, lane: int, width: int) -> Expr:
    """The value of one lane of `width` neighbours."""
    return T.cuda.__shfl_sync(_EVERYONE, value, lane, width)


def ballot(holds: Expr) -> Expr:
    """A bit for each lane of the warp: whether it holds there."""
    return T.cuda.ballot_sync(_EVERYONE, holds)


def butterfly(writer: Writer, stage: Stage, value: Expr, width: int, apart: int = 1) -> Expr:
    """Combine the values of `width` threads, so far apart in their warp; each gets the result."""
    if width == 1:
        return writer.value(f"{stage.name}_all", value)
    if stage.combiner not in ("prod", *EXTREMES) and apart == 1:
        name = {"any": "max", "all": "min"}.get(stage.combiner, stage.combiner)
        return writer.value(f"{stage.name}_all", T.cuda.warp_reduce(value, name, width))
    distance = width // 2
    while distance:
        mine = writer.value(f"{stage.name}_mine", value)
        other = T.cuda.__shfl_xor_sync(_EVERYONE, mine, distance * apart, WARP)
        if stage.combiner in EXTREMES:  # in one branch only, not all would take part
            other = writer.value(f"{stage.name}_other", other)
        value = writer.value(f"{stage.name}_all", combine(stage.combiner, mine, other))
        distance //= 2
    return value
