"""Sums of the hot rows of a chunk, which the block that sorts it out leaves in the workspace.

In: the list of their updates (hot_rows), the program's Mapping. Writes TIR into a Writer.

All threads of the block share the hot rows: as many rows side by side as there are, and of each
row's updates some for as many threads as there are for it.
"""

from __future__ import annotations

from dataclasses import replace

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen.thread_indexing import Position, blocks_of_row
from tvm_stitch.kernel.codegen.tir_builder import Place, all_of
from tvm_stitch.kernel.ir.iteration_space import Space
from tvm_stitch.kernel.ir.mapping import Mapping, power_of_two
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.emit import Part
from tvm_stitch.kernel.scattered.lists.hot_rows import HotRows
from tvm_stitch.kernel.scattered.lists.indices import int32
from tvm_stitch.kernel.scattered.lists.update_list import UpdateList
from tvm_stitch.kernel.scattered.mapping import Scattered
from tvm_stitch.kernel.scattered.shared_rows import clear
from tvm_stitch.kernel.scattered.updates import Updates
from tvm_stitch.stages.stage import Expr, as_int64, constant, dtype_of
from tvm_stitch.stages.symbolic_analyzer import int64


class ChunkSums:
    """Of one scattered reduction."""

    def __init__(
        self, program: Program, mapping: Mapping, place: Place, updates: UpdateList
    ) -> None:
        self.program, self.mapping, self.place = program, _mapping(program.space, mapping), place
        self.list, self.writer = updates, place.writer
        self.pieces = blocks_of_row(program.space, self.mapping)
        self.groups = self.mapping.rows

    def add_up(self, hot: HotRows, chunk: Expr) -> None:
        """Write all of a chunk."""
        writer, found = self.writer, hot.found
        parts = writer.value("parts", self._parts(found))
        rows = writer.value("rows", tirx.truncdiv(int32(self.groups), parts))
        turns = tirx.truncdiv(found + rows - 1, rows)
        with writer.serial(turns, "turn") as turn, writer.serial(self.pieces, "piece") as piece:
            place = replace(self.place, block=piece)
            position = Position(self.program.space, self.mapping, place, int64(0))
            part = Part(self.program, self.mapping, self.place, position, {})
            group = position.row_of_block.astype("int32")
            number = turn.astype("int32") * rows + tirx.truncdiv(group, parts)
            is_row = number < found
            own = tirx.truncmod(group, parts)
            first, last = self._share(hot, tirx.Select(is_row, number, int32(0)), own, parts)
            last = writer.value("last", tirx.Select(is_row, last, first))
            row = (chunk * hot.layout.hot + as_int64(number)) * self.program.space.columns
            self._add_piece(part, first, last, parts, row, tirx.all(is_row, tirx.EQ(own, 0)))

    def _parts(self, found: Expr) -> Expr:
        """Groups of threads for each row: as many as there are for all of them."""
        parts: Expr = int32(1)
        for power in range(1, self.groups.bit_length()):
            parts = tirx.Select(found * (1 << power) <= self.groups, int32(1 << power), parts)
        return parts

    def _share(self, hot: HotRows, number: Expr, own: Expr, parts: Expr) -> tuple[Expr, Expr]:
        """Of a row's updates those that a group adds up."""
        first, last = hot.first(number), hot.last(number)
        each = tirx.truncdiv(last - first + (parts - 1), parts)
        start = self.writer.value("start", first + each * own)
        return start, tirx.min(start + each, last)

    def _add_piece(
        self, part: Part, first: Expr, last: Expr, parts: Expr, row: Expr, writes: Expr
    ) -> None:
        """The columns of a block, from where the row's begin in the workspace."""
        writer, position, wanted = self.writer, part.position, self.list.wanted
        assert self.list.partition is not None, "sums of chunks are left for other blocks"
        to = self.list.partition.sums
        assert to is not None, "sums of chunks have a place"
        dtype = dtype_of(to)
        updates = Updates(part, wanted, dtype)
        tile = part.tile(f"{wanted.stage.name}_of_chunk", dtype)
        clear(writer, wanted, tile, self.mapping)
        updates.add_range(self.list.number, first, last, tile)
        partials = self.list.partials
        if self.groups > 1:
            assert partials is not None, "groups of threads share rows"
            partials.combine(tile, self.mapping, parts * self.mapping.threads)
            clear(writer, wanted, tile, self.mapping)
            partials.take(tile, self.mapping, part.place.thread)
            writer.call(T.tvm_storage_sync("shared"))
        for alike in position.steps():
            with writer.unrolled(alike.count, "step", alike.start) as step:
                guard = all_of(writes, position.works, position.exists(step, alike.guard))
                with writer.when(guard), writer.unrolled(self.mapping.vector, "lane") as lane:
                    column = position.column(step, lane)
                    writer.store(to, row + column, tile[part.own_slot(step, lane)])


def _mapping(space: Space, mapping: Mapping) -> Mapping:
    """Threads side by side along all of a row, as far as there are so many."""
    columns = constant(space.columns) or 0
    threads = min(mapping.block_threads, power_of_two(-(-columns // mapping.vector)))
    rows = mapping.block_threads // threads
    own = Scattered(threads, rows, mapping.vector, 1, 0)
    return replace(own, blocks=blocks_of_row(space, own))
