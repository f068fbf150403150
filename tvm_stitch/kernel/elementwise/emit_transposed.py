"""Emits a part whose blocks work on tiles, so that transposed reads are read in whole lines.

In: a Tiling beside what any part gets. Writes TIR into a Writer. Decides nothing.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

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
    place_in_run,
    place_in_tile,
    run_margin,
    run_of,
    shuffled,
    tile_rows,
    tile_size,
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
        size = tile_size(self.position.tiling, number, self.mapping)
        tile = writer.allocate(f"{name}_tile", size, dtype, "shared")
        loads = self._loads(number)
        vector = loads.vector
        registers = writer.allocate(f"{name}_lines", loads.iterations * vector, dtype)
        with (
            writer.unrolled(loads.iterations, "iteration") as iteration,
            writer.when(loads.exists(iteration)),
            writer.vectorized(vector, "lane") as lane,
        ):
            value = self.views[address.buffer][loads.index(iteration) + lane]
            writer.store(registers, iteration * vector + lane, value)
        return registers, tile

    def _spread(self, number: int, registers: Var, tile: Var) -> None:
        """From registers to the tile."""
        loads, writer = self._loads(number), self.writer
        vector, width = loads.vector, loads.width
        with (
            writer.unrolled(loads.iterations, "iteration") as iteration,
            writer.when(loads.exists(iteration)),
            writer.unrolled(vector // width, "part") as part,
            writer.vectorized(width, "lane") as lane,
        ):
            first = part * width
            place = loads.place(iteration, first)
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
                place = place_in_tile(position.tiling, number, self.mapping, inner + lane, across)
                writer.store(
                    registers, (iteration * vector + lane) * lines + line, tile[place + line]
                )

        def element(step: Expr, lane: Expr) -> Expr:
            iteration, line = divided(step, lines)
            return (iteration * vector + lane) * lines + line

        self.vectors[address.key] = (registers, element)

    def _loads(self, number: int) -> _Loads:
        """How a tile comes from memory."""
        is_run = run_of(self.position.tiling, number, self.mapping)
        return (_OfRun if is_run else _OfLines)(self.position, number)


class _Loads(ABC):
    """Accesses to the memory of one tile: each thread has one in every iteration."""

    vector: int  # elements of an access
    width: int  # of these, that are put into the tile together
    elements: int  # of memory, in whole tiles

    def __init__(self, position: TilePosition, number: int) -> None:
        self.position, self.tiling, self.mapping = position, position.tiling, position.mapping
        self.number = number
        self.buffer = self.tiling.addresses[number].buffer

    @property
    def iterations(self) -> int:
        """How many accesses a thread has."""
        return -(-self.elements // (self.mapping.threads * self.vector))

    @abstractmethod
    def index(self, iteration: Expr) -> Expr:
        """Where memory has the first element of an access."""

    @abstractmethod
    def place(self, iteration: Expr, first: Expr) -> Expr:
        """Where the tile has an element of it, by its number."""

    def exists(self, iteration: Expr) -> Expr | None:
        """Whether a thread has anything to load."""
        number, inside = self._of_thread(iteration), self._inside(iteration)
        if self.elements % (self.mapping.threads * self.vector) == 0:
            return inside
        return all_of(inside, number < self.elements // self.vector)

    @abstractmethod
    def _inside(self, iteration: Expr) -> Expr | None:
        """Whether an access is not beyond the tensor."""

    def _of_thread(self, iteration: Expr) -> Expr:
        return iteration * self.mapping.threads + self.position.thread

    def _at(self, across: Expr, inner: Expr) -> Expr:
        place = self.position.place(across, inner)
        return substitute(self.tiling.indices[self.number], place)


class _OfLines(_Loads):
    """Pieces of the lines along `across`."""

    def __init__(self, position: TilePosition, number: int) -> None:
        super().__init__(position, number)
        self.vector = min(self.tiling.vectors[number], tile_rows(self.mapping))
        self.width = min(self.vector, shuffled(self.buffer, self.mapping) or 1)
        self.elements = self.mapping.reach

    def index(self, iteration: Expr) -> Expr:
        """See the base class."""
        return self._at(*self._from(iteration))

    def place(self, iteration: Expr, first: Expr) -> Expr:
        """See the base class."""
        across, inner = self._from(iteration)
        return place_in_tile(self.tiling, self.number, self.mapping, inner, across + first)

    def _inside(self, iteration: Expr) -> Expr | None:
        return self.position.inside_of(self.position.place(*self._from(iteration)))

    def _from(self, iteration: Expr) -> tuple[Expr, Expr]:
        """The element of the tile at which a thread's load begins, across and inner."""
        number = self._of_thread(iteration)
        inner, across = divided(number, tile_rows(self.mapping) // self.vector)
        return across * self.vector, inner


class _OfRun(_Loads):
    """Pieces of one run of memory, in which short lines follow each other."""

    def __init__(self, position: TilePosition, number: int) -> None:
        super().__init__(position, number)
        self.vector = run_of(self.tiling, number, self.mapping)
        taken = self.tiling.across * self.mapping.vector
        margin = run_margin(self.tiling, number, self.mapping)
        self.width = math.gcd(self.vector, taken, margin)
        self.elements = self.mapping.tile * self.tiling.across

    def index(self, iteration: Expr) -> Expr:
        """See the base class."""
        return self._at(int64(0), int64(0)) + self._from(iteration)

    def place(self, iteration: Expr, first: Expr) -> Expr:
        """See the base class."""
        element = self._from(iteration) + first
        return place_in_run(self.tiling, self.number, self.mapping, element)

    def _inside(self, iteration: Expr) -> Expr | None:
        if self.tiling.inner % self.mapping.tile == 0:
            return None
        begin = self.position.place(int64(0), int64(0))[INNER] * self.tiling.across
        return begin + self._from(iteration) < self.tiling.inner * self.tiling.across

    def _from(self, iteration: Expr) -> Expr:
        """The element of the run at which a thread's load begins."""
        return self._of_thread(iteration) * self.vector
