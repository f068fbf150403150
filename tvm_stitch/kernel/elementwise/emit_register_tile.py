"""Emits a part whose threads have a register tile: lines that share what they read.

In: what any part gets, and a Tile. Writes TIR into a Writer. Decides nothing.

Stages that load come one after the other, each for all lines before the next: the vectors of one
stage are in registers at a time, and the sums of all lines.
"""

from __future__ import annotations

import tvm
from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import COLUMN, ROW, Address, Stride
from tvm_stitch.kernel.analysis.vector_loads import VectorAccess, VectorLoad
from tvm_stitch.kernel.codegen.thread_indexing import Guard, Position
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES, Place, divided
from tvm_stitch.kernel.elementwise.overlapping_reads import (
    GROUP,
    PIECE,
    RegisterTile,
    Tile,
    tile_of,
)
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.emit import Part
from tvm_stitch.kernel.rows.emit_vector import Step, in_turn
from tvm_stitch.stages.stage import Expr, Var, constant, element_bytes, substitute
from tvm_stitch.stages.symbolic_analyzer import int64


def emit_register_tile(program: Program, mapping: RegisterTile, place: Place) -> Expr:
    """Write a part, line by line of each stage; the number of its blocks."""
    tile = tile_of(program, mapping.lines, mapping.vector)
    position = LinePosition(tile, 0, program, mapping, place)
    (steps,) = position.steps()
    with place.writer.when(position.exists(int64(0), steps.guard)):
        if tile.last == tile.count:
            _emit_lines(tile, tile.count, program, mapping, place)
        else:
            is_last = position.placed(tile.is_last)
            for condition, lines in ((tirx.Not(is_last), tile.count), (is_last, tile.last)):
                with place.writer.when(condition):
                    _emit_lines(tile, lines, program, mapping, place)
    return position.blocks


def _emit_lines(
    tile: Tile, count: int, program: Program, mapping: RegisterTile, place: Place
) -> None:
    """So many of a tile's lines."""
    vectors = dict[object, Var]()
    parts = [LinePart(tile, line, vectors, program, mapping, place) for line in range(count)]
    for part in parts:
        part.begin()
    (phase,) = parts[0].phases.phases
    lines = [
        Step(part, part.begin_phase(phase), phase.stages, int64(0), Guard.NONE) for part in parts
    ]
    for stages, later in in_turn(phase.stages, lambda stage: tile.registers([stage])):
        for line in lines:
            line.compute(stages, later)
    for line in lines:
        line.end()


class LinePosition(Position):
    """A thread's place in one line of its tile."""

    def __init__(
        self, tile: Tile, line: int, program: Program, mapping: RegisterTile, place: Place
    ) -> None:
        self._tile, self.line = tile, line
        group, piece = divided(place.block * mapping.threads + place.thread, tile.pieces)
        self._here = {GROUP: group, PIECE: piece}
        super().__init__(program.space, mapping, place)

    @property
    def blocks(self) -> Expr:
        """Blocks that all groups take."""
        each = self.mapping.threads
        count = tirx.floordiv(self._tile.groups * self._tile.pieces + (each - 1), each)
        return tvm.sym.Analyzer().simplify(count)

    def _guard(self, step: int) -> Guard:
        threads = constant(self._tile.groups * self._tile.pieces)
        is_covered = threads is not None and threads % self.mapping.threads == 0
        return Guard.NONE if is_covered else Guard.VECTOR

    def offset(self, step: Expr) -> Expr:
        """The column of the thread's vector."""
        return self.placed(self._tile.column(self.line))

    def placed(self, expr: Expr) -> Expr:
        """An expression of the tile's group and piece, for this thread."""
        return substitute(expr, self._here)


class LinePart(Part):
    """What one line of a tile has at hand; loaded vectors are all lines'."""

    position: LinePosition

    def __init__(
        self,
        tile: Tile,
        line: int,
        vectors: dict[object, Var],
        program: Program,
        mapping: RegisterTile,
        place: Place,
    ) -> None:
        self._tile, self._vectors = tile, vectors
        position = LinePosition(tile, line, program, mapping, place)
        super().__init__(program, mapping, place, position)

    def _load_ahead(self) -> None:
        """Nothing: what the lines share comes stage by stage."""

    def own_vector(self, buffer: Var, step: Expr, guard: Guard) -> Var:
        """Registers with the line's own elements, which another one may read as a neighbour's."""
        width = min(self.mapping.vector, ACCESS_BYTES // element_bytes(buffer))
        own = Address(buffer, self.program.space.flat(ROW, COLUMN), Stride.UNIT)
        return self.vector_at(VectorLoad.of_neighbours(own, None, width), step, None)

    def vector_at(
        self, load: VectorLoad, step: Expr, fill: Expr | None, _free: Var | None = None
    ) -> Var:
        """Registers with a vector, which another line may have loaded: none are shared."""
        line = self.position.line
        is_always_there = all(self._tile.guard(load, a, line) is None for a in load.accesses)
        key = self._tile.key(load, line), "" if is_always_there else str(fill)
        if key not in self._vectors:
            self._vectors[key] = super().vector_at(load, step, fill)
        return self._vectors[key]

    def load_vector(
        self, load: VectorLoad, tile: Var, step: Expr, number: Expr, fill: Expr | None = None
    ) -> None:
        """A vector, part by part: of each it is known where it lies."""
        for part in range(self.mapping.vector // load.lanes):
            self.load_part(load, tile, step, number, int64(part), fill)

    def guard_of(
        self, load: VectorLoad, access: VectorAccess, step: Expr, part: Expr
    ) -> Expr | None:
        """What must hold for an access of a part of a vector; None: nothing."""
        guard = self._tile.guard(load, access, self.position.line, int(part))
        return None if guard is None else self.position.placed(guard)

    def start_of(self, load: VectorLoad, step: Expr, part: Expr) -> Expr:
        """Where a part of a vector begins."""
        return self.position.placed(self._tile.start(load, self.position.line, int(part)))
