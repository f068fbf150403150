"""Emits rows that sum what indices send to them, from their block's list of updates.

In: a Program with scattered reductions and its Mapping. Writes TIR into a Writer. Decides nothing.

Unless a kernel before has sorted them (sorted_updates), a block lists the updates of all its rows
first (update_list), or of as many as there is room for. Then it takes a few rows at a time: the
threads of a row add up what the list has for it, some updates on their way at once. Rows that many
indices name are shared by all threads of the block, idle ones as well, whose sums are combined in
shared memory. What follows is emitted as of any rows, with the sums as an input that is at hand.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Generic, TypeVar

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen.thread_indexing import Position
from tvm_stitch.kernel.codegen.tir_builder import Place, all_of, block_uniform
from tvm_stitch.kernel.codegen.warp_shuffle import ballot
from tvm_stitch.kernel.ir.mapping import WARP, Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.emit import IteratedPart, Part, emit_batch
from tvm_stitch.kernel.rows.row_state import NextRow
from tvm_stitch.kernel.scattered.chunk_sums import ChunkSums
from tvm_stitch.kernel.scattered.lists.indices import as_int32, int32
from tvm_stitch.kernel.scattered.lists.layout import ListLayout, list_layouts
from tvm_stitch.kernel.scattered.lists.sorted_updates import SortedUpdates
from tvm_stitch.kernel.scattered.lists.update_list import UpdateList
from tvm_stitch.kernel.scattered.program import ScatteredProgram, behind_sums, is_sorted
from tvm_stitch.kernel.scattered.shared_rows import clear, without_idle
from tvm_stitch.kernel.scattered.updates import Updates
from tvm_stitch.stages.stage import Expr, Var, as_int64, constant, dtype_of
from tvm_stitch.stages.symbolic_analyzer import int64

_List = UpdateList | SortedUpdates
HEAVY = 32  # updates of a row, beyond which all threads of its block share them
HEAVIER = 4  # and how many times the average, where others' threads have rows of their own


def emit_scattered(program: ScatteredProgram, mapping: Mapping, place: Place) -> Expr:
    """Write a part; the number of its blocks."""
    rows, wanted = behind_sums(program), program.scattered
    if is_sorted(program):
        lists = [SortedUpdates(each, rows.space, mapping, place) for each in wanted]
        return _Summed(rows, mapping, place, lists).emit()
    layouts = list_layouts(wanted, rows.space, mapping)
    own = zip(wanted, layouts, _places(layouts)[:-1], strict=True)
    listed = [UpdateList(each, layout, mapping, place, at) for each, layout, at in own]
    return _Listing(rows, mapping, place, listed).emit()


def workspace(program: ScatteredProgram, mapping: Mapping) -> Var | None:
    """Room for what blocks sort out of the indices for each other, in words of 32 bits."""
    if not mapping.partitioned:
        return None
    size = _places(list_layouts(program.scattered, program.space, mapping))[-1]
    return tirx.decl_buffer((size,), "int32", "workspace")


def _places(layouts: Sequence[ListLayout]) -> list[Expr]:
    """Where each sum has its own in the workspace, and where the last ends."""
    words = (as_int64(each.chunks.words if each.chunks else 0) for each in layouts)
    return list(accumulate(words, initial=int64(0)))


_Lists = TypeVar("_Lists", bound=_List)


class _Summed(IteratedPart, Generic[_Lists]):
    """Blocks whose rows' updates are listed, or were before."""

    def __init__(
        self, program: Program, mapping: Mapping, place: Place, lists: Sequence[_Lists]
    ) -> None:
        super().__init__(program, mapping, place)
        self.lists = lists

    def part(self, iteration: Expr, next_row: NextRow | None = None) -> Part:
        """What a block does in an iteration, of which there is one list."""
        return self._part(iteration, iteration, next_row)

    def _part(self, iteration: Expr, listed: Expr, next_row: NextRow | None = None) -> Part:
        """The same, that is so many behind the list's first."""
        position = self._position(iteration)
        return _Part(
            self.program, self.mapping, self.place, position, self.sums, next_row,
            lists=self.lists, iteration=iteration, listed=listed,
        )  # fmt: skip


class _Listing(_Summed[UpdateList]):
    """Blocks that have many rows, some at a time, and look through the indices once for all."""

    def emit(self) -> Expr:
        """The lists, then the rows; or one list after the other, each with its rows."""
        for each in self.lists:
            if each.partition is not None:
                sums = ChunkSums(self.program, self.mapping, self.place, each)
                each.partition.sort_out(sums.add_up)
        if self.mapping.partitioned:
            self.writer.add(tirx.Evaluate(T.cuda.grid_sync()))
        layout = self.lists[0].layout
        if layout.lists == 1:
            for each in self.lists:
                each.fill()
            return super().emit()
        iterations = self._iterations()
        listed = layout.listed
        lists = tirx.floordiv(iterations + (listed - 1), listed)
        with self.writer.serial(lists, "list") as number:
            first = number * listed
            for each in self.lists:
                each.fill(first)
            of_list = tirx.min(iterations - first, int64(listed))
            with self.writer.serial(of_list, "iteration") as iteration:
                emit_batch([self._part(first + iteration, iteration)])
        return self.position.blocks


