"""Where a block has the updates of its rows from: all indices, or what other blocks sorted out.

In: the indices of a scattered sum, where entries are noted. Writes TIR into a Writer.

Where there are few indices, every block looks through all of them. Where there are many, each block
takes a chunk of them first, and sorts it out: who has the row that an update goes to. Behind a
barrier of the grid a block takes what all chunks have for it. Either way the order of entries is
left to chance, and they are sorted when they are listed (update_list).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from tvm import tirx

from tvm_stitch.kernel.codegen.tir_builder import int64
from tvm_stitch.kernel.ir.mapping import WARP
from tvm_stitch.kernel.scattered.indices import Indices, int32
from tvm_stitch.kernel.scattered.layout import WORD_BYTES, ListLayout
from tvm_stitch.stages.stage import Expr, Var, as_int64, item_bytes

# In CUDA, not in TIR: TVM would look for places of barriers of its own, inside of branches.
_COUNT = """
__device__ __forceinline__ void {name}(void* counts, int owner) {{
  atomicAdd((int*)counts + owner, 1);
}}
"""
# Of each owner's entries the first, here and in the table, where the next chunk's lies beside it.
_STARTS = """
__device__ __forceinline__ void {name}(void* counts, void* table, int owners, int chunks) {{
  int* own = (int*)counts + threadIdx.x;
  bool is_owner = threadIdx.x <= owners;
  int before = 0;
  if (is_owner) {{
    #pragma unroll 4
    for (int owner = 0; owner < threadIdx.x; ++owner) before += ((int*)counts)[owner];
  }}
  __syncthreads();
  if (is_owner) {{
    *own = before;
    ((int*)table)[threadIdx.x * chunks] = before;
  }}
}}
"""
_SEND = """
__device__ __forceinline__ void {name}(void* counts, int owner, void* sorted, {sent} entry) {{
  (({sent}*)sorted)[atomicAdd((int*)counts + owner, 1)] = entry;
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
_NOTE = """
__device__ __forceinline__ void {name}(void* to, int room, void* counter, {type} entry) {{
  int slot = atomicAdd((int*)counter, 1);
  if (slot < room) (({type}*)to)[slot] = entry;
}}
"""


@dataclass(frozen=True, eq=False)
class Room:
    """Shared memory of a list: its entries, and the numbers that are counted beside them."""

    entries: Var
    counters: Var
    layout: ListLayout

    @property
    def noted(self) -> tuple[Expr, Expr, Expr]:
        """Where entries are noted: there, so many, the number of the next one."""
        counter = self.counters.ptr_to([int64(self.layout.ranges - 1)])
        return self.entries.ptr_to([int64(0)]), int32(self.layout.room), counter

    @property
    def owners(self) -> Expr:
        """What is counted of each group of blocks."""
        return self.counters.ptr_to([int64(self.layout.owners)])


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
            dtype = self.room.layout.dtype
            with indices.writer.when(row >= 0):
                entry = indices.entry(row, update, dtype)
                indices.call("note", _NOTE, *self.room.noted, entry, type=dtype)

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
        self, indices: Indices, group: Expr, room: Room, workspace: Var, start: int
    ) -> None:
        """What it has in the workspace begins at `start`."""
        self.indices, self.group, self.room = indices, group, room
        layout, writer = room.layout, indices.writer
        self.count: Expr = int64(layout.chunks)
        size, wide = layout.sorted_words, item_bytes(layout.sent) // WORD_BYTES
        self.sorted = writer.view(workspace, int64(size // wide), start // wide, layout.sent)
        self.table = writer.view(workspace, int64(layout.words - size), start + size)

    @property
    def at_once(self) -> int:
        """Chunks for which there is certainly room."""
        return self.room.layout.chunks_at_once

    def sort_out(self) -> None:
        """Send the updates of the block's chunks to their owners; a barrier of the grid follows."""
        indices, layout = self.indices, self.room.layout
        blocks, block = indices.mapping.blocks, indices.place.block
        shares = tirx.floordiv(layout.chunks + (blocks - 1) - block, blocks)
        if layout.chunks % blocks == 0:
            shares = int64(layout.chunks // blocks)
        with indices.writer.serial(shares, "share") as share:
            if layout.chunks > blocks:
                indices.barrier()  # behind those who still send what was counted before
            self._sort_chunk(share * blocks + block)

    def _sort_chunk(self, number: Expr) -> None:
        """Entries of a chunk, owner by owner."""
        indices, layout, owners = self.indices, self.room.layout, self.room.owners
        start = number * layout.chunk
        end = tirx.min(start + layout.chunk, indices.wanted.count)
        to = self.sorted.ptr_to([start])

        def count(row: Expr, _update: Expr) -> None:
            with indices.writer.when(row >= 0):
                indices.call("count", _COUNT, owners, indices.group(row))

        def send(row: Expr, update: Expr) -> None:
            entry = indices.entry(indices.listed_row(row), update, layout.sent)
            with indices.writer.when(row >= 0):
                group = indices.group(row)
                indices.call("send", _SEND, owners, group, to, entry, sent=layout.sent)

        with indices.each(int32(layout.groups + 1), "owner") as owner:
            place = layout.owners + as_int64(owner)
            indices.writer.store(self.room.counters, place, int32(0))
        indices.barrier()
        indices.look_through(start, end, count, layout.chunk)
        indices.barrier()
        sizes = int32(layout.groups), int32(layout.chunks)
        indices.call("starts", _STARTS, owners, self.table.ptr_to([number]), *sizes)
        indices.barrier()
        indices.look_through(start, end, send, layout.chunk)

    def collect(self, start: Expr, end: Expr, first: Expr, iterations: int) -> None:
        """Note the updates of the block's rows in some iterations, in whatever order."""
        layout, mapping = self.room.layout, self.indices.mapping
        near = min(WARP, max(1, mapping.block_threads // min(layout.chunks, layout.chunks_at_once)))
        near = 1 << near.bit_length() - 1
        first_row = first.astype("int32") * mapping.rows
        own = self.table.ptr_to([self.group * layout.chunks])
        sizes = [int32(each) for each in (layout.chunks, layout.chunk)]
        run = [each.astype("int32") for each in (start, end)]
        rows = [int32(each) for each in (iterations * mapping.rows, layout.bits)]
        self.indices.call(
            "take", _TAKE, *self.room.noted, self.sorted.ptr_to([int64(0)]), own, *sizes, *run,
            int32(near), first_row, *rows, sent=layout.sent, type=layout.dtype,
        )  # fmt: skip
