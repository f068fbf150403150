"""Rows that many updates of one chunk go to, as the words do that a text has most of.

In: the indices of a scattered reduction, shared memory of a block. Writes TIR into a Writer.

Updates are counted in bins by their rows. Of a bin with many the first update says which row is
meant: most likely the one that most go to, and the same in every run. Its updates are listed as
those of rows are. Must not know what updates are made of.
"""

from __future__ import annotations

from tvm import tirx

from tvm_stitch.kernel.scattered.lists.chunk_layout import ChunkLayout
from tvm_stitch.kernel.scattered.lists.indices import COUNT, Indices, int32
from tvm_stitch.kernel.scattered.lists.room import Room
from tvm_stitch.stages.stage import Expr

# In place of a bin's count the number of its hot row, or -1.
_FIND = """
__device__ __forceinline__ void {name}(
    void* bins, int count, void* leaders, void* found, int least) {{
  for (int at = threadIdx.x; at < count; at += blockDim.x) {{
    int own = -1;
    if (((int*)bins)[at] >= least) {{
      own = atomicAdd((int*)found, 1);
      ((int*)leaders)[own] = 0x7fffffff;
    }}
    ((int*)bins)[at] = own;
  }}
}}
"""
_LEAD = """
__device__ __forceinline__ void {name}(void* leaders, int number, int update) {{
  atomicMin((int*)leaders + number, update);
}}
"""
# By a function: TVM would look for a barrier between what is read here and what is written.
_NAME = """
__device__ __forceinline__ void {name}(void* leaders, int number, int row) {{
  ((int*)leaders)[number] = row;
}}
"""


class HotRows:
    """Those of the chunk that a block sorts out."""

    def __init__(self, indices: Indices, room: Room, layout: ChunkLayout) -> None:
        self.indices, self.room, self.layout = indices, room, layout
        self.writer = indices.writer
        self.found: Expr = int32(0)  # how many there are

    def row(self, number: Expr) -> Expr:
        """One of them: its row of the table."""
        return self.writer.value("hot_row", self._leader(number))

    def first(self, number: Expr) -> Expr:
        """The first of its updates in the list."""
        return self.room.number(self.layout.ranges_start, number)

    def last(self, number: Expr) -> Expr:
        """The entry behind its last one."""
        return self.room.number(self.layout.ranges_start + self.layout.hot, number)

    def count(self, row: Expr) -> None:
        """One update more that goes to a row."""
        bins = self.room.place(self.layout.bins_start)
        self.indices.call("count", COUNT, bins, self._bin(row), int32(1))

    def find(self) -> None:
        """Number the bins with many, behind a barrier for what was counted."""
        layout, place = self.layout, self.room.place
        bins, leaders, found = map(
            place, (layout.bins_start, layout.leaders_start, layout.found_start)
        )
        sizes = int32(layout.bins), int32(layout.least)
        self.indices.call("find_hot", _FIND, bins, sizes[0], leaders, found, sizes[1])
        self.indices.barrier()
        self.found = self.writer.value("found", self.room.number(layout.found_start))

    def number(self, row: Expr) -> Expr:
        """Which of them a row is; -1: none."""
        own = self.writer.value("bin", self._number_of_bin(row))
        is_row = tirx.if_then_else(
            own >= 0, tirx.EQ(self._leader(own), row), tirx.const(False, "bool")
        )
        return self.writer.value("hot", tirx.Select(is_row, own, int32(-1)))

    def list_updates(self, start: Expr, end: Expr, left: Expr) -> None:
        """The updates of a range, row by row and in their order; `left`: what counts the others."""
        indices, layout, size = self.indices, self.layout, self.layout.size

        def lead(row: Expr, update: Expr) -> None:
            own = self.writer.value("bin", self._number_of_bin(row))
            with self.writer.when(own >= 0):
                leaders = self.room.place(layout.leaders_start)
                indices.call("lead", _LEAD, leaders, own, update.astype("int32"))

        def note(row: Expr, update: Expr) -> None:
            number, dtype = self.number(row), self.room.layout.dtype
            with self.writer.when(number >= 0):
                counter = self.room.place(layout.ranges_start + 2 * layout.hot)
                self.room.note(indices, indices.entry(number, update, dtype), counter)
                indices.call("count", COUNT, left, indices.group(row), int32(-1))

        indices.look_through(start, end, lead, size)
        indices.barrier()
        with indices.each(self.found, "leader") as number:
            leaders = self.room.place(layout.leaders_start)
            indices.call("name", _NAME, leaders, number, indices.row_of(self.row(number)))
        indices.barrier()
        indices.look_through(start, end, note, size)
        indices.barrier()
        self.room.sort(indices, self.room.place(layout.ranges_start), layout.hot)
        indices.barrier()

    def _leader(self, number: Expr) -> Expr:
        return self.room.number(self.layout.leaders_start, number)

    def _bin(self, row: Expr) -> Expr:
        return tirx.truncmod(row, int32(self.layout.bins))

    def _number_of_bin(self, row: Expr) -> Expr:
        own = self.room.number(self.layout.bins_start, tirx.max(self._bin(row), int32(0)))
        return tirx.if_then_else(row >= 0, own, int32(-1))