class _Part(Part):
    """Rows that are at hand when their sums are."""

    def __init__(
        self, *of_rows: Any, lists: Sequence[_List], iteration: Expr, listed: Expr
    ) -> None:
        super().__init__(*of_rows)
        self.lists = {each.wanted.stage.output: each for each in lists}
        self.iteration, self.listed = iteration, listed

    def load_row(self, tiles: MappingOf[Var, Var], position: Position) -> None:
        """What is in memory is on its way while the rest is added up."""
        stored = {buffer: tile for buffer, tile in tiles.items() if buffer not in self.lists}
        if stored:
            super().load_row(stored, position)
        for buffer, tile in tiles.items():
            if buffer in self.lists:
                _Sum(self, self.lists[buffer], tile).emit()


class _Sum:
    """One scattered reduction of a thread's row, into its tile."""

    def __init__(self, part: _Part, updates: _List, tile: Var) -> None:
        self.part, self.list, self.tile = part, updates, tile
        self.wanted = updates.wanted
        self.writer, self.mapping, self.position = part.writer, part.mapping, part.position
        self.name, self.dtype = self.wanted.stage.name, dtype_of(tile)
        self.updates = Updates(part, self.wanted, self.dtype)
        # Of threads, that share a row which many indices name.
        self.groups = self.mapping.block_threads // self.mapping.working

    def emit(self) -> None:
        """Write all of it; where not all updates had room, list them again by iterations."""
        writer, updates = self.writer, self.list
        clear(writer, self.wanted, self.tile, self.mapping)
        first_row = self.part.listed * self.mapping.rows
        if isinstance(updates, SortedUpdates) or updates.always_fits:
            self._add(first_row)
            return
        whole = updates.total <= updates.layout.room
        first_row = tirx.Select(whole, first_row, int64(0))
        with writer.serial(tirx.Select(whole, int64(1), updates.looks), "look") as look:
            with writer.when(block_uniform(tirx.Not(whole))):
                updates.look(look, self.part.iteration)
            self._add(first_row)

    def _add(self, first_row: Expr) -> None:
        """Add what is listed for the row, behind the rows before the iteration's first one."""
        writer, rows = self.writer, self.mapping.rows
        own = first_row + self.position.row_of_block
        first = writer.value("first", self.list.first(own))
        last = writer.value("last", self.list.last(own))
        if self.groups == 1:
            self._add_entries(self.updates, first, last, self.tile)
            return
        heavy = self._heavy()
        with writer.when(all_of(last - first <= heavy, self.position.works)):
            self._add_entries(self.updates, first, last, self.tile)
        together = min(rows, WARP)
        with writer.serial(rows // together, "rows") as group:
            at = group * together + tirx.floormod(self.part.place.thread, together)
            is_heavy = self.list.last(first_row + at) - self.list.first(first_row + at) > heavy
            votes = writer.value("votes", ballot(is_heavy))
            with (
                writer.when(block_uniform(votes > tirx.const(0, "uint32"))),
                writer.serial(together, "heavy") as bit,
            ):
                row = group * together + bit
                one = tirx.const(1, "uint32")
                chosen = tirx.bitwise_and(tirx.shift_right(votes, bit.astype("uint32")), one)
                with writer.when(block_uniform(chosen > tirx.const(0, "uint32"))):
                    self._add_heavy(first_row, row)

    def _heavy(self) -> int:
        """Updates of a row that are as many for its own threads as others have, and no more."""
        count, rows = constant(self.wanted.count), constant(self.wanted.rows)
        if self.mapping.idle or count is None or not rows:
            return HEAVY
        return max(HEAVY, HEAVIER * count // rows)

    def _add_heavy(self, first_row: Expr, row: Expr) -> None:
        """All threads add some of the updates of one row, whose own add them up in order."""
        writer, position, mapping = self.writer, self.position, without_idle(self.mapping)
        first, last = self.list.first(first_row + row), self.list.last(first_row + row)
        part, updates = self.part, self.updates
        if self.mapping.idle:  # these have columns here, as if there were more rows
            place = Position(part.program.space, mapping, part.place, int64(0))
            updates = Updates(part.beside(place), self.wanted, self.dtype)
        each = tirx.floordiv(last - first + (self.groups - 1), self.groups)
        group = updates.position.row_of_block.astype("int32")
        start = writer.value("start", first + each * group)
        end = writer.value("end", tirx.min(start + each, last))
        partial = part.tile(f"{self.name}_partial", self.dtype)
        clear(writer, self.wanted, partial, mapping)
        self._add_entries(updates, start, end, partial)
        partials = self.list.partials
        assert partials is not None, "groups of threads share the row"
        partials.combine(partial, mapping, mapping.block_threads)
        with writer.when(position.row_of_block == row):
            partials.take(self.tile, mapping, position.thread)
        writer.call(T.tvm_storage_sync("shared"))

    def _add_entries(self, updates: Updates, first: Expr, last: Expr, tile: Var) -> None:
        """Add those of a range of the list, in their order, then sums that chunks have of some."""
        partition = self.list.partition
        if partition is None or partition.sums is None:
            updates.add_range(self.list.number, first, last, tile)
            return
        count = as_int32(self.wanted.count)
        updates.add_range(self.list.number, first, last, tile, count)
        number = tirx.if_then_else(last > first, self.list.number(last - 1), int32(-1))
        with self.writer.when(self.writer.value("last_number", number) >= count):
            updates.add_sums(
                lambda entry: self.list.number(entry) - count, first, last, tile, partition.sums
            )
