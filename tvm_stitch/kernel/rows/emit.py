"""Emits one part of a kernel: a Program by its Mapping.

In: the Program, its Phases, its Mapping, the block's number among the part's blocks
and the thread's in the block. Writes TIR into a Writer. Decides nothing.

A part goes through its row once for each phase. In a phase, all elements of a thread are computed
one after the other from what it loads or has kept, and added to the phase's reductions; these end
the phase.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as MappingOf
from copy import copy
from dataclasses import replace
from functools import partial

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.analysis.addressing import Stride
from tvm_stitch.kernel.codegen import cluster_exchange, reduction, scan
from tvm_stitch.kernel.codegen.thread_indexing import Guard, Position, blocks_of_row, chunks_of_row
from tvm_stitch.kernel.codegen.tir_builder import Place, all_of
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.phases import Phase
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows import emit_async_copy
from tvm_stitch.kernel.rows.emit_phase import go_through
from tvm_stitch.kernel.rows.emit_vector import Step
from tvm_stitch.kernel.rows.row_state import NextRow, PhaseState, RowState
from tvm_stitch.stages.stage import Expr, Read, Stage, Var, as_int64, constant, dtype_of
from tvm_stitch.stages.symbolic_analyzer import int64


def emit_batch(parts: list[Part]) -> list[list[PhaseState]]:
    """Write parts that differ in the row only: a phase of all before the next.

    What is at hand of each, phase by phase.
    """
    for part in parts:
        part.begin()
    return [[part.emit_phase(phase) for part in parts] for phase in parts[0].phases.phases]


def emit_rows(program: Program, mapping: Mapping, place: Place, at: type[Position]) -> Expr:
    """Write a part batch by batch, each row of one at a position; the number of its blocks."""
    positions = [at(program.space, mapping, place, number=n) for n in range(mapping.batch)]
    part = Part(program, mapping, place, positions[0])
    emit_batch([part, *map(part.beside, positions[1:])])
    return part.position.blocks


def emit_chunks(program: Program, mapping: Mapping, place: Place) -> Expr:
    """Write rows that blocks scan chunk by chunk, the next one on its way; the number of blocks."""
    writer = place.writer
    carries = {stage.output: scan.nothing_before(writer, stage) for stage in program.scans}
    chunks = chunks_of_row(program.space, mapping)
    from_end = any(stage.from_end for stage in program.scans)

    def position(number: Expr) -> Position:
        chunk = chunks - 1 - number if from_end else number
        return Position(program.space, mapping, place, chunk=chunk)

    first = position(int64(0))
    tiles = load_first(Part(program, mapping, place, first), chunks)
    with writer.serial(chunks, "chunk") as number:
        following = NextRow(position(number + 1), number + 1 < chunks, tiles)
        part = Part(program, mapping, place, position(number), next_row=following)
        part.carries = carries
        emit_batch([part])
        if reduction.needs_exchange(mapping):  # warps have read what others left for them
            writer.add(tirx.Evaluate(T.tvm_storage_sync("shared")))
    return first.blocks


def load_first(part: Part, count: Expr) -> dict[Var, Var]:
    """Registers for what the next iteration loads, with the first one's; of `count`, if any."""
    tiles = {
        buffer: part.tile(f"{buffer.name}_next", dtype_of(buffer))
        for buffer in part.loads_of(part.phases.phases[0])
    }
    with part.writer.when(count > 0 if constant(count) is None else None):
        part.load_row(tiles, part.position)
    return tiles


def go_through_phase(parts: Sequence[Part], phase: Phase) -> list[PhaseState]:
    """Write what is computed between two reductions, of a thread's rows that lie side by side."""
    part = parts[0]
    if part.mapping.residence == "register" and len(parts) > 1:
        return [state for each in parts for state in go_through_phase([each], phase)]
    states = [each.begin_phase(phase) for each in parts]
    if not phase.stages:
        return states
    if phase.second_pass and phase.number and part.mapping.residence == "register":
        part.load_of_phase(states[0])
    if phase.copies:
        groups = emit_async_copy.groups_of(part)
        for group, all_steps in enumerate(groups):
            emit_async_copy.wait(part, len(groups) - 1 - group)
            if group == 0:
                part.measure_from_first(states[0])
            go_through(parts, states, all_steps)
    else:
        for each, state in zip(parts, states, strict=True):
            each.measure_from_first(state)
        go_through(parts, states, part.position.steps())
    return states


