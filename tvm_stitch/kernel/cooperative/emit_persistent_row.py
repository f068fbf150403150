"""Emits rows that wait in shared memory between the rounds of a grid.

In: what a Part is made of, and the place of its row. Writes TIR into a Writer. Decides nothing. A
thread reads there only what it has put there itself, so nothing has to be waited for.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass

from tvm import tirx

from tvm_stitch.kernel.codegen.thread_indexing import Position, piece_of
from tvm_stitch.kernel.codegen.tir_builder import Place, Writer, vector_copy
from tvm_stitch.kernel.cooperative.footprint import (
    Parts,
    loads_inputs_separately,
    smem_slots,
)
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.phases import Phase
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.emit import Part
from tvm_stitch.stages.stage import Expr, Var, dtype_of
from tvm_stitch.stages.symbolic_analyzer import int64


@dataclass(frozen=True, eq=False)
class Tile:
    """Shared memory of a block, with a place for each iteration of the grid."""

    buffer: Var
    each: int  # elements of a place
    start: int  # where an input begins in a place


@dataclass(frozen=True, eq=False, kw_only=True)
class RoundPlace(Place):
    """What waits, and which iteration of the grid a block is in."""

    tile: Var | None  # of shared memory, where rows side by side are combined
    tiles: MappingOf[Var, Tile]  # where rows wait, by input
    iteration: Expr
    is_reversed: bool  # whether the rows that do not wait are read from the last to the first


def persistent_tiles(parts: Parts, blocks: int, writer: Writer) -> dict[Var, Tile]:
    """Shared memory where rows of inputs wait, by input."""
    found: dict[Var, Tile] = {}
    for slot in smem_slots(parts, blocks):
        name = f"{next(iter(slot.inputs)).name}_persistent"
        tile = writer.allocate(name, slot.elements, slot.dtype, "shared.dyn")
        found |= {buffer: Tile(tile, slot.each, start) for buffer, start in slot.inputs.items()}
    return found


class PersistentRow(Part):
    """A row that may come from shared memory or go there."""

    def __init__(
        self,
        program: Program,
        mapping: Mapping,
        place: RoundPlace,
        position: Position,
        sums: MappingOf[Var, Var] | None = None,
    ) -> None:
        super().__init__(program, mapping, place, position, sums)
        self.round = place
        self.slot_of_row: Expr | None = None  # of the iteration's rows; None: it does not wait
        self.waits_if: Expr | None = None  # None: always

    def beside(self, position: Position) -> PersistentRow:
        """The same for another row, as far as known one that does not wait."""
        other = super().beside(position)
        assert isinstance(other, PersistentRow)
        other.slot_of_row = None
        return other

    def loads_of(self, phase: Phase) -> tuple[Var, ...]:
        """Of a long row of several inputs, only what persists is loaded as a whole."""
        if not loads_inputs_separately(self.program):
            return phase.loads
        return tuple(b for b in phase.loads if b in self.program.persistent_inputs)

    def load_row(self, tiles: MappingOf[Var, Var], position: Position) -> None:
        """A thread's share of a row of each input, from where it is."""
        waiting = {
            b: tile for b, tile in tiles.items() if self._waits(b, self.program.reused_inputs)
        }
        others = {b: tile for b, tile in tiles.items() if b not in waiting}
        super().load_row(others, position)
        if not waiting:
            return
        with self.writer.when(self.waits_if):
            self._copy_waiting(waiting, out=False)
        if self.waits_if is not None:
            with self.writer.when(tirx.Not(self.waits_if)):
                super().load_row(waiting, position)

    def leave(self) -> None:
        """What the next rounds want, from the thread's registers to shared memory."""
        ahead = {buffer: tile for buffer, (tile, _) in self.ahead.items()}
        fresh = tuple(
            b for b in self.program.persistent_inputs if b not in self.program.reused_inputs
        )
        leaving = {b: tile for b, tile in ahead.items() if self._waits(b, fresh)}
        if leaving:
            with self.writer.when(self.waits_if):
                self._copy_waiting(leaving, out=True)

    def _waits(self, buffer: Var, among: tuple[Var, ...]) -> bool:
        return self.slot_of_row is not None and buffer in among

    def _copy_waiting(self, tiles: MappingOf[Var, Var], out: bool) -> None:
        for steps in self.position.steps():
            with (
                self.writer.unrolled(steps.count, "step", steps.start) as step,
                self.writer.when(self.position.exists(step, steps.guard)),
            ):
                for buffer, tile in tiles.items():
                    self._copy_vector(buffer, tile, step, out)

    def _copy_vector(self, buffer: Var, tile: Var, step: Expr, out: bool) -> None:
        mapping, waiting = self.mapping, self.round.tiles[buffer]
        assert self.slot_of_row is not None, "rows that wait have a place"
        row = self.slot_of_row * mapping.rows + self.position.row_of_block
        column = self.position.column(step, int64(0)) - self.position.rank * mapping.reach
        start = row * piece_of(self.program.space, mapping) + column
        start, there = start + self.round.iteration * waiting.each + waiting.start, waiting.buffer

        def move(writer: Writer, lane: Expr) -> None:
            here = self.own_slot(step, lane)
            if out:
                writer.store(there, start + lane, tile[here])
            else:
                writer.store(tile, here, there[start + lane])

        vector_copy(self.writer, dtype_of(buffer), mapping.vector, move)
