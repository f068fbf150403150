"""Sums that are measured against another reduction of the row, found in one pass with it.

In: a Program. Out: the same Program with every sum of exp(x - maximum of x) in the phase of its
maximum, where it is added up against the largest x so far and rescaled whenever that grows; or None
where there is no such sum. Sums of squares around a mean are found with it too where a thread's
first value is at hand before it adds up the first. Must not know threads.

The squares of a thread are of x - k, for k its first value, and so is its sum. Of n values they lie
around the thread's own mean by q - s * s / n, to which comes n times the square of the distance
between that mean and the one of all. Whatever the mean, nothing large is taken from something large
far from it: k is one of the values, so q is at most n + 1 times what is left of it.
"""

from __future__ import annotations

from dataclasses import replace

from tvm import ir

from tvm_stitch.kernel.analysis.variance_pattern import centre_of
from tvm_stitch.kernel.ir.behind_maximum import DTYPE, exponent, is_bounded_maximum
from tvm_stitch.kernel.ir.inlining import inlined
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.stage import (
    Expr,
    Stage,
    Var,
    bind_axes,
    constant,
    dtype_of,
    handle,
    replaced,
)

MAX_CHAIN = 4  # element-wise stages between a maximum and the sum behind it


def apply_online(program: Program, mapping: Mapping) -> Program:
    """The program as a mapping goes through it; kernel/legal asks whether that is in one pass."""
    if not mapping.online:
        return program
    return in_one_pass(program, _has_first_values(program, mapping)) or program


def _has_first_values(program: Program, mapping: Mapping) -> bool:
    """Whether all threads have equally many values, the first of which is there beforehand."""
    whole = constant(program.space.columns) == mapping.capacity
    return mapping.asynchronous and whole and not mapping.idle


@memoized
def in_one_pass(program: Program, squares: bool = False) -> Program | None:
    """See the module's docstring."""
    stages: list[Stage] = []
    online_after: dict[Var, Var] = {}
    variance_of: dict[Var, Var] = {}
    where = dict(program.where)
    for stage in program.stages:
        behind = online_after
        found = _written_out(program, stage)
        if found is None and squares:
            behind, found = variance_of, _of_first_value(program, stage)
        if found is not None:
            stage, leader = found
            behind[stage.output] = leader
            for read in stage.reads:
                place = Where.ROW if read.buffer == leader else Where.SAME
                where[handle(stage.output), read.key] = place
        stages.append(stage)
    if not online_after and not variance_of:
        return None
    used = set(program.outputs)
    for stage in reversed(stages):
        if stage.output in used:
            used |= {read.buffer for read in stage.reads}
    kept = tuple(stage for stage in stages if stage.output in used)
    return replace(
        program, stages=kept, where=where, online_after=online_after, variance_of=variance_of
    )


def _of_first_value(program: Program, stage: Stage) -> tuple[Stage, Var] | None:
    """A sum of squares around the mean of a sum, as squares around what stands for the sum."""
    if stage not in program.row_reductions:
        return None
    centre = centre_of(stage, {handle(other.output): other for other in program.stages})
    if centre is None or centre.total not in program.row_reductions:
        return None
    if program.place(centre.total, centre.total.reads[0]) is not Where.SAME:
        return None
    distance = centre.value - centre.load
    return replace(stage, value=distance * distance), centre.total.output


def _written_out(program: Program, stage: Stage) -> tuple[Stage, Var] | None:
    """A sum of exp(x - maximum of x), without stages in between, and the maximum."""
    if (
        stage.combiner != "sum"
        or stage not in program.row_reductions
        or dtype_of(stage.output) != DTYPE
    ):
        return None
    origin = stage  # whose loads the value has
    for _ in range(MAX_CHAIN):
        parts = exponent(stage.value)
        if parts is not None:
            return (stage, parts[1].source) if _is_shifted(program, origin, *parts) else None
        if len(stage.reads) != 1:
            return None
        (read,), (own,) = stage.reads, origin.reads
        source = program.producer.get(read.buffer)
        if source is None or source.is_reduction or program.place(origin, own) is not Where.SAME:
            return None
        value = inlined(source, read, bind_axes(stage))
        stage = replace(stage, value=replaced(stage.value, {read.key: value}))
        origin = source
    return None


def _is_shifted(program: Program, origin: Stage, value: Expr, lowest: Expr) -> bool:
    """Whether the second load is the maximum of what the first one loads, which is never less
    than some finite number: infinities have no difference."""
    places = {read.buffer: program.place(origin, read) for read in origin.reads}
    maximum = program.producer.get(lowest.source)
    if maximum is None or maximum not in program.row_reductions:
        return False
    taken = maximum.value.source if isinstance(maximum.value, ir.TensorLoad) else None
    return (
        is_bounded_maximum(maximum)
        and taken == value.source
        and program.place(maximum, maximum.reads[0]) is Where.SAME
        and places == {value.source: Where.SAME, lowest.source: Where.ROW}
    )
