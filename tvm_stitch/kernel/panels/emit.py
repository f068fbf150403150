"""Where the threads of a panel have their elements; what they do with them is as in any rows.

In: a Program of rows in pieces, its Mapping. Out: a Position for rows/emit, and parts whose rows
lie side by side in memory: they share tiles, and vectors of all of them are read and written at
once. Must not know what is computed.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from copy import copy

from tvm import tirx

from tvm_stitch.kernel.codegen import reduction
from tvm_stitch.kernel.codegen.thread_indexing import Guard, Position, Steps
from tvm_stitch.kernel.codegen.tir_builder import Place, Writer, vector_copy
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.phases import Phase
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.emit import Part, emit_rows, go_through_phase
from tvm_stitch.kernel.rows.global_access import Element
from tvm_stitch.stages.stage import Expr, Var, as_int64, constant, dtype_of
from tvm_stitch.stages.symbolic_analyzer import int64


class PanelPosition(Position):
    """A thread's place in a panel."""

    def _place_group(self, group: Expr, number: int, writer: Writer) -> None:
        """Of adjacent rows, which begin at a multiple of their number, all exist or none."""
        if not self.mapping.adjacent:
            super()._place_group(group, number, writer)
            return
        batch, rows = self.mapping.batch, constant(self.space.rows)
        first = group * self.mapping.block_rows + self.row_of_block * batch
        if rows is None or rows % self.mapping.block_rows:
            self.row_exists = first < self.space.rows
            # Threads past the end take the last rows; where these are known at run time only, the
            # first: TVM sees then that rows begin at a multiple of a vector, and not below 0.
            first = (
                tirx.Select(self.row_exists, first, int64(0))
                if rows is None
                else tirx.min(first, rows - batch)
            )
        self.number, self.row = number, first + number

    def _start_row(self, _writer: Writer) -> None:
        """Where a thread's row begins: steps along it are then the same for all threads."""
        number = self.number if self.mapping.adjacent else 0
        self.origin = self.space.flat(self.row - number, int64(0)) + number
        self.first_column = int64(0)

    def address(self, step: Expr, lane: Expr) -> Expr:
        """Of an element in memory."""
        return self.origin + self.space.distance(self.offset(step)) + lane


class AdjacentPart(Part):
    """One of a thread's adjacent rows. Its elements alternate with those of the others."""

    def __init__(
        self, program: Program, mapping: Mapping, place: Place, position: PanelPosition
    ) -> None:
        super().__init__(program, mapping, place, position)
        self.tiles = dict[str, Var]()
        self.opened: dict[int, Expr] = {}  # the barriers of all rows, which the first opens
        self.first_step: Expr = int64(0)  # of those whose outputs are gathered now

    def next_to(self, position: PanelPosition) -> AdjacentPart:
        """The row beside it."""
        other = copy(self)
        other.position, other.number = position, position.number
        other.row_values, other.row_loads = {}, {}
        other.kept, other.ahead = {}, {}
        return other

    def begin(self) -> None:
        """Make room for outputs as well, where all steps are taken at once."""
        if self.mapping.residence == "register":
            for buffer in filter(self.program.is_full, self.program.outputs):
                self.tile(_gathered(buffer), dtype_of(buffer))
        super().begin()

    def begin_steps(self, phase: Phase, steps: Steps) -> None:
        """Make room for what all rows have at these steps of the outputs."""
        self.first_step = as_int64(steps.start)
        if self.number:
            return
        for buffer in filter(self.program.is_full, phase.stores):
            size, name = steps.count * self.mapping.batch, _gathered(buffer)
            self.tiles[name] = self.writer.allocate(name, size, dtype_of(buffer))

    def _open_barriers(self) -> None:
        if not self.number:
            super()._open_barriers()
            self.opened |= self.barriers
        self.barriers = self.opened

    def awaits_barriers(self, number: int) -> bool:
        """Whether all blocks of a cluster must be there before a phase ends: once for all rows."""
        return not self.number and super().awaits_barriers(number)

    def tile(self, name: str, dtype: str) -> Var:
        """Registers for all elements of the thread's rows."""
        if name not in self.tiles:
            each = self.mapping.steps * self.mapping.batch
            self.tiles[name] = self.writer.allocate(name, each, dtype)
        return self.tiles[name]

    def shared_tile(self, name: str, size: int, dtype: str) -> Var:
        """Shared memory for all elements of a block's rows."""
        if name not in self.tiles:
            self.tiles[name] = super().shared_tile(name, size * self.mapping.batch, dtype)
        return self.tiles[name]

    def slot(self, step: Expr, lane: Expr) -> Expr:
        """Where a thread keeps an element. In shared memory, neighbours have neighbouring ones."""
        if self.mapping.residence == "register":
            return self.own_slot(step, lane)
        return self.own_slot(step, lane) * self.mapping.block_threads + self.place.thread

    def own_slot(self, step: Expr, lane: Expr) -> Expr:
        """Where a thread has an element in a tile of registers."""
        return step * self.mapping.batch + self.number + lane

    def load_row(self, tiles: MappingOf[Var, Var], position: Position) -> None:
        """A thread's share of all its rows, into registers, by the first of them."""
        if self.number:
            return
        for steps in position.steps():
            with self.writer.unrolled(steps.count, "step", steps.start) as step:
                for buffer, tile in tiles.items():
                    self.copy_in_rows(buffer, tile, step, steps.guard, self.own_slot)

    def copy_in_rows(
        self, buffer: Var, tile: Var, step: Expr, guard: Guard, element: Element
    ) -> None:
        """A vector of all rows into a tile, of the first row's elements and those behind it."""

        def move(writer: Writer, lane: Expr) -> None:
            value = self.views[buffer][self.position.address(step, int64(0)) + lane]
            writer.store(tile, element(step, int64(0)) + lane, value)

        with self.writer.when(self.position.exists(step, guard)):
            vector_copy(self.writer, dtype_of(buffer), self.mapping.batch, move)

    def store_element(self, buffer: Var, step: Expr, value: Expr) -> None:
        """An element of an output; with the last row's, those of all rows go to memory."""
        batch, tile = self.mapping.batch, self.tiles[_gathered(buffer)]
        gathered = step - self.first_step
        self.writer.store(tile, self.own_slot(gathered, int64(0)), value)
        if self.number < batch - 1:
            return
        first = self.position.address(step, int64(0)) - self.number

        def move(writer: Writer, lane: Expr) -> None:
            writer.store(self.views[buffer], first + lane, tile[gathered * batch + lane])

        with self.writer.when(self.position.row_exists):
            vector_copy(self.writer, dtype_of(buffer), batch, move)


def _gathered(buffer: Var) -> str:
    return f"{buffer.name}_out"


def emit_panel(program: Program, mapping: Mapping, place: Place) -> Expr:
    """Write a part; the number of its blocks."""
    if not mapping.adjacent:
        return emit_rows(program, mapping, place, PanelPosition)
    positions = [
        PanelPosition(program.space, mapping, place, number=number)
        for number in range(mapping.batch)
    ]
    first = AdjacentPart(program, mapping, place, positions[0])
    parts = [first, *map(first.next_to, positions[1:])]
    for part in parts:
        part.begin()
    for phase in first.phases.phases:
        states = go_through_phase(parts, phase)
        if not phase.reductions:
            continue
        endings = [part.ending(state) for part, state in zip(parts, states, strict=True)]
        results = reduction.finish(place.writer, endings, mapping)
        for part, found in zip(parts, results, strict=True):
            part.end_phase(found)
    return first.position.blocks
