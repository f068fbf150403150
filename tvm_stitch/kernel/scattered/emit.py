"""Emits rows that sum what indices send to them: what a block looks for, finds and adds up.

In: a Program with scattered sums and its Mapping. Writes TIR into a Writer. Decides nothing.

Some thousand indices at a time, each warp takes a run of them and finds by ballots those of the
block's rows; behind a barrier, each knows how many the warps before it have found, and all are in
one list in the order of the updates. The threads of a row go through the list and add what is
theirs, some updates on their way at once. What follows is emitted as of any rows, with the sums as
an input that is at hand. Blocks that take turns at the rows look through the indices once, for all
of their turns; where the list has no room for so many, once in every turn.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from functools import cached_property
from typing import Any

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen import footprint
from tvm_stitch.kernel.codegen.bf16_widen import widened
from tvm_stitch.kernel.codegen.thread_indexing import Position
from tvm_stitch.kernel.codegen.tir_builder import (
    Place,
    Writer,
    block_uniform,
    flat_loads,
    int64,
    vector_copy,
)
from tvm_stitch.kernel.codegen.warp_shuffle import ballot
from tvm_stitch.kernel.ir.mapping import WARP, Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.emit import IteratedPart, Part, emit_batch
from tvm_stitch.kernel.rows.row_state import NextRow
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
    inner = behind_sums(program)
    if mapping.blocks:
        return _TakingTurns(inner, mapping, place, program.scattered).emit()
    position = Position(inner.space, mapping, place)
    lists = [UpdateList(each, mapping, place) for each in program.scattered]
    emit_batch([_Part(inner, mapping, place, position, lists=lists)])
    return position.blocks


def looked_at(mapping: Mapping) -> int:
    """Indices that a block looks at at once; a list has room for as many updates."""
    threads = mapping.block_threads
    return threads * min(MOST_EACH, max(1, MOST_LOOKED_AT // threads))


def found_bytes(mapping: Mapping) -> int:
    """Shared memory of a block for each sum: the list, and how many each warp has found."""
    words = 4 * mapping.block_threads // WARP
    return ENTRY_BYTES * looked_at(mapping) + footprint.aligned(words)


class _TakingTurns(IteratedPart):
    """Blocks that have many rows, some at a time, and look through the indices once for all."""

    def __init__(
        self,
        program: Program,
        mapping: Mapping,
        place: Place,
        scattered: tuple[ScatteredSum, ...],
    ) -> None:
        super().__init__(program, mapping, place)
        self.lists = [UpdateList(each, mapping, place) for each in scattered]

    def emit(self) -> Expr:
        """The lists, then the rows."""
        for each in self.lists:
            each.fill()
        return super().emit()

    def part(self, iteration: Expr, next_row: NextRow | None = None) -> Part:
        """What a block does in a turn."""
        position = self._position(iteration)
        return _Part(
            self.program, self.mapping, self.place, position, self.sums, next_row,
            lists=self.lists, turn=iteration,
        )  # fmt: skip


class _Part(Part):
    """Rows that are at hand when their sums are."""

    def __init__(self, *of_rows: Any, lists: list[UpdateList], turn: Expr | None = None) -> None:
        super().__init__(*of_rows)
        self.lists = {each.wanted.stage.output: each for each in lists}
        self.turn = turn

    def load_row(self, tiles: MappingOf[Var, Var], position: Position) -> None:
        """What is in memory is on its way while the rest is added up."""
        stored = {buffer: tile for buffer, tile in tiles.items() if buffer not in self.lists}
        if stored:
            super().load_row(stored, position)
        for buffer, tile in tiles.items():
            if buffer in self.lists:
                _Sum(self, self.lists[buffer], tile).emit()


class UpdateList:
    """In shared memory: the updates that indices send to a block's rows, in their order."""

    def __init__(self, wanted: ScatteredSum, mapping: Mapping, place: Place) -> None:
        self.wanted, self.mapping, self.place = wanted, mapping, place
        self.writer, self.name = place.writer, wanted.stage.name
        self.room = looked_at(mapping)
        self.each = self.room // mapping.block_threads
        self.warps = mapping.block_threads // WARP
        self.lane = tirx.floormod(place.thread, WARP)
        self.warp = tirx.floordiv(place.thread, WARP)
        # A variable that says how many all turns together have: perhaps more than there is room.
        self.listed: Var | None = None

    @property
    def looks(self) -> int:
        """How often a block looks at indices before it has seen all of them."""
        return -(-self.wanted.count // self.room)

    def allocate(self) -> None:
        """Make room."""
        writer, room = self.writer, self.room
        self.updates = writer.allocate(f"{self.name}_updates", room, "int32", "shared")
        self.rows = writer.allocate(f"{self.name}_rows", room, "int32", "shared")
        self.counts = writer.allocate(f"{self.name}_counts", self.warps, "int32", "shared")

    def fill(self) -> None:
        """List what all turns of the block need, as far as there is room."""
        writer, zero = self.writer, int64(0)
        self.allocate()
        self.listed = writer.allocate(f"{self.name}_listed", 1, "int32")
        writer.store(self.listed, zero, tirx.const(0, "int32"))
        with writer.serial(self.looks, "look") as look:
            found = self._find(look * self.room, None, self.listed[zero])
            writer.store(self.listed, zero, self.listed[zero] + found)

    def look(self, look: Expr, turn: Expr | None) -> Expr:
        """List updates for the rows of a turn among the next indices; how many there are."""
        group = self.place.block if turn is None else turn * self.mapping.blocks + self.place.block
        return self._find(look * self.room, group, tirx.const(0, "int32"))

    def _find(self, start: Expr, group: Expr | None, behind: Expr) -> Expr:
        """List the updates among those from one on, behind others; how many there are."""
        writer = self.writer
        own = writer.allocate(f"{self.name}_row", self.each, "int32")
        votes = writer.allocate(f"{self.name}_votes", self.each, "uint32")
        mine = writer.allocate(f"{self.name}_mine", 1, "int32")
        writer.store(mine, int64(0), tirx.const(0, "int32"))
        for number in range(self.each):
            writer.store(own, int64(number), self._row(self._update(start, number), group))
        for number in range(self.each):
            is_own = own[int64(number)] >= 0
            writer.store(votes, int64(number), ballot(is_own))
            count = mine[int64(0)] + tirx.popcount(votes[int64(number)]).astype("int32")
            writer.store(mine, int64(0), count)
        with writer.when(self.lane == 0):
            writer.store(self.counts, self.warp, mine[int64(0)])
        writer.call(T.tvm_storage_sync("shared"))
        before, total = self._before(behind)
        lower = tirx.shift_left(tirx.const(1, "uint32"), self.lane.astype("uint32"))
        lower = writer.value("lower", lower - tirx.const(1, "uint32"))
        for number in range(self.each):
            vote = votes[int64(number)]
            ahead = tirx.popcount(tirx.bitwise_and(vote, lower)).astype("int32")
            slot = writer.value("slot", before[int64(0)] + ahead).astype("int64")
            listed = own[int64(number)] >= 0
            if group is None and self.looks > 1:
                listed = tirx.all(listed, slot < self.room)
            with writer.when(listed):
                writer.store(self.updates, slot, self._update(start, number).astype("int32"))
                writer.store(self.rows, slot, own[int64(number)])
            after = before[int64(0)] + tirx.popcount(vote).astype("int32")
            writer.store(before, int64(0), after)
        writer.call(T.tvm_storage_sync("shared"))
        return total

    def _before(self, behind: Expr) -> tuple[Var, Expr]:
        """How many entries come before a thread's warp's, and how many are found by all warps."""
        writer, zero = self.writer, int64(0)
        before = writer.allocate(f"{self.name}_before", 1, "int32")
        total = writer.allocate(f"{self.name}_total", 1, "int32")
        writer.store(before, zero, behind)
        writer.store(total, zero, tirx.const(0, "int32"))
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

    def _row(self, update: Expr, group: Expr | None) -> Expr:
        """The row of the group that an update goes to; -1: another one.

        Without a group, the row among those of all turns of the block.
        """
        wanted, rows, blocks = self.wanted, self.mapping.block_rows, self.mapping.blocks
        number = substitute(wanted.row, {wanted.update: update}).astype("int64")
        number = flat_loads(self.place.views, number)
        found = tirx.if_then_else(update < wanted.count, number, int64(-1))
        if group is None:
            # In 32 bits, in which it takes a division less long.
            own = self.writer.value("to", found.astype("int32"))
            turn = tirx.truncdiv(tirx.truncdiv(own, rows), blocks)
            block = tirx.truncmod(tirx.truncdiv(own, rows), blocks)
            inside = turn * rows + tirx.truncmod(own, rows)
            is_own = tirx.all(own >= 0, block == self.place.block.astype("int32"))
        else:
            inside = self.writer.value("to", found) - group * rows
            is_own = tirx.all(inside >= 0, inside < rows)
        return tirx.Select(is_own, inside.astype("int32"), tirx.const(-1, "int32"))


class _Sum:
    """One scattered sum of a thread's row, into its tile."""

    def __init__(self, part: _Part, updates: UpdateList, tile: Var) -> None:
        self.part, self.list, self.tile = part, updates, tile
        self.wanted = updates.wanted
        self.writer, self.mapping, self.position = part.writer, part.mapping, part.position
        self.name = self.wanted.stage.name

    def emit(self) -> None:
        """Write all of it."""
        writer = self.writer
        zero = tirx.const(0, dtype_of(self.tile))
        with writer.unrolled(self.mapping.vector * self.mapping.steps, "element") as element:
            writer.store(self.tile, element, zero)
        row = self.position.row_of_block.astype("int32")
        if self.list.listed is None:
            self._look(row, None)
        else:
            self._take(row, self.list.listed[int64(0)])

    def _look(self, row: Expr, turn: Expr | None) -> None:
        """Look for updates, and add up what is found, as often as it takes."""
        self.list.allocate()
        with self.writer.serial(self.list.looks, "look") as look:
            self._add(self.list.look(look, turn), row)
            if self.list.looks > 1:
                self.writer.call(T.tvm_storage_sync("shared"))

    def _take(self, row: Expr, listed: Expr) -> None:
        """Add up what is listed; where there was no room for all, look again in every turn."""
        writer, turn = self.writer, self.part.turn
        assert turn is not None
        row_of_turns = (turn * self.mapping.block_rows).astype("int32") + row
        if self.list.looks == 1:
            self._add(listed, row_of_turns)
            return
        is_whole = listed <= self.list.room
        times = tirx.Select(is_whole, tirx.const(1, "int32"), tirx.const(self.list.looks, "int32"))
        found = writer.allocate(f"{self.name}_found", 1, "int32")
        with writer.serial(times.astype("int64"), "look") as look:
            writer.store(found, int64(0), listed)
            with writer.when(block_uniform(listed > self.list.room)):
                writer.call(T.tvm_storage_sync("shared"))
                writer.store(found, int64(0), self.list.look(look, turn))
            self._add(found[int64(0)], tirx.Select(is_whole, row_of_turns, row))

    def _add(self, found: Expr, row: Expr) -> None:
        """Add those of the list that go to a row, in their order."""
        writer = self.writer
        groups = tirx.floordiv(found + (FETCHED - 1), FETCHED).astype("int64")
        with writer.serial(groups, "group") as group:
            taken = writer.allocate(f"{self.name}_taken", FETCHED, "int32")
            most: Expr = tirx.const(-1, "int32")
            for near in range(FETCHED):
                writer.store(taken, int64(near), self._listed(group * FETCHED + near, found, row))
                most = tirx.max(most, taken[int64(near)])
            with writer.when(most >= 0):
                self._add_taken(taken)

    def _listed(self, number: Expr, found: Expr, row: Expr) -> Expr:
        """The update of an entry of the list, if there is one and it goes to the row."""
        none, entries = tirx.const(-1, "int32"), self.list
        update = tirx.if_then_else(entries.rows[number] == row, entries.updates[number], none)
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
