"""Emits one part of a kernel: a Program by its Mapping.

In: the Program, what it keeps (Residency), its Mapping, the block's number among the part's blocks
and the thread's in the block. Writes TIR into a Writer. Decides nothing.

A part goes through its row once for each phase. In a phase, all elements of a thread are computed
one after the other from what it loads or has kept, and added to the phase's reductions; these end
the phase.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Mapping as MappingOf
from copy import copy
from dataclasses import dataclass, field, replace
from functools import partial

import tvm_ffi
from tvm import ir, tirx

from tvm_stitch.kernel import reduce
from tvm_stitch.kernel.along import Along, plan_along
from tvm_stitch.kernel.frame import COLUMN, ROW, Address, Frame, Stride
from tvm_stitch.kernel.memory import Residency
from tvm_stitch.kernel.position import Position, Steps
from tvm_stitch.kernel.program import Program, Where
from tvm_stitch.kernel.schedule import Mapping
from tvm_stitch.kernel.stage import (
    Expr,
    Read,
    Stage,
    Var,
    dtype_of,
    handle,
    item_bytes,
    substitute,
)
from tvm_stitch.kernel.step import Step
from tvm_stitch.kernel.writer import ACCESS_BYTES, Writer, flat_load, int64, vector_copy

# Bytes of a row that waits in shared memory which a thread has on their way at once.
FLIGHT_BYTES = 64

Element = Callable[[Expr, Expr], Expr]  # (step, lane) -> index of a thread's element
Fragments = dict[tuple[Var, str, str], tuple[Var, Element]]  # tiles by an address's key


@dataclass
class Phase:
    """What a phase has at hand."""

    number: int
    loaded: dict[Var, tuple[Var, Element]] = field(default_factory=dict)
    accumulators: dict[Var, reduce.Accumulator] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Following:
    """The row after this one: its tiles are full when its turn begins."""

    position: Position
    exists: Expr
    tiles: MappingOf[Var, Var]


def emit_batch(parts: list[Part]) -> None:
    """Write parts that differ in the row only: a phase of all before the next."""
    for part in parts:
        part.begin()
    for number in range(parts[0].residency.phases):
        for part in parts:
            part.emit_phase(number)
    if parts[0].mapping.cluster > 1 and parts[0].residency.phases > 1:
        reduce.leave_cluster(parts[0].writer)


class Part:
    """One program on its way into TIR, for one row of a thread."""

    def __init__(
        self,
        program: Program,
        residency: Residency,
        mapping: Mapping,
        views: MappingOf[Var, Var],
        position: Position,
        thread: Expr,
        writer: Writer,
        sums: MappingOf[Var, Var] | None = None,
        following: Following | None = None,
    ) -> None:
        self.program, self.residency, self.mapping = program, residency, mapping
        self.views, self.writer = views, writer
        self.block_thread = thread
        self.frame = Frame(program)
        self.position = position
        self.sums = sums or {}  # a thread's share of each reduction over the rows
        self.following = following
        self.row_values: dict[Var, Expr] = {}
        self.row_loads: dict[tuple[Var, str, str], Expr] = {}
        self.kept: dict[Var, Var] = {}
        self.ahead: dict[Var, tuple[Var, Element]] = {}  # inputs loaded before the first phase
        self.along: Fragments = {}  # vectors along the columns loaded then

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
        if self.mapping.residence == "register":
            self._load_ahead()
        if self.mapping.ahead:
            self._load_along_ahead()

    def _allocate_kept(self) -> None:
        mapping = self.mapping
        each = mapping.vector * mapping.steps
        for buffer in self.residency.kept:
            if mapping.residence == "register":
                tile = self.tile(f"{buffer.name}_kept", dtype_of(buffer))
            else:
                size = each * mapping.block_threads
                tile = self.writer.allocate(
                    f"{buffer.name}_kept", size, dtype_of(buffer), "shared.dyn"
                )
            self.kept[buffer] = tile

    def tile(self, name: str, dtype: str) -> Var:
        """Registers for all elements of a thread.

        Where not all of them exist, they are set to zero first: TVM would otherwise allocate only
        those that are seen to be used, and count them from one that it finds at run time.
        """
        each = self.mapping.vector * self.mapping.steps
        tile = self.writer.allocate(name, each, dtype)
        if any(steps.care == "edge" for steps in self.position.steps()):
            with self.writer.unrolled(each, "element") as element:
                self.writer.store(tile, element, tirx.const(0, dtype))
        return tile

    def slot(self, step: Expr, lane: Expr) -> Expr:
        """Where a thread keeps an element. In shared memory, neighbours' vectors are neighbours."""
        if self.mapping.residence == "register":
            return self.own_slot(step, lane)
        vector = step * self.mapping.block_threads + self.block_thread
        return vector * self.mapping.vector + lane

    # Phases

    def emit_phase(self, number: int) -> None:
        """Write what is computed between two reductions."""
        phase = Phase(number, self.ahead if number == 0 else {})
        self._emit_row_stages(number)
        for stage in self.program.stages:
            if stage.output not in self.sums and self._ends(stage, number):
                started = reduce.start(self.writer, stage, self.mapping)
                phase.accumulators[stage.output] = started
        roots = self._roots(phase)
        if not roots:
            return
        needed = self._needed(roots, number)
        self._load_row_scalars(needed)
        for steps in self.position.steps():
            with self.writer.when(self.position.works):
                if self.mapping.residence == "register":
                    with self.writer.unrolled(steps.count, "step", steps.start) as step:
                        Step(self, phase, needed, step, steps.care).emit()
                else:
                    self._emit_flights(phase, needed, steps)
        if phase.accumulators:
            results = reduce.finish(
                self.writer,
                list(phase.accumulators.values()),
                self.mapping,
                self.position,
            )
            self.row_values.update(results)
            for output, value in results.items():
                self._store_row(output, value)

    def _emit_flights(self, phase: Phase, needed: list[Stage], steps: Steps) -> None:
        """Some steps at a time: the loads of all of them are issued before the first is used."""
        needs, inputs = self.residency.needed, self.program.inputs
        first = [b for b in inputs if phase.number in needs.get(b, ())]
        each = self.mapping.vector * sum(item_bytes(dtype_of(buffer)) for buffer in first)
        flight = max(1, FLIGHT_BYTES // max(each, ACCESS_BYTES))
        flight = min(steps.count, flight) if isinstance(steps.count, int) else flight
        many, rest = steps.count // flight, steps.count % flight
        with self.writer.serial(many, "flight") as number:
            self._emit_flight(phase, needed, first, steps, steps.start + number * flight, flight)
        done = steps.start + many * flight
        if not isinstance(rest, int):
            with self.writer.serial(rest, "last") as number:
                self._emit_flight(phase, needed, first, steps, done + number, 1)
        elif rest:
            self._emit_flight(phase, needed, first, steps, int64(done), rest)

    def _emit_flight(
        self,
        phase: Phase,
        needed: list[Stage],
        first: list[Var],
        steps: Steps,
        start: Expr,
        count: int,
    ) -> None:
        writer, vector = self.writer, self.mapping.vector
        tiles = {
            buffer: writer.allocate(f"{buffer.name}_in", vector * count, dtype_of(buffer))
            for buffer in first
        }

        def slots(number: Expr) -> Element:
            return lambda _, lane: number * vector + lane

        with writer.unrolled(count, "load") as number:
            for buffer, tile in tiles.items():
                self.copy_in(buffer, tile, start + number, steps.care, slots(number))
        with writer.unrolled(count, "step") as number:
            loaded = {buffer: (tile, slots(number)) for buffer, tile in tiles.items()}
            of_step = replace(phase, loaded=loaded)
            Step(self, of_step, needed, start + number, steps.care).emit()

    def _ends(self, stage: Stage, number: int) -> bool:
        """Whether a stage is a reduction whose values a phase adds up."""
        return stage.is_reduction and self.residency.available[stage.output] - 1 == number

    def _roots(self, phase: Phase) -> list[Stage]:
        """Reductions and outputs of a phase."""
        available = self.residency.available
        return [
            stage
            for stage in self.program.stages
            if self._ends(stage, phase.number)
            or (
                stage.output in self.program.outputs
                and self.program.is_full(stage.output)
                and available[stage.output] == phase.number
            )
        ]

    def _needed(self, roots: list[Stage], number: int) -> list[Stage]:
        """The stages whose elements a phase computes, in order."""
        wanted = {stage.output for stage in roots}
        for stage in reversed(self.program.stages):
            if stage.output in wanted and not self.waits(stage.output, number):
                for read in stage.reads:
                    if self.program.place(stage, read) is Where.SAME:
                        wanted.add(read.buffer)
        return [
            stage
            for stage in self.program.stages
            if stage.output in wanted and not self.waits(stage.output, number)
        ]

    def waits(self, buffer: Var, number: int) -> bool:
        """Whether a value has been kept by an earlier phase."""
        return buffer in self.residency.kept and self.residency.kept[buffer][0] < number

    def _emit_row_stages(self, number: int) -> None:
        for stage in self.program.stages:
            buffer = stage.output
            if stage.is_reduction or self.program.holds(buffer) is not Where.ROW:
                continue
            if self.residency.available[buffer] != number:
                continue
            self._load_row_scalars([stage])
            known = partial(self.row_value, stage)
            self.row_values[buffer] = self.writer.value(
                stage.name, self.value(stage, known, int64(0))
            )
            self._store_row(buffer, self.row_values[buffer])

    def _store_row(self, buffer: Var, value: Expr) -> None:
        if buffer not in self.program.outputs:
            return
        first = self.position.thread == 0
        if self.mapping.split or self.mapping.cluster > 1:
            first = tirx.all(first, self.position.rank == 0)
        if self.position.row_exists is not None:
            first = tirx.all(first, self.position.row_exists)
        with self.writer.when(first):
            self.writer.store(self.views[buffer], self.position.row, value)

    def _load_row_scalars(self, stages: list[Stage]) -> None:
        """Loads that do not depend on the column, once for the row."""
        inputs = self.program.inputs
        for stage in stages:
            for read in stage.reads:
                if read.guarded or read.buffer not in inputs or self._is_same(stage, read):
                    continue
                address = self.frame.address(stage, read)
                if address.stride is Stride.STILL and address.key not in self.row_loads:
                    name = f"{read.buffer.name}_of_row"
                    value = self.load(address, int64(0))
                    self.row_loads[address.key] = self.writer.value(name, value)

    def _is_same(self, stage: Stage, read: Read) -> bool:
        return self.program.place(stage, read) is Where.SAME

    def _load_ahead(self) -> None:
        """All loads of the row in the first phase are issued before their first use."""
        for buffer in self.first_inputs():
            tile = self.kept.get(buffer)
            if tile is None:
                tile = self.tile(f"{buffer.name}_ahead", dtype_of(buffer))
            self.ahead[buffer] = (tile, self.own_slot)
        tiles = {buffer: tile for buffer, (tile, _) in self.ahead.items()}
        if self.following is None:
            self.load_row(tiles, self.position)
            return
        for buffer, tile in tiles.items():
            each = self.mapping.vector * self.mapping.steps
            with self.writer.unrolled(each, "element") as element:
                self.writer.store(tile, element, self.following.tiles[buffer][element])
        with self.writer.when(self.following.exists):
            self.load_row(self.following.tiles, self.following.position)

    def first_inputs(self) -> list[Var]:
        """The inputs of which the first phase needs whole rows."""
        return [b for b in self.program.inputs if 0 in self.residency.needed.get(b, ())]

    def load_row(self, tiles: MappingOf[Var, Var], position: Position) -> None:
        """A thread's share of a row of each input, into registers."""
        for steps in position.steps():
            with (
                self.writer.when(position.works),
                self.writer.unrolled(steps.count, "step", steps.start) as step,
            ):
                for buffer, tile in tiles.items():
                    self.copy_in(buffer, tile, step, steps.care, self.own_slot, position)

    def _load_along_ahead(self) -> None:
        """Vectors along the columns that do not depend on the row, for all phases and rows."""
        if self.along:
            return
        reads = [(stage, read) for stage in self.program.stages for read in stage.reads]
        found = [along for along in self.plan_along(reads) if not along.of_row]
        for along in found:
            buffer = along.address.buffer
            tile = self.tile(f"{buffer.name}_along", dtype_of(buffer))
            self.along |= {address.key: (tile, self.own_slot) for address in along.serves}
        for steps in self.position.steps():
            if steps.care == "edge":
                continue
            with (
                self.writer.when(self.position.works),
                self.writer.unrolled(steps.count, "step", steps.start) as step,
            ):
                guard = self.position.inside(step, int64(0)) if steps.care == "vector" else None
                with self.writer.when(guard):
                    for along in found:
                        tile, element = self.along[along.address.key]
                        self.load_along(along, tile, step, element)

    def own_slot(self, step: Expr, lane: Expr) -> Expr:
        """Where a thread has an element in a tile of registers."""
        return step * self.mapping.vector + lane

    # Copies between device memory and a thread's registers

    def plan_along(self, reads: Iterable[tuple[Stage, Read]]) -> list[Along]:
        """The vectors along the columns among loads of inputs."""
        if self.mapping.vector == 1 or self.mapping.peeled:
            return []
        inputs = self.program.inputs
        addresses = [
            self.frame.address(stage, read)
            for stage, read in reads
            if read.buffer in inputs and not self._is_same(stage, read)
        ]
        return plan_along(self.frame, addresses, self.mapping.vector)

    def load_along(self, along: Along, tile: Var, step: Expr, element: Element) -> None:
        """A vector along the columns; where it is not loaded, nothing uses it."""
        width, view, row = along.width, self.views[along.address.buffer], self.position.row
        with self.writer.unrolled(self.mapping.vector // width, "part") as number:
            column = self.position.column(step, number * width)
            with (
                self.writer.when(along.guard(row, column)),
                self.writer.vectorized(width, "lane") as lane,
            ):
                # One place for all lanes: contiguity was proven, TVM need not find it again.
                value = self.redirected(view[along.at(row, column) + lane])
                self.writer.store(tile, element(step, number * width + lane), value)

    def copy_in(
        self,
        buffer: Var,
        tile: Var,
        step: Expr,
        care: str,
        element: Element,
        position: Position | None = None,
    ) -> None:
        """A vector of an input into a tile."""
        place = position or self.position

        def move(writer: Writer, lane: Expr) -> None:
            at = place.address(step, lane)
            writer.store(tile, element(step, lane), self.views[buffer][at])

        self._copy(dtype_of(buffer), step, care, move)

    def copy_out(self, buffer: Var, tile: Var, step: Expr, care: str, element: Element) -> None:
        """A vector of a tile into an output."""

        def move(writer: Writer, lane: Expr) -> None:
            at = self.position.address(step, lane)
            writer.store(self.views[buffer], at, tile[element(step, lane)])

        self._copy(dtype_of(buffer), step, care, move)

    def _copy(
        self, dtype: str, step: Expr, care: str, move: Callable[[Writer, Expr], None]
    ) -> None:
        vector = self.mapping.vector
        if vector == 1:
            with self.writer.when(None if care == "none" else self.position.inside(step, int64(0))):
                move(self.writer, int64(0))
        elif care == "edge":
            with self.writer.branch(self.position.whole(step)) as (then, otherwise):
                vector_copy(then, dtype, vector, move)
                with (
                    otherwise.unrolled(vector, "lane") as lane,
                    otherwise.when(self.position.inside(step, lane)),
                ):
                    move(otherwise, lane)
        else:
            with self.writer.when(
                self.position.inside(step, int64(0)) if care == "vector" else None
            ):
                vector_copy(self.writer, dtype, vector, move)

    # Values

    def load(self, address: Address, column: Expr) -> Expr:
        """A load of one element; loads inside of its index are redirected as well."""
        index = address.at(self.position.row, column)
        return self.redirected(self.views[address.buffer][index])

    def redirected(self, expr: Expr) -> Expr:
        """The expression with loads from parameters as loads from their flat views."""
        return tvm_ffi.structural_map(expr, (ir.TensorLoad, partial(flat_load, self.views)))

    def row_value(self, stage: Stage, read: Read) -> Expr | None:
        """What a load gives where that is one value for the row."""
        if read.buffer in self.row_values:
            return self.row_values[read.buffer]
        address = self.frame.address(stage, read)
        return self.row_loads.get(address.everywhere.key)

    def value(self, stage: Stage, known: Callable[[Read], Expr | None], column: Expr) -> Expr:
        """A stage's value at a column, loads replaced by what is known of them."""
        replacements: dict[int, Expr] = {}
        for read in stage.reads:
            found = known(read)
            if found is None:
                found = self.load(self.frame.address(stage, read), column)
            replacements[read.key] = found
        axes = {
            axis: substitute(expr, {ROW: self.position.row, COLUMN: column})
            for axis, expr in self.frame.axes(stage).items()
        }

        def visit(node: Expr) -> Expr:
            if isinstance(node, ir.TensorLoad):
                return replacements.get(handle(node), node)
            return axes.get(node, node)

        return tvm_ffi.structural_map(
            stage.value, [(ir.TensorLoad, visit), (tirx.Var, visit)], order="pre"
        )
