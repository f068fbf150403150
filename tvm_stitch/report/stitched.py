"""The report's entry for a stitched kernel, from its Program and Schedule.

In: the fused PrimFunc before it was emitted, and the Schedule it was emitted by. Out: a Kernel.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel import cost
from tvm_stitch.kernel.build import read_program
from tvm_stitch.kernel.memory import Residency, plan_residency
from tvm_stitch.kernel.program import Program, Where
from tvm_stitch.kernel.schedule import Schedule
from tvm_stitch.kernel.stage import Refused, Stage, Var, read_stages
from tvm_stitch.report.launches import shown
from tvm_stitch.report.operators import Operator
from tvm_stitch.report.report import Kernel

# Where a kept value waits -> the scheme that this is.
_RESIDENCE_SCHEME = {"register": "local", "shared": "regional"}
_EXCHANGE = {
    "local": "by one thread",
    "warp": "by shuffles within a warp",
    "regional": "through shared memory within a block",
}


@dataclass(frozen=True, eq=False)
class Fused:
    """A function that one stitched kernel holds, before it was emitted."""

    kernel: str
    operators: tuple[Operator, ...]
    function: tirx.PrimFunc
    launches: int


def describe(fused: Fused, schedule: Schedule, device: Device) -> Kernel:
    """The report's entry for one stitched kernel."""
    program = read_program(fused.function)
    assert not isinstance(program, Refused), "a stitched kernel comes from a readable function"
    residency = plan_residency(program)
    return Kernel(
        name=fused.kernel,
        ops=tuple(operator.name for operator in fused.operators),
        scheme=schedule.scheme,
        mapping=schedule.mapping,
        bytes_min=cost.least_bytes(program),
        bytes_planned=planned_bytes(program, residency),
        floor_us=cost.floor_us(program, device),
        predicted_us=cost.predicted_us(program, schedule, device),
        why=_why(program, schedule, residency),
        launches=fused.launches,
        schemes=_schemes(fused, program, schedule, residency),
    )


def planned_bytes(program: Program, residency: Residency) -> int | None:
    """What a kernel reads and writes: an input counts once for every phase that loads it."""
    total = 0
    for buffer in program.outputs:
        size = cost.tensor_bytes(buffer)
        if size is None:
            return None
        total += size
    for buffer in program.inputs:
        size = cost.tensor_bytes(buffer)
        if size is None:
            return None
        total += size * max(1, len(_loading_phases(program, residency, buffer)))
    return total


def _loading_phases(program: Program, residency: Residency, buffer: Var) -> set[int]:
    """Phases that load an input from memory rather than find it on the chip."""
    if buffer in residency.needed:
        return set(residency.needed[buffer])
    phases: set[int] = set()
    for stage in program.stages:
        if any(read.buffer == buffer for read in stage.reads):
            reads = [read for read in stage.reads if read.buffer == buffer]
            if any(program.place(stage, read) is Where.OTHER for read in reads):
                phases |= _phases_of(residency, stage)
    return phases


def _phases_of(residency: Residency, stage: Stage) -> frozenset[int]:
    if stage.is_reduction:
        return frozenset([residency.available[stage.output] - 1])
    return residency.needed.get(stage.output, frozenset([residency.available[stage.output]]))


def _schemes(
    fused: Fused, program: Program, schedule: Schedule, residency: Residency
) -> dict[str, str]:
    """By reduction and kept value, in the order of their making: where it flows."""
    names = _value_names(fused)
    flows: dict[Var, str] = {}
    for buffer in residency.kept:
        flows[buffer] = _RESIDENCE_SCHEME[schedule.residence]
    for stage in program.stages:
        if stage.is_reduction:
            flows[stage.output] = schedule.scheme
    order = (*program.inputs, *(stage.output for stage in program.stages))
    found: dict[str, str] = {}
    for buffer in order:
        if buffer in flows:
            found[_unused(names.get(buffer, buffer.name), found)] = flows[buffer]
    return found


def _value_names(fused: Fused) -> dict[Var, str]:
    """What users call a value: the operator that computes it."""
    stages = read_stages(fused.function)
    owners = [operator.name for operator in fused.operators for _ in range(operator.blocks)]
    if isinstance(stages, Refused) or len(stages) != len(owners):
        return {}
    return {stage.output: owner for stage, owner in zip(stages, owners, strict=True)}


def _unused(name: str, taken: Container[str]) -> str:
    unique, number = name, 1
    while unique in taken:
        number += 1
        unique = f"{name} {number}"
    return unique


def _why(program: Program, schedule: Schedule, residency: Residency) -> str:
    """One sentence: what the kernel's scheme rests on."""
    if schedule.split:
        return "every element needs only its own inputs: nothing flows between threads"
    reductions = sum(stage.is_reduction for stage in program.stages)
    times = "once" if reductions == 1 else f"{reductions} times"
    columns = shown(program.space.columns)
    text = f"a row of {columns} columns is reduced {times} {_EXCHANGE[schedule.scheme]}"
    if not residency.kept:
        return text
    place = "registers" if schedule.residence == "register" else "shared memory"
    return f"{text}; what is needed again waits in {place}"
