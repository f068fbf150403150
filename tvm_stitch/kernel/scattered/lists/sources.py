"""Where a block has the updates of its rows from: all indices, or what other blocks sorted out.

In: the indices of a scattered reduction, where entries are noted. Writes TIR into a Writer.

Where there are few indices, every block looks through all of them. Where there are many, each block
takes a chunk of them first, and sorts it out: who has the row that an update goes to. Updates of a
row that has many of a chunk are added up there (hot_rows), and their sum is sent as one. Behind a
barrier of the grid a block takes what all chunks have for it. Either way the order of entries is
left to chance, and they are sorted when they are listed (update_list).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tvm import tirx

from tvm_stitch.kernel.codegen.tir_builder import all_of, block_uniform
from tvm_stitch.kernel.ir.mapping import WARP
from tvm_stitch.kernel.scattered.lists.chunk_layout import WORD_BYTES
from tvm_stitch.kernel.scattered.lists.hot_rows import HotRows
from tvm_stitch.kernel.scattered.lists.indices import COUNT, Indices, as_int32, int32
from tvm_stitch.kernel.scattered.lists.room import Room
from tvm_stitch.kernel.scattered.lists.scans import WARP_SCAN
from tvm_stitch.stages.stage import (
    Expr,
    Var,
    as_int64,
    constant,
    dtype_of,
    element_bytes,
    item_bytes,
)
from tvm_stitch.stages.symbolic_analyzer import int64

# Of each group's entries the first, here and in the table, where the next chunk's lies beside it.
_STARTS = """
__device__ __forceinline__ void {name}(void* counts, void* table, int groups, int chunks) {{
  if (threadIdx.x >= 32) return;
  int each = (groups + 32) / 32, start = threadIdx.x * each, end = min(start + each, groups + 1);
  int total = 0;
  for (int group = start; group < end; ++group) total += ((int*)counts)[group];
  int before = {name}_in_warp(total);
  for (int group = start; group < end; ++group) {{
    int count = ((int*)counts)[group];
    ((int*)counts)[group] = ((int*)table)[(long long)group * chunks] = before;
    before += count;
  }}
}}
"""
_SEND = """
__device__ __forceinline__ void {name}(void* counts, int group, void* sorted, {sent} entry) {{
  (({sent}*)sorted)[atomicAdd((int*)counts + group, 1)] = entry;
}}
"""
# Some threads for each chunk, each with some entries on their way at once, of which those of the
# list's rows are noted: these are numbered from its first.
_TAKE = """
__device__ __forceinline__ void {name}(
    void* to, int room, void* counter, void* sorted, void* starts, int chunks, int chunk,
    int begin, int end, int near, int first_row, int rows, int bits) {{
  for (int at = begin + threadIdx.x / near; at < end; at += blockDim.x / near) {{
    {sent}* own = ({sent}*)sorted + (long long)at * chunk;
    int last = ((int*)starts)[chunks + at];
    for (int n = ((int*)starts)[at] + threadIdx.x % near; n < last; n += 4 * near) {{
      {sent} entries[4];
      #pragma unroll
      for (int ahead = 0; ahead < 4; ++ahead) {{
        entries[ahead] = n + ahead * near < last ? own[n + ahead * near] : -1;
      }}
      #pragma unroll
      for (int ahead = 0; ahead < 4; ++ahead) {{
        {sent} entry = entries[ahead] - (({sent})first_row << bits);
        if (entries[ahead] < 0 || entry < 0 || (entry >> bits) >= rows) continue;
        int slot = atomicAdd((int*)counter, 1);
        if (slot < room) (({type}*)to)[slot] = ({type})entry;
      }}
    }}
  }}
}}
"""


class Source(Protocol):
    """What a list is filled from: all in one go, or run by run of as much as there is room for."""

    count: Expr

    @property
    def at_once(self) -> int:
        """How much of it there is certainly room for."""
        ...

    def collect(self, start: Expr, end: Expr, first: Expr, iterations: int) -> None:
        """Note the updates of the block's rows in some iterations, in whatever order."""
        ...


class Scan:
    """All indices, of which a block looks for its own."""

    def __init__(self, indices: Indices, group: Expr, room: Room) -> None:
        self.indices, self.group, self.room = indices, group, room
        self.count: Expr = indices.wanted.count

    @property
    def at_once(self) -> int:
        """Indices for which there is certainly room."""
        return self.room.layout.room

    def collect(self, start: Expr, end: Expr, first: Expr, iterations: int) -> None:
        """Note the updates of the block's rows in some iterations, in whatever order."""
        indices = self.indices

        def note(to: Expr, update: Expr) -> None:
            row = self._own_row(to, first, iterations)
            with indices.writer.when(row >= 0):
                entry = indices.entry(row, update, self.room.layout.dtype)
                self.room.note(indices, entry, self.room.counter)

        indices.look_through(start, end, note)

    def _own_row(self, row: Expr, first: Expr, iterations: int) -> Expr:
        """Its number among the block's rows, or those of one iteration; -1: not one of them."""
        indices = self.indices
        own_iteration = indices.iteration(row)
        # Who has no row is in no group.
        is_own = tirx.all(row >= 0, indices.group(row) == self.group.astype("int32"))
        if iterations == indices.layout.iterations:
            inside = indices.listed_row(row)
        else:
            inside = indices.inside(row)
            is_own = tirx.all(is_own, own_iteration == first.astype("int32"))
        return tirx.Select(is_own, inside, int32(-1))


