"""In shared memory: the updates that indices send to a block's rows, row by row, in their order.

In: a scattered sum, the Mapping of its program, where it is written. Writes TIR into a Writer.

The threads of a block look through the indices and note the updates of its rows, each as one number
of its row and its own. An atomic counter says where, so the order is left to chance: sorted, they
are the same list every time. Must not know what updates are made of.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen.thread_indexing import blocks_of_row
from tvm_stitch.kernel.codegen.tir_builder import Place, flat_loads, int64
from tvm_stitch.kernel.ir.iteration_space import Space
from tvm_stitch.kernel.ir.mapping import Mapping, power_of_two
from tvm_stitch.stages.patterns.scattered_sum import ScatteredSum
from tvm_stitch.stages.stage import Expr, as_int64, constant, item_bytes, substitute

LIST_BYTES = 1 << 17  # at most
LOOKED_AT = 4  # indices of a thread that are on their way at once
NUMBER_BITS = 32  # of an update, where only run time knows how many there are
IN_CUDA = {"int32": "int", "int64": "long long", "float32": "float"}
# In CUDA, not in TIR: TVM would look for places of barriers of its own, inside of branches.
_NOTE = """
__device__ __forceinline__ void {name}(void* to, int room, void* counter, {type} entry) {{
  int slot = atomicAdd((int*)counter, 1);
  if (slot < room) (({type}*)to)[slot] = entry;
}}
"""
# A bitonic network all of whose comparisons are in one direction: it is one for a power of two of
# entries, and those behind the last count as larger than all. 32 pairs lie in 64 entries of their
# warp's own, where they are not further apart than these.
_SORT = """
__device__ __forceinline__ void {name}(void* listed, void* ends, int room, int rows, int bits) {{
  {type}* entries = ({type}*)listed;
  int* first = (int*)ends;
  int* last = first + rows;
  int count = min(first[2 * rows], room);
  for (int width = 2; width < 2 * count; width *= 2) {{
    for (int apart = width / 2, flipped = width - 1; apart > 0; apart /= 2, flipped = apart) {{
      for (int pair = threadIdx.x;; pair += blockDim.x) {{
        int inside = pair & (apart - 1);
        int lower = 2 * (pair - inside) + inside, upper = lower ^ flipped;
        if (lower >= count) break;
        if (upper >= count) continue;
        {type} small = entries[lower], large = entries[upper];
        if (small > large) {{
          entries[lower] = large;
          entries[upper] = small;
        }}
      }}
      int next = apart > 1 ? apart / 2 : 2 * width - 1;
      if (flipped < 64 && next < 64) {{
        __syncwarp();
      }} else {{
        __syncthreads();
      }}
    }}
  }}
  __syncthreads();
  for (int at = threadIdx.x; at < count; at += blockDim.x) {{
    int row = entries[at] >> bits;
    if (at == 0 || row != entries[at - 1] >> bits) first[row] = at;
    if (at == count - 1 || row != entries[at + 1] >> bits) last[row] = at + 1;
  }}
}}
"""


@dataclass(frozen=True)
class ListLayout:
    """How much a list has room for, and how its entries are written."""

    iterations: int  # of a block
    rows: int  # of a block, in all iterations
    room: int  # entries
    bits: int  # of an entry, that number the update
    dtype: str  # of an entry

    @property
    def bytes(self) -> int:
        """Shared memory of a block, with the ranges of its rows and the counter."""
        return self.room * item_bytes(self.dtype) + 4 * (self.ranges + 1)

    @property
    def ranges(self) -> int:
        """Numbers that say where the entries of rows are, and the counter."""
        return 2 * self.rows + 1


def list_layout(wanted: ScatteredSum, space: Space, mapping: Mapping) -> ListLayout:
    """The list of a block: where it can be, it has room for all updates."""
    groups = -(-(constant(space.rows) or 0) // mapping.rows)
    iterations = -(-groups // (mapping.blocks // blocks_of_row(space, mapping)))
    rows, count = iterations * mapping.rows, constant(wanted.count)
    bits = NUMBER_BITS if count is None else max(1, (count - 1).bit_length())
    dtype = "int32" if bits + rows.bit_length() < NUMBER_BITS else "int64"
    most = LIST_BYTES // item_bytes(dtype)
    return ListLayout(
        iterations, rows, most if count is None else min(most, power_of_two(count)), bits, dtype
    )


class UpdateList:
    """The list of one sum."""

    def __init__(self, wanted: ScatteredSum, space: Space, mapping: Mapping, place: Place) -> None:
        self.wanted, self.mapping, self.place = wanted, mapping, place
        self.layout = list_layout(wanted, space, mapping)
        self.writer, self.name = place.writer, wanted.stage.name
        self.groups = mapping.blocks // blocks_of_row(space, mapping)
        self.group = tirx.floordiv(place.block, blocks_of_row(space, mapping))
        writer, layout = self.writer, self.layout
        # One array: TVM may give two that are passed on by address to the same memory.
        room, wide = layout.room, item_bytes(layout.dtype)
        size = room + -(-4 * layout.ranges // wide)
        self.entries = writer.allocate(f"{self.name}_list", size, layout.dtype, "shared.dyn")
        # It shrinks arrays to the elements that it sees used.
        writer.call(self.entries.ptr_to([int64(size - 1)]))
        # Of each row the first of its entries, and the one behind its last; the counter.
        self.ranges = writer.view(self.entries, int64(layout.ranges), room * wide // 4, "int32")
        # How many updates there are for all iterations: perhaps more than there is room for.
        self.total: Expr = _int32(0)

    def first(self, row: Expr) -> Expr:
        """The first entry of a row."""
        return self.ranges[row]

    def last(self, row: Expr) -> Expr:
        """The entry behind a row's last."""
        return self.ranges[row + self.layout.rows]

    def update(self, entry: Expr) -> Expr:
        """The update of an entry, in 32 bits."""
        number = tirx.bitwise_and(self.entries[entry], self._const((1 << self.layout.bits) - 1))
        return number.astype("int32")

    @property
    def looks(self) -> Expr:
        """Runs of indices of which there is room for all."""
        return tirx.floordiv(self.wanted.count + (self.layout.room - 1), self.layout.room)

    @property
    def always_fits(self) -> bool:
        """Whether there is room for all updates at once."""
        return constant(self.looks) == 1

    def fill(self) -> None:
        """List what all iterations of the block need, as far as there is room."""
        self._fill(int64(0), self.wanted.count, None)
        if not self.always_fits:
            self.total = self.writer.value("total", self.ranges[int64(2 * self.layout.rows)])

    def look(self, look: Expr, iteration: Expr) -> None:
        """List what one iteration needs of one run of indices."""
        start = look * self.layout.room
        end = tirx.min(start + self.layout.room, self.wanted.count)
        self._barrier()  # behind those who still add up what was listed before
        self._fill(start, end, iteration)

    def _fill(self, start: Expr, end: Expr, iteration: Expr | None) -> None:
        writer = self.writer
        with self._each(_int32(self.layout.ranges), "cleared") as at:
            writer.store(self.ranges, as_int64(at), _int32(0))
        self._barrier()
        self._collect(start, end, iteration)
        self._barrier()
        self._sort()
        self._barrier()

    @contextmanager
    def _each(self, count: Expr, name: str) -> Iterator[Expr]:
        """Numbers below a count, shared by the block's threads; in 32 bits."""
        threads, exact = self.mapping.block_threads, constant(count)
        with self.writer.serial(tirx.floordiv(count + (threads - 1), threads), name) as step:
            at = (step * threads + self.place.thread).astype("int32")
            fits = exact is not None and exact % threads == 0
            with self.writer.when(None if fits else at < count):
                yield at

    def _barrier(self) -> None:
        self.writer.call(T.tvm_storage_sync("shared"))

    def _const(self, value: int) -> Expr:
        return tirx.const(value, self.layout.dtype)

    def _collect(self, start: Expr, end: Expr, iteration: Expr | None) -> None:
        """Note the updates of the rows in whatever order."""
        writer, threads = self.writer, self.mapping.block_threads
        runs = tirx.floordiv(end - start + (threads * LOOKED_AT - 1), threads * LOOKED_AT)
        with writer.serial(runs, "run") as run:
            first = start + run * (threads * LOOKED_AT) + self.place.thread
            updates = [first + number * threads for number in range(LOOKED_AT)]
            own = writer.allocate(f"{self.name}_row", LOOKED_AT, "int64")
            for number, update in enumerate(updates):
                writer.store(own, int64(number), self._goes_to(update, end))
            for number, update in enumerate(updates):
                row = self._own_row(own[int64(number)], iteration)
                with writer.when(row >= 0):
                    self._note(row, update)

    def _note(self, row: Expr, update: Expr) -> None:
        """An entry wherever the counter says, if there is room."""
        layout = self.layout
        entry = tirx.shift_left(row.astype(layout.dtype), self._const(layout.bits))
        entry = tirx.bitwise_or(entry, update.astype(layout.dtype))
        counter = self.ranges.ptr_to([int64(2 * layout.rows)])
        self._call("note", _NOTE, self._start, _int32(layout.room), counter, entry)

    def _sort(self) -> None:
        """The entries in order, and where those of each row are."""
        layout = self.layout
        sizes = [_int32(each) for each in (layout.room, layout.rows, layout.bits)]
        self._call("sort", _SORT, self._start, self.ranges.ptr_to([int64(0)]), *sizes)

    @property
    def _start(self) -> Expr:
        return self.entries.ptr_to([int64(0)])

    def _call(self, what: str, source: str, *arguments: Expr) -> None:
        name = f"tvm_stitch_{what}_{self.layout.dtype}"
        source = source.format(name=name, type=IN_CUDA[self.layout.dtype])
        self.writer.call(T.cuda.func_call(name, *arguments, source_code=source))

    def _goes_to(self, update: Expr, end: Expr) -> Expr:
        """The row of the table that an update goes to; -1: there is no such update."""
        wanted = self.wanted
        number = substitute(wanted.row, {wanted.update: update}).astype("int64")
        number = flat_loads(self.place.views, number, wanted.place)
        return tirx.if_then_else(update < end, number, int64(-1))

    def _own_row(self, row: Expr, iteration: Expr | None) -> Expr:
        """Its number among the block's rows, or those of an iteration; -1: not one of them."""
        rows = self.mapping.rows
        # In 32 bits, in which it takes a division less long; who has no row is in no group.
        small = row.astype("int32")
        exists = tirx.all(row >= 0, row < self.wanted.rows)
        small = self.writer.value("to", tirx.Select(exists, small, _int32(-1)))
        of_table, inside = tirx.truncdiv(small, rows), tirx.truncmod(small, rows)
        own_iteration = tirx.truncdiv(of_table, self.groups)
        group = tirx.truncmod(of_table, self.groups)
        is_own = tirx.all(small >= 0, group == self.group.astype("int32"))
        if iteration is None:
            inside = own_iteration * rows + inside
        else:
            is_own = tirx.all(is_own, own_iteration == iteration.astype("int32"))
        return tirx.Select(is_own, inside, _int32(-1))


def _int32(value: int) -> Expr:
    return tirx.const(value, "int32")
