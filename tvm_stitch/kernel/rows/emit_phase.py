"""How a thread goes through its elements in a phase: how many at once, and whether twice.

In: a Part, the state of a Phase and the thread's steps. Writes a Step for each.
Where a row waits in registers, all of its loads have been issued; elsewhere those of some steps are
issued together. Sums that are measured against a maximum need it first: what is at hand is gone
through again, once the largest of it is known. A row that waits nowhere is read in turns from its
beginning and from its end: what was read last is what the L2 still holds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from tvm_stitch.kernel.analysis.vector_loads import VectorLoad, loaded_in_turns
from tvm_stitch.kernel.codegen import reduction
from tvm_stitch.kernel.codegen.thread_indexing import Guard, Steps
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES
from tvm_stitch.kernel.rows.emit_vector import Step
from tvm_stitch.kernel.rows.global_access import Element, Fragments
from tvm_stitch.kernel.rows.row_state import PhaseState, RowState
from tvm_stitch.stages.stage import Expr, Stage, Var, dtype_of, element_bytes
from tvm_stitch.stages.symbolic_analyzer import int64

# Bytes of a row that does not wait in registers which a thread has on their way at once.
BYTES_IN_FLIGHT = 64


def go_through(parts: Sequence[RowState], states: Sequence[PhaseState], steps: list[Steps]) -> None:
    """Write a thread's steps, which are those of all its rows that lie side by side."""
    part = parts[0]
    if part.mapping.residence == "register":
        for part, state in zip(parts, states, strict=True):
            _passes(part, state, partial(_registers, part, state, steps))
        return
    backwards = part.mapping.residence == "nowhere" and states[0].phase.number % 2 > 0
    for alike in reversed(steps) if backwards else steps:
        with part.writer.when(part.position.works):
            _batches(parts, states, alike, backwards)


def second_pass(part: RowState, state: PhaseState) -> None:
    """Write what sums over the rows want, once the maxima so far of their columns are known."""
    _registers(part, state, part.position.steps(), state.phase.second_pass, True)


def _passes(
    part: RowState, state: PhaseState, through: Callable[[tuple[Stage, ...], bool], None]
) -> None:
    """Once through what is at hand; again, with maxima as far as they are known, for their sums.

    Those over the rows wait for all rows that are at hand.
    """
    through(state.phase.stages, False)
    if not state.phase.second_pass or part.sums:
        return
    largest = reduction.grow(part.writer, state.accumulators, part.program.online_after)
    part.row_values.update(largest)
    through(state.phase.second_pass, True)
    for buffer in largest:
        del part.row_values[buffer]


def _registers(
    part: RowState,
    state: PhaseState,
    steps: list[Steps],
    stages: tuple[Stage, ...],
    second_pass: bool,
) -> None:
    for alike in steps:
        with (
            part.writer.when(part.position.works),
            part.writer.unrolled(alike.count, "step", alike.start) as step,
        ):
            Step(part, state, stages, step, alike.guard, second_pass).emit()


def _batches(
    parts: Sequence[RowState], states: Sequence[PhaseState], steps: Steps, backwards: bool
) -> None:
    """Some steps at a time: the loads of all of them are issued before the first is used."""
    part = parts[0]
    first = part.loads_of(states[0].phase)
    each = part.mapping.access * sum(element_bytes(buffer) for buffer in first)
    batch = part.mapping.unroll or max(1, BYTES_IN_FLIGHT // max(each, ACCESS_BYTES))
    batch = min(steps.count, batch) if isinstance(steps.count, int) else batch
    many, rest = steps.count // batch, steps.count % batch

    def whole() -> None:
        with part.writer.serial(many, "batch") as number:
            if backwards:
                number = many - 1 - number
                # By itself, where only run time knows it: not once more for each address.
                number = number if isinstance(many, int) else part.writer.value("from_end", number)
            start = steps.start + number * batch
            _batch(parts, states, first, replace(steps, start=start, count=batch))

    def last() -> None:
        done = steps.start + many * batch
        if not isinstance(rest, int):
            with part.writer.serial(rest, "last") as number:
                _batch(parts, states, first, replace(steps, start=done + number, count=1))
        elif rest:
            _batch(parts, states, first, replace(steps, start=int64(done), count=rest))

    for some in (last, whole) if backwards else (whole, last):
        some()


def _batch(
    parts: Sequence[RowState], states: Sequence[PhaseState], first: tuple[Var, ...], steps: Steps
) -> None:
    writer, access = parts[0].writer, parts[0].mapping.access
    tiles = {
        buffer: writer.allocate(f"{buffer.name}_in", access * steps.count, dtype_of(buffer))
        for buffer in first
    }

    def slots(number: Expr, row: int) -> Element:
        return lambda _, lane: number * access + row + lane

    for part, state in zip(parts, states, strict=True):
        part.begin_steps(state.phase, steps)
    vectors = _load_vectors(parts[0], states[0].phase.stages, steps)
    with writer.unrolled(steps.count, "load") as number:
        for buffer, tile in tiles.items():
            step = steps.start + number
            parts[0].copy_in_rows(buffer, tile, step, steps.guard, slots(number, 0))

    def through(
        part: RowState, state: PhaseState, stages: tuple[Stage, ...], second_pass: bool
    ) -> None:
        with writer.unrolled(steps.count, "step") as number:
            element = slots(number, part.number)
            loaded = {buffer: (tile, element) for buffer, tile in tiles.items()}
            own: Fragments = {}
            for load, tile in vectors:
                own |= part.fragments_of(load, tile, lambda _step: number)
            of_step = replace(state, loaded=loaded, vectors=own)
            Step(part, of_step, stages, steps.start + number, steps.guard, second_pass).emit()

    for part, state in zip(parts, states, strict=True):
        _passes(part, state, partial(through, part, state))


def _load_vectors(
    part: RowState, needed: tuple[Stage, ...], steps: Steps
) -> list[tuple[VectorLoad, Var]]:
    """Vectors along the columns: asked for one by one, each step would wait for its own."""
    if steps.guard is Guard.EDGE or not isinstance(steps.count, int):
        return []
    writer, found = part.writer, []
    loads = part.plan_vector_loads((stage, read) for stage in needed for read in stage.reads)
    for group in loaded_in_turns(loads):
        tile = part.vector_tile(group[0], steps.count)
        found += [(load, tile) for load in group]
    with writer.unrolled(steps.count, "vector") as number:
        step = steps.start + number
        with writer.when(part.position.exists(step, steps.guard)):
            for load, tile in found:
                part.load_vector(load, tile, step, number)
    return found