class Part(RowState):
    """One program on its way into TIR, for one row of a thread."""

    def beside(self, position: Position) -> Part:
        """The same for another row: what does not depend on the row is shared."""
        other = copy(self)
        other.position = position
        other.row_values, other.row_loads = {}, {}
        other.kept, other.ahead = {}, {}
        return other

    def begin(self) -> None:
        """Make room for what is kept, and issue loads before anything waits for the first."""
        self._allocate_kept()
        if self.mapping.cluster > 1:
            self._open_barriers()
        if self.mapping.residence == "register":
            self._load_ahead()
        if self.phases.copies:
            emit_async_copy.start_copies(self)
        if self.mapping.prefetch_weights:
            self._prefetch_weights()

    def _open_barriers(self) -> None:
        ending = [phase for phase in self.phases.phases if phase.reductions]
        barriers = reduction.open_barriers(
            self.writer, [phase.reductions for phase in ending], self.mapping, self.position
        )
        self.barriers = {phase.number: b for phase, b in zip(ending, barriers, strict=True)}

    def _allocate_kept(self) -> None:
        mapping = self.mapping
        each = mapping.vector * mapping.steps
        for buffer in self.phases.kept:
            if mapping.residence == "register":
                tile = self.tile(f"{buffer.name}_kept", dtype_of(buffer))
            else:
                size = each * mapping.block_threads
                tile = self.shared_tile(f"{buffer.name}_kept", size, dtype_of(buffer))
            self.kept[buffer] = tile

    def shared_tile(self, name: str, size: int, dtype: str) -> Var:
        """Shared memory for all elements of a block."""
        return self.writer.allocate(name, size, dtype, "shared.dyn")

    # Phases

    def emit_phase(self, phase: Phase) -> PhaseState:
        """Write what is computed between two reductions, and the one that ends it."""
        (state,) = go_through_phase([self], phase)
        if state.accumulators:
            results = reduction.finish(self.writer, [self.ending(state)], self.mapping)
            self.end_phase(results[0])
        for stage in phase.scans:
            tile, carry = self.kept[stage.output], self.carries.get(stage.output)
            scan.accumulate(self.writer, stage, tile, self.mapping, self.position, carry)
        return state

    def load_of_phase(self, state: PhaseState) -> None:
        """Inputs that a later phase is the first to need, where it goes over them twice."""
        tiles = self._tiles_of(state.phase, "in")
        state.loaded |= {buffer: (tile, self.own_slot) for buffer, tile in tiles.items()}
        self.load_row(tiles, self.position)

    def begin_phase(self, phase: Phase) -> PhaseState:
        """Write what does not depend on the column, and begin the phase's sums."""
        state = PhaseState(phase, {} if phase.number else self.ahead)
        self._emit_row_stages(phase)
        for stage in phase.reductions:
            if stage.output not in self.sums:
                maximum = self.program.producer.get(self.program.online_after.get(stage.output))
                started = reduction.start(self.writer, stage, self.mapping, maximum)
                state.accumulators[stage.output] = started
        self._load_row_scalars(phase.stages)
        return state

    def ending(self, state: PhaseState) -> reduction.Ending:
        """What all threads of the row have added up, to be combined."""
        number = state.phase.number
        if self.awaits_barriers(number):
            cluster_exchange.await_barriers(self.writer)
        accumulators = list(state.accumulators.values())
        barrier = self.barriers.get(number)
        return reduction.Ending(accumulators, self.position, self.program, barrier)

    def awaits_barriers(self, number: int) -> bool:
        """Whether all blocks of a cluster must be there before a phase ends."""
        return number == min(self.barriers, default=None)

    def end_phase(self, results: MappingOf[Var, Expr]) -> None:
        """Note what the reductions of a phase came to."""
        self.row_values.update(results)
        for output, value in results.items():
            self._store_row(output, value)

    def measure_from_first(self, state: PhaseState) -> None:
        """A thread's first value of each sum stands for the sum, where squares ask for its mean."""
        squares = self.program.variance_of
        totals = {total for total in squares.values() if total in state.accumulators}
        if not totals:
            return
        before = tuple(stage for stage in state.phase.stages if stage.output not in squares)
        step = Step(self, state, before, int64(0), Guard.NONE, second_pass=True)
        first = step.first_values(totals)
        self.row_values.update(first)
        for total in totals:
            accumulator = replace(state.accumulators[total], first=first[total])
            state.accumulators[total] = accumulator

    def _emit_row_stages(self, phase: Phase) -> None:
        for stage in phase.of_row:
            self._load_row_scalars([stage])
            known = partial(self.row_value, stage)
            value = self.writer.value(
                stage.name, self.value(stage, known, self.at_column(int64(0)))
            )
            self.row_values[stage.output] = value
            self._store_row(stage.output, value)

    def _store_row(self, buffer: Var, value: Expr) -> None:
        if not self.program.writes(buffer):
            return
        shared = self.mapping.split or self.mapping.cluster > 1
        own = self.position.rank == 0 if shared else None
        with self.writer.when(all_of(self.position.thread == 0, own, self.position.row_exists)):
            self.writer.store(self.views[buffer], self.position.row, value)

    def _load_row_scalars(self, stages: Iterable[Stage]) -> None:
        """Loads that do not depend on the column, once for the row."""
        inputs = self.program.inputs
        for stage in stages:
            for read in stage.reads:
                if read.guarded or read.buffer not in inputs or self.is_same(stage, read):
                    continue
                address = self.frame.address(stage, read)
                if address.stride is Stride.UNIFORM and address.key not in self.row_loads:
                    name = f"{read.buffer.name}_of_row"
                    value = self.load(address, self.at_column(int64(0)))
                    self.row_loads[address.key] = self.writer.value(name, value)

    def _load_ahead(self) -> None:
        """All loads of the row in the first phase are issued before their first use."""
        tiles = self._tiles_of(self.phases.phases[0], "loaded")
        self.ahead |= {buffer: (tile, self.own_slot) for buffer, tile in tiles.items()}
        if self.next_row is None:
            self.load_row(tiles, self.position)
            return
        for buffer, tile in tiles.items():
            each = self.mapping.vector * self.mapping.steps
            with self.writer.unrolled(each, "element") as element:
                self.writer.store(tile, element, self.next_row.tiles[buffer][element])
        with self.writer.when(self.next_row.exists):
            self.load_row(self.next_row.tiles, self.next_row.position)

    def _tiles_of(self, phase: Phase, name: str) -> dict[Var, Var]:
        """Registers for the inputs that a phase loads."""
        return {
            buffer: self.kept[buffer]
            if buffer in self.kept
            else self.tile(f"{buffer.name}_{name}", dtype_of(buffer))
            for buffer in self.loads_of(phase)
        }

    def _prefetch_weights(self) -> None:
        """Vectors along the columns that do not depend on the row, for all phases and rows."""
        if self.vectors:
            return
        found = [load for load in self.plan_vector_loads(self.program.reads) if not load.of_row]
        tiles = []
        for load in found:
            tile = self.vector_tile(load, self.mapping.steps)
            self.vectors |= self.fragments_of(load, tile, lambda step: step)
            tiles.append(tile)
        for steps in self.position.steps():
            if steps.guard is Guard.EDGE:
                continue
            with (
                self.writer.when(self.position.works),
                self.writer.unrolled(steps.count, "step", steps.start) as step,
                self.writer.when(self.position.exists(step, steps.guard)),
            ):
                for load, tile in zip(found, tiles, strict=True):
                    self.load_vector(load, tile, step, step)

    def row_value(self, stage: Stage, read: Read) -> Expr | None:
        """What a load gives where that is one value for the row."""
        if read.buffer in self.row_values:
            return self.row_values[read.buffer]
        address = self.frame.address(stage, read)
        return self.row_loads.get(address.everywhere.key)


