"""Parts of kernels that the check of what is emitted cannot tell apart.

In: Programs and a Schedule. Out: the first part of each sort, and its mappings; and the sorts of
parts and of a whole kernel. An optimizer's kernel has a part for each tensor, and most are of few
sorts: what it finds in one part, it finds in all of its sort, also in other kernels that
differ in parts alone. Of sizes it sees how they divide, which says what is aligned and what hangs
over, and what a block takes. A kernel that is another in spite of that is refused when it is
emitted.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from dataclasses import replace
from math import gcd

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.codegen.footprint import STATIC_SHARED
from tvm_stitch.kernel.footprint import footprint_of
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.stages.linear import numbers
from tvm_stitch.stages.memoized import memoized, memoized_for_copies
from tvm_stitch.stages.stage import Expr, Stage, Var, buffer_shape, dtype_of
from tvm_stitch.stages.visit import mapped

Parts = tuple[tuple[Program, ...], Schedule]

# Threads and rows of a block, vectors and iterations are powers of two: their product reaches this.
GRAIN = 1 << 14


def sort_of(programs: tuple[Program, ...], schedule: Schedule) -> Hashable | None:
    """Equal for kernels of one sort; None where sizes are open."""
    own = zip(programs, schedule.parts, strict=True)
    sorts = tuple(_sort(program, mapping) for program, mapping in own)
    return None if None in sorts or schedule.longer is not None else (schedule, sorts)


def distinct_parts(
    programs: tuple[Program, ...], schedule: Schedule, seen: Collection[Hashable] = ()
) -> Parts:
    """A part of each sort that is not among those seen, and the first of each round.

    And one that leaves something for later rounds, for which there is memory.

    All parts where together they may ask too much of a block. What a block of a grid in rounds has
    for all of its parts is settled where they are chosen.
    """
    is_large = not schedule.blocks and footprint_of(programs, schedule).shared > STATIC_SHARED
    if len(programs) == 1 or schedule.longer is not None or is_large:
        return programs, schedule
    first: dict[Hashable, int] = {}
    rounds: dict[int, int] = {}
    for number, sort in enumerate(part_sorts(programs, schedule)):
        rounds.setdefault(programs[number].round, number)
        if sort not in seen:
            first.setdefault(number if sort is None else sort, number)
    leaving = [number for number, program in enumerate(programs) if program.crossing][:1]
    kept = sorted({*first.values(), *rounds.values(), *leaving})
    parts = tuple(schedule.parts[number] for number in kept)
    return tuple(programs[number] for number in kept), replace(schedule, parts=parts)


def part_sorts(programs: tuple[Program, ...], schedule: Schedule) -> list[Hashable | None]:
    """For each part, what is equal for parts of one sort in kernels that differ in parts alone."""
    last = max(program.round for program in programs)
    kernel = replace(schedule, parts=()), schedule.block_threads, last
    own = zip(programs, schedule.parts, strict=True)
    sorts = ((mapping, _sort(program, mapping)) for program, mapping in own)
    return [None if sort is None else (kernel, mapping, sort) for mapping, sort in sorts]


@memoized
def _sort(program: Program, mapping: Mapping) -> Hashable | None:
    """Equal for programs of one sort by one mapping; None where sizes are open."""
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
    space = program.space
    sizes = (space.rows, space.columns, space.run, space.inner, space.row_segment)
    shapes = [_divided([size for size in sizes if size is not None])]
    shapes += [_divided(buffer_shape(buffer)) for buffer in known]
    if None in shapes:
        return None
    which = program.round, space.whole, tuple(size is None for size in sizes)
    taken = kind_of(program).footprint(program, mapping)
    dtypes = tuple(map(dtype_of, known))
    # Hashed once: whoever has the sorts of a kernel's parts in a dictionary would go through all.
    return hash((*which, taken, tuple(stages), marked, tuple(shapes), dtypes))


def _divided(extents: Iterable[Expr]) -> tuple[int, ...] | None:
    """How sizes divide by what mappings are made of, one apart from others; None: one is open."""
    found = numbers(tuple(extents))
    return None if found is None else tuple(n if n < 2 else gcd(n, GRAIN) + GRAIN for n in found)


@memoized_for_copies
def _computed(stage: Stage) -> Hashable:
    """Of what a stage computes everything but tensors and numbers."""
    value = mapped(stage.value, (tirx.FloatImm, _any_number), (tvm.ir.TensorLoad, _any_tensor))
    # The axes come first: what free variables are is told by their order.
    told = tvm_ffi.convert([*stage.axes, *stage.reduced, value])
    extents = _divided((*stage.extents, *stage.reduced_extents))
    hashed = tvm_ffi.structural_hash(told, map_free_vars=True)
    return hashed, len(stage.axes), extents, stage.combiner, stage.row_segments


def _any_number(number: tirx.FloatImm) -> Expr:
    return tirx.FloatImm(number.ty.dtype, 0.0)


def _any_tensor(load: tvm.ir.TensorLoad) -> Expr:
    """A load without its tensor, whose type has its sizes."""
    return tirx.call_extern(dtype_of(load), "load", *load.indices[:])
