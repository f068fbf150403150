"""Emits rows that sum what indices send to them: what a block looks for, finds and adds up.

In: a Program with scattered sums and its Mapping. Writes TIR into a Writer. Decides nothing.

Some thousand indices at a time, each warp takes a run of them and finds by ballots those of the
block's rows; behind a barrier, each knows how many the warps before it have found, and all are in
one list in the order of the updates. The threads of a row go through the list and add what is
theirs, some updates on their way at once. What follows is emitted as of any rows, with the sums as
an input that is at hand.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from functools import cached_property

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen import footprint
from tvm_stitch.kernel.codegen.bf16_widen import widened
from tvm_stitch.kernel.codegen.thread_indexing import Position
from tvm_stitch.kernel.codegen.tir_builder import Place, Writer, flat_loads, int64, vector_copy
from tvm_stitch.kernel.codegen.warp_shuffle import ballot
from tvm_stitch.kernel.ir.mapping import WARP, Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.emit import Part, emit_batch
from tvm_stitch.kernel.scattered.program import behind_sums
from tvm_stitch.stages.indices import unflatten
from tvm_stitch.stages.scattered_sum import ScatteredSum
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Var,
    bind_axes,
    constant,
    dtype_of,
    find_reads,
    flatten,
    replaced,
    substitute,
)

FETCHED = 4  # updates of a row that are on their way at once
MOST_LOOKED_AT = 4096  # indices at a time; a list has room for all of them
MOST_EACH = 8  # of a thread
ENTRY_BYTES = 8  # of the list: the update, and its row in the block


def emit_scattered(program: Program, mapping: Mapping, place: Place) -> Expr:
    """Write a part; the number of its blocks."""
    position = Position(program.space, mapping, place)
    emit_batch([_Part(program, mapping, place, position)])
    return position.blocks


def looked_at(mapping: Mapping) -> int:
    """Indices that a block looks at before it adds up what it has found among them."""
    threads = mapping.block_threads
    return threads * min(MOST_EACH, max(1, MOST_LOOKED_AT // threads))


def found_bytes(mapping: Mapping) -> int:
    """Shared memory of a block for each sum: the list, and how many each warp has found."""
    words = 4 * mapping.block_threads // WARP
    return ENTRY_BYTES * looked_at(mapping) + footprint.aligned(words)


class _Part(Part):
    """Rows that are at hand when their sums are."""

    def __init__(
        self, program: Program, mapping: Mapping, place: Place, position: Position
    ) -> None:
        super().__init__(behind_sums(program), mapping, place, position)
        self.scattered = {each.stage.output: each for each in program.scattered}

    def load_row(self, tiles: MappingOf[Var, Var], position: Position) -> None:
        """What is in memory is on its way while the rest is added up."""
        stored = {buffer: tile for buffer, tile in tiles.items() if buffer not in self.scattered}
        if stored:
            super().load_row(stored, position)
        for buffer, tile in tiles.items():
            if buffer in self.scattered:
                _Sum(self, self.scattered[buffer], tile).emit()


class _Sum:
    """One scattered sum of a thread's row, into its tile."""

    def __init__(self, part: _Part, wanted: ScatteredSum, tile: Var) -> None:
        self.part, self.wanted, self.tile = part, wanted, tile
        self.writer, self.mapping, self.position = part.writer, part.mapping, part.position
        self.name = wanted.stage.name
        self.each = looked_at(self.mapping) // self.mapping.block_threads
        thread = part.place.thread
        self.lane, self.warp = tirx.floormod(thread, WARP), tirx.floordiv(thread, WARP)
        self.warps = self.mapping.block_threads // WARP

    def emit(self) -> None:
        """Write all of it."""
        writer, size = self.writer, looked_at(self.mapping)
        zero = tirx.const(0, dtype_of(self.tile))
        with writer.unrolled(self.mapping.vector * self.mapping.steps, "element") as element:
            writer.store(self.tile, element, zero)
        self.updates = writer.allocate(f"{self.name}_updates", size, "int32", "shared")
        self.rows = writer.allocate(f"{self.name}_rows", size, "int32", "shared")
        self.counts = writer.allocate(f"{self.name}_counts", self.warps, "int32", "shared")
        times = -(-self.wanted.count // size)
        with writer.serial(times, "look") as look:
            found = self._find(look * size)
            self._add(found)
            if times > 1:
                writer.call(T.tvm_storage_sync("shared"))

    def _find(self, start: Expr) -> Expr:
        """List the updates for the block's rows among those from one on; how many there are."""
        writer = self.writer
        own = writer.allocate(f"{self.name}_row", self.each, "int32")
        votes = writer.allocate(f"{self.name}_votes", self.each, "uint32")
        mine = writer.allocate(f"{self.name}_mine", 1, "int32")
        writer.store(mine, int64(0), tirx.const(0, "int32"))
        for number in range(self.each):
            writer.store(own, int64(number), self._row(self._update(start, number)))
        for number in range(self.each):
            is_own = own[int64(number)] >= 0
            writer.store(votes, int64(number), ballot(is_own))
            count = mine[int64(0)] + tirx.popcount(votes[int64(number)]).astype("int32")
            writer.store(mine, int64(0), count)
        with writer.when(self.lane == 0):
            writer.store(self.counts, self.warp, mine[int64(0)])
        writer.call(T.tvm_storage_sync("shared"))
        before, total = self._before()
        lower = tirx.shift_left(tirx.const(1, "uint32"), self.lane.astype("uint32"))
        lower = writer.value("lower", lower - tirx.const(1, "uint32"))
        for number in range(self.each):
            vote = votes[int64(number)]
            with writer.when(own[int64(number)] >= 0):
                ahead = tirx.popcount(tirx.bitwise_and(vote, lower)).astype("int32")
                slot = writer.value("slot", before[int64(0)] + ahead).astype("int64")
                writer.store(self.updates, slot, self._update(start, number).astype("int32"))
                writer.store(self.rows, slot, own[int64(number)])
            after = before[int64(0)] + tirx.popcount(vote).astype("int32")
            writer.store(before, int64(0), after)
        writer.call(T.tvm_storage_sync("shared"))
        return total

    def _before(self) -> tuple[Var, Expr]:
        """How many the warps before a thread's have found, and all of them."""
        writer, zero = self.writer, int64(0)
        before = writer.allocate(f"{self.name}_before", 1, "int32")
        total = writer.allocate(f"{self.name}_total", 1, "int32")
        for each in (before, total):
            writer.store(each, zero, tirx.const(0, "int32"))
        with writer.unrolled(self.warps, "warp") as warp:
            is_before = int64(0) + warp < self.warp
            count = self.counts[warp]
            lower = tirx.Select(is_before, count, tirx.const(0, "int32"))
            writer.store(before, zero, before[zero] + lower)
            writer.store(total, zero, total[zero] + count)
        return before, total[zero]

    def _update(self, start: Expr, number: int) -> Expr:
        """The number of an update that a thread looks at: runs of 32 for its warp."""
        return start + (self.warp * self.each + number) * WARP + self.lane

    def _row(self, update: Expr) -> Expr:
        """The row of the block that an update goes to; -1: another one."""
        wanted, rows = self.wanted, self.mapping.block_rows
        number = substitute(wanted.row, {wanted.update: update}).astype("int64")
        number = flat_loads(self.part.views, number) - self.part.place.block * rows
        other = int64(-1)
        number = self.writer.value("to", tirx.if_then_else(update < wanted.count, number, other))
        inside = tirx.all(number >= 0, number < rows)
        return tirx.Select(inside, number, other).astype("int32")

    def _add(self, found: Expr) -> None:
        """Add those of the list that go to the thread's row, in their order."""
        writer = self.writer
        groups = tirx.floordiv(found + (FETCHED - 1), FETCHED).astype("int64")
        with writer.serial(groups, "group") as group:
            taken = writer.allocate(f"{self.name}_taken", FETCHED, "int32")
            most: Expr = tirx.const(-1, "int32")
            for near in range(FETCHED):
                writer.store(taken, int64(near), self._listed(group * FETCHED + near, found))
                most = tirx.max(most, taken[int64(near)])
            with writer.when(most >= 0):
                self._add_taken(taken)

    def _listed(self, number: Expr, found: Expr) -> Expr:
        """The update of an entry of the list, if there is one and it goes to the thread's row."""
        none = tirx.const(-1, "int32")
        own = self.position.row_of_block.astype("int32")
        update = tirx.if_then_else(self.rows[number] == own, self.updates[number], none)
        return tirx.if_then_else(number < found.astype("int64"), update, none)

    def _add_taken(self, taken: Var) -> None:
        writer, vector = self.writer, self.mapping.vector
        for alike in self.position.steps():
            with (
                writer.unrolled(alike.count, "step", alike.start) as step,
                writer.when(self.position.exists(step, alike.guard)),
            ):
                tiles = [self._fetched(read, taken, step) for read in self._vectors]
                for near in range(FETCHED):
                    with writer.unrolled(vector, "lane") as lane:
                        self._add_element(taken, near, step, lane, tiles)

    def _fetched(self, read: Read, taken: Var, step: Expr) -> Var:
        """The vectors of a tensor of updates: all of them are on their way before one is used."""
        writer, vector = self.writer, self.mapping.vector
        dtype, view = dtype_of(read.buffer), self.part.views[read.buffer]
        tile = writer.allocate(f"{read.buffer.name}_fetched", FETCHED * vector, dtype)
        columns = constant(self.wanted.columns)
        for near in range(FETCHED):
            start = taken[int64(near)].astype("int64") * columns

            def move(writer: Writer, lane: Expr, start: Expr = start, near: int = near) -> None:
                at = start + self.position.column(step, lane)
                writer.store(tile, near * vector + lane, view[at])

            with writer.when(taken[int64(near)] >= 0):
                vector_copy(writer, dtype, vector, move)
        return tile

    def _add_element(self, taken: Var, near: int, step: Expr, lane: Expr, tiles: list[Var]) -> None:
        wanted, at = self.wanted, near * self.mapping.vector + lane
        stage, update = wanted.stage, taken[int64(near)]
        column = self.position.column(step, lane)
        axes = unflatten(column, stage.axes[wanted.depth :], stage.extents[wanted.depth :])
        known = {r.key: t[at] for r, t in zip(self._vectors, tiles, strict=True)}
        value = replaced(wanted.value, known, {**axes, wanted.update: update.astype("int64")})
        value = widened(flat_loads(self.part.views, value)).astype(dtype_of(self.tile))
        none = tirx.const(0, dtype_of(self.tile))
        slot = self.part.own_slot(step, lane)
        total = self.tile[slot] + tirx.if_then_else(update >= 0, value, none)
        self.writer.store(self.tile, slot, total)

    @cached_property
    def _vectors(self) -> tuple[Read, ...]:
        """What is read of the updates as they lie there: an update behind the other."""
        wanted = self.wanted
        stage, columns = wanted.stage, wanted.columns
        own = flatten(stage.axes[wanted.depth :], stage.extents[wanted.depth :])
        analyzer = bind_axes(stage)
        return tuple(
            read
            for read in find_reads(wanted.value)
            if not read.nested
            and analyzer.can_prove_equal(read.place, wanted.update * columns + own)
        )