class IteratedPart:
    """One program whose blocks iterate over the rows; the next one can be on its way meanwhile."""

    def __init__(self, program: Program, mapping: Mapping, place: Place) -> None:
        self.program, self.mapping = program, mapping
        self.place, self.views, self.writer = place, place.views, place.writer
        self.pieces = blocks_of_row(program.space, mapping)
        self.count = mapping.blocks // self.pieces
        self.position = self._position(int64(0))
        self.sums: dict[Var, Var] = {}

    def emit(self) -> Expr:
        """Write all iterations; the number of blocks."""
        iterations = self._iterations()
        ahead = self.mapping.prefetch_next_row
        tiles = load_first(self.part(int64(0)), iterations) if ahead else {}
        with self.writer.serial(iterations, "iteration") as iteration:
            next_row = None
            if tiles:
                next_row = NextRow(self._position(iteration + 1), iteration + 1 < iterations, tiles)
            emit_batch([self.part(iteration, next_row)])
        return self.position.blocks

    def part(self, iteration: Expr, next_row: NextRow | None = None) -> Part:
        """What a block does in one of them."""
        position = self._position(iteration)
        return Part(self.program, self.mapping, self.place, position, self.sums, next_row)

    def _position(self, iteration: Expr) -> Position:
        return Position(self.program.space, self.mapping, self.place, iteration)

    def _iterations(self) -> Expr:
        """How often this block has rows to work on."""
        mapping = self.mapping
        groups = tirx.floordiv(self.program.space.rows + (mapping.rows - 1), mapping.rows)
        exact = constant(groups)
        if exact is not None and exact % self.count == 0:
            return int64(exact // self.count)
        first = tirx.floordiv(self.place.block, self.pieces)
        iterations = tirx.floordiv(groups - first + (self.count - 1), self.count)
        if exact is not None:
            return iterations
        # Once, in 32 bits.
        return as_int64(self.writer.value("iterations", iterations.astype("int32")))
