"""Emits a part whose blocks work on tiles, so that transposed reads are read in whole lines.

In: a Tiling beside what any part gets. Writes TIR into a Writer. Decides nothing.
"""

from __future__ import annotations

import tvm
from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen.thread_indexing import Guard, Position, Steps
from tvm_stitch.kernel.codegen.tir_builder import Place, all_of, divided
from tvm_stitch.kernel.elementwise.transposed_reads import (
    ACROSS,
    INNER,
    MIDDLE,
    OUTER,
    Tiling,
    neighbours,
    pitch_of,
    place_in_tile,
    shuffled,
    tile_rows,
)
from tvm_stitch.kernel.ir.iteration_space import Space
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.rows.emit import Part
from tvm_stitch.stages.stage import Expr, Var, dtype_of, substitute
from tvm_stitch.stages.symbolic_analyzer import int64


class TilePosition(Position):
    """A thread's place in a block's tile."""

    def __init__(self, tiling: Tiling, space: Space, mapping: Mapping, place: Place) -> None:
        self.tiling, self.block = tiling, place.block
        super().__init__(space, mapping, place)

    @property
    def _pieces(self) -> tuple[int, int]:
        """Tiles along `across` and along `inner`."""
        mapping, tiling = self.mapping, self.tiling
        return -(-tiling.across // tile_rows(mapping)), -(-tiling.inner // mapping.tile)

    @property
    def blocks(self) -> Expr:
        """Blocks that the space takes."""
        tiling = self.tiling
        across, inner = self._pieces
        outer = tirx.floordiv(self.space.columns, tiling.across * tiling.middle * tiling.inner)
        return tvm.sym.Analyzer().simplify(outer * (tiling.middle * across * inner))

    def place(self, across: Expr, inner: Expr) -> dict[Var, Expr]:
        """An element of the tile in the tiling's axes."""
        mapping, tiling = self.mapping, self.tiling
        count_across, count_inner = self._pieces
        rest, tile = divided(self.block, count_inner)
        rest, line = divided(rest, count_across)
        outer, middle = divided(rest, tiling.middle)
        return {
            OUTER: outer,
            MIDDLE: middle,
            ACROSS: line * tile_rows(mapping) + across,
            INNER: tile * mapping.tile + inner,
        }

    def inside_of(self, place: dict[Var, Expr]) -> Expr | None:
        """Whether an element of the tile exists; None: all do."""
        tiling, mapping = self.tiling, self.mapping
        return all_of(
            place[ACROSS] < tiling.across if tiling.across % tile_rows(mapping) else None,
            place[INNER] < tiling.inner if tiling.inner % mapping.tile else None,
        )

    def own(self, step: Expr) -> tuple[Expr, Expr]:
        """The first element of a thread's vector in the tile, across and inner."""
        mapping = self.mapping
        iteration, line = divided(step, self.lines)
        number = iteration * mapping.threads + self.thread
        across, inner = divided(number, mapping.tile // mapping.vector)
        return across * self.lines + line, inner * mapping.vector

    @property
    def lines(self) -> int:
        """Neighbours across that a thread has, so that it need not read half a bank."""
        return neighbours(self.tiling, self.mapping)

    def offset(self, step: Expr) -> Expr:
        """The column of a thread's vector."""
        place = self.place(*self.own(step))
        return self.tiling.column(place[OUTER], place[ACROSS], place[MIDDLE], place[INNER])

    def inside(self, step: Expr, lane: Expr) -> Expr:
        """Whether an element exists; vectors do as a whole, or not."""
        found = self.inside_of(self.place(*self.own(step)))
        return tirx.const(True, "bool") if found is None else found

    def whole(self, step: Expr) -> Expr:
        """Whether a vector exists."""
        return self.inside(step, int64(0))

    def steps(self) -> list[Steps]:
        """All steps have the same guard."""
        even = self.inside_of(self.place(*self.own(int64(0)))) is None
        return [Steps(0, self.mapping.steps, Guard.NONE if even else Guard.VECTOR)]


class TilePart(Part):
    """A part that fetches its transposed reads before it begins."""

    position: TilePosition

    def begin(self) -> None:
        """Issue all loads, those of the tiles first, and synchronise."""
        tiles = [self._fetch(number) for number in range(len(self.position.tiling.addresses))]
        super().begin()
        for number, (registers, tile) in enumerate(tiles):
            self._spread(number, registers, tile)
        self.writer.add(tirx.Evaluate(T.tvm_storage_sync("shared")))
        for number, (_, tile) in enumerate(tiles):
            self._collect(number, tile)

    def _fetch(self, number: int) -> tuple[Var, Var]:
        """Loads of one tile into registers, and the room where they will go."""
        address, writer = self.position.tiling.addresses[number], self.writer
        dtype, name = dtype_of(address.buffer), address.buffer.name
        size = self.mapping.tile * pitch_of(address.buffer, self.mapping)
        tile = writer.allocate(f"{name}_tile", size, dtype, "shared")
        vector = self._vector(number)
        registers = writer.allocate(f"{name}_lines", self._iterations(vector) * vector, dtype)
        with writer.unrolled(self._iterations(vector), "iteration") as iteration:
            across, inner = self._from(vector, iteration)
            place = self.position.place(across, inner)
            index = substitute(self.position.tiling.indices[number], place)
            with (
                writer.when(self._exists(vector, iteration, place)),
                writer.vectorized(vector, "lane") as lane,
            ):
                value = self.views[address.buffer][index + lane]
                writer.store(registers, iteration * vector + lane, value)

        return registers, tile

    def _spread(self, number: int, registers: Var, tile: Var) -> None:
        """From registers to the tile."""
        vector, writer = self._vector(number), self.writer
        buffer = self.position.tiling.addresses[number].buffer
        width = min(vector, shuffled(buffer, self.mapping) or 1)
        with writer.unrolled(self._iterations(vector), "iteration") as iteration:
            across, inner = self._from(vector, iteration)
            exists = self._exists(vector, iteration, self.position.place(across, inner))
            with (
                writer.when(exists),
                writer.unrolled(vector // width, "part") as part,
                writer.vectorized(width, "lane") as lane,
            ):
                first = part * width
                place = place_in_tile(buffer, self.mapping, inner, across + first)
                writer.store(tile, place + lane, registers[iteration * vector + first + lane])

    def _collect(self, number: int, tile: Var) -> None:
        """From the tile to registers, across it: as many neighbours at once as a bank has."""
        position, writer = self.position, self.writer
        address = position.tiling.addresses[number]
        buffer, vector, lines = address.buffer, self.mapping.vector, position.lines
        size = vector * self.mapping.steps
        registers = writer.allocate(f"{buffer.name}_across", size, dtype_of(buffer))
        with writer.unrolled(self.mapping.steps // lines, "iteration") as iteration:
            across, inner = position.own(iteration * lines)
            exists = position.inside_of(position.place(across, inner))
            with (
                writer.when(exists),
                writer.unrolled(vector, "lane") as lane,
                writer.vectorized(lines, "line") as line,
            ):
                place = place_in_tile(buffer, self.mapping, inner + lane, across)
                writer.store(
                    registers, (iteration * vector + lane) * lines + line, tile[place + line]
                )

        def element(step: Expr, lane: Expr) -> Expr:
            iteration, line = divided(step, lines)
            return (iteration * vector + lane) * lines + line

        self.vectors[address.key] = (registers, element)

    def _vector(self, number: int) -> int:
        """Elements of an access to the memory of one tile."""
        return min(self.position.tiling.vectors[number], tile_rows(self.mapping))

    def _iterations(self, vector: int) -> int:
        return -(-self.mapping.reach // (self.mapping.threads * vector))

    def _from(self, vector: int, iteration: Expr) -> tuple[Expr, Expr]:
        """The element of the tile at which a thread's load begins, across and inner."""
        number = iteration * self.mapping.threads + self.position.thread
        inner, across = divided(number, tile_rows(self.mapping) // vector)
        return across * vector, inner

    def _exists(self, vector: int, iteration: Expr, place: dict[Var, Expr]) -> Expr | None:
        """Whether a thread has anything to load."""
        inside, mapping = self.position.inside_of(place), self.mapping
        if mapping.reach % (mapping.threads * vector) == 0:
            return inside
        number = iteration * mapping.threads + self.position.thread
        return all_of(inside, number < mapping.reach // vector)
