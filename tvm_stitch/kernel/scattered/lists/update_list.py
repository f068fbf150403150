"""In shared memory: the updates that indices send to a block's rows, row by row, in their order.

In: a scattered reduction, its layout, the Mapping of its program, where it is written. Writes TIR
into a Writer.

A block notes the updates of its rows (sources), each as one number of its row and its own. An
atomic counter says where, so the order is left to chance: sorted, they are the same list every
time. Must not know what updates are made of.
"""

from __future__ import annotations

from tvm import tirx

from tvm_stitch.kernel.codegen.tir_builder import Place
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.scattered.lists.chunk_layout import WORD_BYTES
from tvm_stitch.kernel.scattered.lists.indices import Indices, int32
from tvm_stitch.kernel.scattered.lists.layout import ListLayout
from tvm_stitch.kernel.scattered.lists.room import Room
from tvm_stitch.kernel.scattered.lists.sources import Partition, Scan, Source
from tvm_stitch.kernel.scattered.shared_rows import Partials, shares_rows
from tvm_stitch.stages.patterns.scattered_reduction import ScatteredReduction
from tvm_stitch.stages.stage import Expr, as_int64, constant, item_bytes
from tvm_stitch.stages.symbolic_analyzer import int64


class UpdateList:
    """The list of one sum."""

    def __init__(
        self,
        wanted: ScatteredReduction,
        layout: ListLayout,
        mapping: Mapping,
        place: Place,
        at: Expr,
    ) -> None:
        """`at`: where in the workspace of the kernel the sum has its own."""
        self.wanted, self.layout = wanted, layout
        self.writer, name = place.writer, wanted.stage.name
        self.indices = Indices(wanted, layout, mapping, place)
        # One array: TVM may give two that are passed on by address to the same memory.
        room, wide = layout.room, item_bytes(layout.dtype)
        size = room + -(-WORD_BYTES * layout.counters // wide)
        self.entries = self.writer.allocate(f"{name}_list", size, layout.dtype, "shared.dyn")
        # It shrinks arrays to the elements that it sees used.
        self.writer.call(self.entries.ptr_to([int64(size - 1)]))
        # Of each row the first of its entries, and the one behind its last; the counter.
        start = room * wide // WORD_BYTES
        self.ranges = self.writer.view(self.entries, int64(layout.counters), start, "int32")
        # Where threads combine their sums of a row, if several groups of them may share one.
        self.partials = Partials(wanted, mapping, place) if shares_rows(mapping) else None
        group = tirx.floordiv(place.block, mapping.blocks // layout.groups)
        self.room = Room(self.entries, self.ranges, layout)
        self.partition: Partition | None = None
        if layout.chunks:
            assert place.workspace is not None, "updates are sorted out in a workspace"
            self.partition = Partition(self.indices, group, self.room, place.workspace, at)
        self.source: Source = self.partition or Scan(self.indices, group, self.room)
        # How many updates there are for all iterations: perhaps more than there is room for.
        self.total: Expr = int32(0)

    def first(self, row: Expr) -> Expr:
        """The first entry of a row."""
        return self.ranges[row]

    def last(self, row: Expr) -> Expr:
        """The entry behind a row's last."""
        return self.ranges[row + self.layout.rows]

    def number(self, entry: Expr) -> Expr:
        """The update of an entry, in 32 bits; behind all of them, sums of chunks."""
        mask = tirx.const((1 << self.layout.bits) - 1, self.layout.dtype)
        return tirx.bitwise_and(self.entries[entry], mask).astype("int32")

    @property
    def looks(self) -> Expr:
        """Runs of the source of which there is room for all."""
        return tirx.floordiv(self.source.count + (self.source.at_once - 1), self.source.at_once)

    @property
    def always_fits(self) -> bool:
        """Whether there is room for all updates at once."""
        count = constant(self.wanted.count)
        return count is not None and 0 < count <= self.layout.room

    def fill(self, first: Expr | None = None) -> None:
        """List what some iterations of the block need, as far as there is room; None: the first."""
        if first is None:
            first = int64(0)
        else:
            self.indices.barrier()  # behind those who still add up what was listed before
        self._fill(int64(0), self.source.count, first, self.layout.listed)
        if not self.always_fits:
            self.total = self.writer.value("total", self.ranges[int64(2 * self.layout.rows)])

    def look(self, look: Expr, iteration: Expr) -> None:
        """List what one iteration needs of one run of the source."""
        start = look * self.source.at_once
        end = tirx.min(start + self.source.at_once, self.source.count)
        self.indices.barrier()  # behind those who still add up what was listed before
        self._fill(start, end, iteration, 1)

    def _fill(self, start: Expr, end: Expr, first: Expr, iterations: int) -> None:
        indices, writer = self.indices, self.writer
        with indices.each(int32(self.layout.ranges), "cleared") as at:
            writer.store(self.ranges, as_int64(at), int32(0))
        indices.barrier()
        self.source.collect(start, end, first, iterations)
        indices.barrier()
        self.room.sort(indices, self.ranges.ptr_to([int64(0)]), self.layout.rows)
        indices.barrier()
