"""The parts of a kernel that differ in more than their tensors and the numbers they compute with.

In: Programs and a Schedule. Out: the first part of each sort, and its mappings. An optimizer's
kernel has a part for each tensor, and most tensors are of few shapes: what a last look finds in
one part, it finds in all of its sort.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.codegen.footprint import STATIC_SHARED
from tvm_stitch.kernel.footprint import footprint_of
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.stages.linear import numbers
from tvm_stitch.stages.stage import Stage, Var, buffer_shape, dtype_of
from tvm_stitch.stages.visit import mapped

Parts = tuple[tuple[Program, ...], Schedule]


def distinct_parts(programs: tuple[Program, ...], schedule: Schedule) -> Parts:
    """A part of each sort; all parts where together they may ask too much of a block.

    What a block of a grid in rounds has for all of its parts is settled where they are chosen.
    """
    is_large = not schedule.blocks and footprint_of(programs, schedule).shared > STATIC_SHARED
    if len(programs) == 1 or schedule.longer is not None or is_large:
        return programs, schedule
    first: dict[Hashable, int] = {}
    for number, (program, mapping) in enumerate(zip(programs, schedule.parts, strict=True)):
        first.setdefault((mapping, _sort(program) or number), number)
    kept = first.values()
    parts = tuple(schedule.parts[number] for number in kept)
    return tuple(programs[number] for number in kept), replace(schedule, parts=parts)


def _sort(program: Program) -> Hashable | None:
    """Equal for programs of one sort; None where sizes are open."""
    known: dict[Var, int] = {}

    def numbered(buffers: Iterable[Var]) -> tuple[int, ...]:
        return tuple(known.setdefault(buffer, len(known)) for buffer in buffers)

    stages = []
    for stage in program.stages:
        buffers = numbered((*(read.buffer for read in stage.reads), stage.output))
        stages.append((buffers, _computed(stage)))
    marked = tuple(
        map(
            numbered,
            (
                program.inputs,
                program.outputs,
                program.crossing,
                program.persistent_inputs,
                program.reused_inputs,
                (buffer for whole, slices in program.joined for buffer in (whole, *slices)),
                (buffer for pair in program.online_after.items() for buffer in pair),
                (buffer for pair in program.variance_of.items() for buffer in pair),
            ),
        )
    )
    shapes = [numbers(buffer_shape(buffer)) for buffer in known]
    if None in shapes:
        return None
    dtypes = tuple(map(dtype_of, known))
    return program.round, program.space.key, tuple(stages), marked, tuple(shapes), dtypes


def _computed(stage: Stage) -> Hashable:
    """Of what a stage computes everything but tensors and numbers."""
    value = mapped(stage.value, (tirx.FloatImm, lambda number: tirx.FloatImm(number.ty.dtype, 0.0)))
    # The axes come first: what free variables are is told by their order.
    told = tvm_ffi.convert([*stage.axes, *stage.reduced, value])
    extents = numbers((*stage.extents, *stage.reduced_extents))
    hashed = tvm_ffi.structural_hash(told, map_free_vars=True)
    return hashed, len(stage.axes), extents, stage.combiner, stage.row_segments
