"""Programs over the rows of a table to which indices send updates.

In: Stages in order, of which some are scattered reductions, and the buffers that must be written.
Out: a ScatteredProgram over the table's rows, or why there is none. What is made of the sums
belongs to their rows; what updates are made of is computed where they are added. Must not know
threads.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from tvm_stitch.kernel.ir.inlining import by_buffer, with_inlined
from tvm_stitch.kernel.ir.iteration_space import Space, find_space
from tvm_stitch.kernel.ir.placing import make_program
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.patterns.scattered_reduction import ScatteredReduction, scattered_reduction
from tvm_stitch.stages.stage import Refused, Stage, Var, same_size, shown

MOST_INLINED = 16  # operators behind each other that an update is made of


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ScatteredProgram(Program):
    """What one kernel computes to whose rows indices send updates; see the module's docstring."""

    # Inputs of its stages that its own threads add up beforehand.
    scattered: tuple[ScatteredReduction, ...]


def scattering_program(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...]
) -> ScatteredProgram | Refused:
    """The program of stages some of which are scattered reductions, all of one table's rows."""
    producer = {stage.output: stage for stage in stages}
    found: list[ScatteredReduction] = []
    for stage in stages:
        if scattered_reduction(stage) is None:
            continue
        own = _computed(stage, producer)
        if isinstance(own, Refused):
            return own
        found.append(own)
    sums = {each.stage.output for each in found}
    if any(output in sums for output in outputs):
        return Refused("sums of updates are written by a stage of their own")
    first = found[0]
    if any((each.sorted is None) != (first.sorted is None) for each in found):
        return Refused("updates that are sorted, and others")
    if any(
        not (same_size(each.rows, first.rows) and same_size(each.columns, first.columns))
        for each in found[1:]
    ):
        return Refused("updates go to tables of different rows")
    rest = tuple(stage for stage in stages if stage.output not in sums)
    made = make_program(rest, outputs, Space(first.rows, first.columns, first.columns))
    if isinstance(made, Refused):
        return made
    if (refused := _reduces_elsewhere(made)) is not None:
        return refused
    used = {read.buffer for _, read in made.reads_at(Where.SAME)} & sums
    if any(read.buffer in sums and made.place(s, read) is not Where.SAME for s, read in made.reads):
        return Refused("sums of updates are needed in other rows than their own")
    wanted = tuple(each for each in found if each.stage.output in used)
    inputs = dict.fromkeys(buffer for buffer in made.inputs if buffer not in sums)
    inputs |= dict.fromkeys(read.buffer for each in wanted for read in each.stage.reads)
    fields_of_rows = _fields(made) | {"inputs": tuple(inputs), "reduces": True}
    return ScatteredProgram(**fields_of_rows, scattered=wanted)


def is_sorted(program: ScatteredProgram) -> bool:
    """Whether a kernel before has sorted its updates."""
    return program.scattered[0].sorted is not None


def _fields(program: Program) -> dict[str, Any]:
    return {each.name: getattr(program, each.name) for each in fields(Program)}


def _reduces_elsewhere(program: Program) -> Refused | None:
    """Why what is reduced are not the table's rows, each along its columns, if so."""
    if program.column_reductions:
        return Refused("sums of updates are needed over the rows of their table")
    reduced = program.row_reductions
    if not reduced:
        return None
    own = find_space(reduced, [], program.outputs)
    if isinstance(own, Refused):
        return own
    table = program.space
    if same_size(own.rows, table.rows) and same_size(own.columns, table.columns):
        return None
    return Refused(
        f"{shown(own.rows)} rows of {shown(own.columns)} are reduced, and updates go to "
        f"{shown(table.rows)} rows of {shown(table.columns)}"
    )


def _computed(stage: Stage, producer: dict[Var, Stage]) -> ScatteredReduction | Refused:
    """The scattered reduction that reads nothing but inputs: all else it computes itself."""
    for _ in range(MOST_INLINED):
        reads = by_buffer(read for read in stage.reads if read.buffer in producer)
        if not reads:
            found = scattered_reduction(stage)
            return found or Refused(f"{stage.name} is sent to rows by what is computed")
        if any(producer[buffer].is_reduction for buffer in reads):
            return Refused(f"{stage.name} adds up what is reduced before")
        stage = with_inlined(stage, reads, producer)
    return Refused(f"{stage.name} adds up what too many operators compute")


@memoized
def behind_sums(program: ScatteredProgram) -> Program:
    """What a program does with its sums: they are inputs of it."""
    sums = tuple(each.stage.output for each in program.scattered)
    return Program(**_fields(program) | {"inputs": (*sums, *program.inputs)})