class Partition:
    """What all blocks have sorted out of their chunks, for a block its own."""

    def __init__(
        self, indices: Indices, group: Expr, room: Room, workspace: Var, start: Expr
    ) -> None:
        """What it has in the workspace begins at `start`."""
        self.indices, self.group, self.room = indices, group, room
        assert room.layout.chunks is not None, "indices are sorted out in chunks"
        self.layout = layout = room.layout.chunks
        self.count: Expr = as_int64(layout.count)
        self.hot = HotRows(indices, room, layout) if layout.hot else None
        view, entry_bytes = indices.writer.view, item_bytes(layout.sent)
        words = layout.entry_words
        self.sorted = view(
            workspace, _elements(words, entry_bytes), _elements(start, entry_bytes), layout.sent
        )
        output = indices.wanted.stage.output
        self.own = view(room.entries, int64(layout.size), 0, layout.sent)
        self.sums = None
        if self.hot:
            size, first = (
                _elements(n, element_bytes(output)) for n in (layout.all_sum_words, start + words)
            )
            self.sums = view(workspace, size, first, dtype_of(output))
        self.table = view(
            workspace, as_int64(layout.table_words), start + words + layout.all_sum_words
        )

    @property
    def at_once(self) -> int:
        """Chunks for which there is certainly room."""
        return self.room.layout.room // self.layout.size

    def sort_out(self, add_up: Callable[[HotRows, Expr], None]) -> None:
        """Send the updates of the block's chunks to their groups; a barrier of the grid follows.

        `add_up` leaves the sums of hot rows of a chunk in the workspace.
        """
        indices = self.indices
        blocks, block = indices.mapping.blocks, indices.place.block
        exact = constant(self.count)
        shares = tirx.floordiv(self.count + (blocks - 1) - block, blocks)
        if exact is not None and exact % blocks == 0:
            shares = int64(exact // blocks)
        with indices.writer.serial(shares, "share") as share:
            if exact is None or exact > blocks:
                indices.barrier()  # behind those who still send what was counted before
            self._sort_chunk(share * blocks + block, add_up)

    def _sort_chunk(self, number: Expr, add_up: Callable[[HotRows, Expr], None]) -> None:
        """Entries of a chunk, group by group, first here, then in the workspace."""
        indices, layout, room = self.indices, self.layout, self.room
        writer, groups = indices.writer, room.place(0)
        start = number * layout.size
        end = tirx.min(start + layout.size, indices.wanted.count)

        def count(row: Expr, _update: Expr) -> None:
            with writer.when(row >= 0):
                indices.call("count", COUNT, groups, indices.group(row), int32(1))
                if self.hot:
                    self.hot.count(row)

        with indices.each(int32(layout.counters), "cleared") as at:
            writer.store(room.counters, room.at(0, at), int32(0))
        indices.barrier()
        indices.look_through(start, end, count, layout.size)
        indices.barrier()
        if self.hot:
            self.hot.find()
            with writer.when(block_uniform(self.hot.found > 0)):
                self.hot.list_updates(start, end, groups)
                add_up(self.hot, number)
                with indices.each(self.hot.found, "hot") as hot:
                    own = indices.group(self.hot.row(hot))
                    indices.call("count", COUNT, groups, own, int32(1))
                indices.barrier()
        table = self.table.ptr_to([number])
        sizes = int32(layout.groups), as_int32(layout.count)
        indices.call("starts", WARP_SCAN + _STARTS, groups, table, *sizes)
        indices.barrier()
        self._send(start, end, number)

    def _send(self, start: Expr, end: Expr, number: Expr) -> None:
        """Entries to where their groups' begin, one for the sums of a hot row."""
        indices, layout, room, hot = self.indices, self.layout, self.room, self.hot
        writer, sent = indices.writer, self.layout.sent
        own = self.own

        def put(row: Expr, update: Expr) -> None:
            entry = indices.entry(indices.listed_row(row), update, sent)
            place = room.place(0), indices.group(row), own.ptr_to([int64(0)])
            indices.call("send", _SEND, *place, entry, sent=sent)

        def send(row: Expr, update: Expr) -> None:
            alone = None if hot is None else hot.number(row) < 0
            with writer.when(all_of(row >= 0, alone)):
                put(row, update)

        indices.look_through(start, end, send, layout.size)
        if hot is not None:
            with indices.each(hot.found, "hot") as near:
                update = indices.wanted.count + number * layout.hot + as_int64(near)
                put(hot.row(near), update)
        indices.barrier()
        with indices.each(writer.value("total", room.number(layout.groups)), "sent") as at:
            writer.store(self.sorted, start + as_int64(at), own[as_int64(at)])

    def collect(self, start: Expr, end: Expr, first: Expr, iterations: int) -> None:
        """Note the updates of the block's rows in some iterations, in whatever order."""
        layout, mapping, room = self.layout, self.indices.mapping, self.room
        exact = constant(self.count)
        near = layout.size // layout.groups  # entries of a chunk
        if exact is not None:
            near = mapping.block_threads // min(exact, self.at_once)
        near = min(WARP, max(1, near))
        near = 1 << near.bit_length() - 1
        first_row = first.astype("int32") * mapping.rows
        own = self.table.ptr_to([self.group * layout.count])
        sizes = as_int32(layout.count), int32(layout.size)
        run = [each.astype("int32") for each in (start, end)]
        rows = [int32(each) for each in (iterations * mapping.rows, room.layout.bits)]
        self.indices.call(
            "take", _TAKE, *room.noted, self.sorted.ptr_to([int64(0)]), own, *sizes, *run,
            int32(near), first_row, *rows, sent=layout.sent, type=room.layout.dtype,
        )  # fmt: skip


def _elements(words: Expr | int, size: int) -> Expr:
    """How many elements of so many bytes have as many words."""
    if size <= WORD_BYTES:
        return as_int64(words) * (WORD_BYTES // size)
    return tirx.floordiv(as_int64(words), size // WORD_BYTES)
