"""The result: what a warp found, or what warps and the blocks of a cluster did, put together.

In: a Part and what each warp holds. Writes the result: a warp that has all keys by itself; others
tell each other first, and rescale what they found to the largest score of all. Each block of a
cluster is sent its slice of what all of them found (kernel/codegen/cluster_exchange). Orders are
fixed: results are the same in every run.
"""

from __future__ import annotations

from math import gcd

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.attention.attend import Found
from tvm_stitch.kernel.attention.part import Part, real, reference
from tvm_stitch.kernel.attention.tiles import LANES, STATISTICS, slice_of
from tvm_stitch.kernel.codegen import cluster_exchange
from tvm_stitch.kernel.codegen.tir_builder import divided
from tvm_stitch.kernel.tensor_core.mma import SUMS
from tvm_stitch.kernel.tensor_core.program import WIDEST
from tvm_stitch.stages.patterns.matmul_pattern import ACCUMULATED
from tvm_stitch.stages.stage import Expr, Var
from tvm_stitch.stages.symbolic_analyzer import int64


class Merge:
    """From what warps found to the result."""

    def __init__(self, part: Part) -> None:
        """Begins with the barrier that a block of a cluster waits for, which all must have."""
        self.part, self.writer = part, part.writer
        self.rows, self.depth = part.rows, part.attention.value_depth
        self.barrier = self._open_barrier() if part.tiles.splits > 1 else None

    def finish(self, found: Found) -> None:
        """All that follows the last key."""
        if self.part.tiles.by_rows:
            self._finish_warp(found)
            return
        self._leave(found)
        self.writer.call(T.tvm_storage_sync("shared"))
        if self.barrier is None:
            self._finish_block()
        else:
            self._send(self.barrier)
            self._finish_cluster(self.barrier)

    def _finish_warp(self, found: Found) -> None:
        """Neighbouring columns of a row are a lane's."""
        writer, part = self.writer, self.part
        line = writer.allocate("line", part.width, part.dtype)
        for height in range(part.heights):
            row = part.rows_at(height)
            total = T.cuda.warp_reduce(found.sums[int64(height)], "sum", LANES)
            total = writer.value("total", total)
            place = part.row_of(part.attention.output, tirx.min(row, int64(self.rows - 1)))
            with writer.when(row < self.rows):
                for beside in range(2):
                    with writer.unrolled(part.width, "column") as column:
                        sum_ = found.totals[column * SUMS + (height * 2 + beside)]
                        writer.store(line, column, _mean(sum_, total).astype(part.dtype))
                    start = place + (part.within * 2 + beside) * part.width
                    vector = gcd(part.width, WIDEST)
                    for first in range(0, part.width, vector):
                        with writer.vectorized(vector, "lane") as lane:
                            to = start + first + lane
                            writer.store(part.views["output"], to, line[first + lane])

    def _leave(self, found: Found) -> None:
        """What a warp found, where the others of its block find it."""
        writer, part = self.writer, self.part
        lines = part.tiles.warps * self.rows
        self.found = writer.allocate("found", lines * self.depth, ACCUMULATED, "shared")
        self.of_warps = writer.allocate("of_warps", STATISTICS * lines, ACCUMULATED, "shared")
        for height in range(part.heights):
            at, row = int64(height), part.rows_at(height)
            total = writer.value("sum", T.cuda.warp_reduce(found.sums[at], "sum", LANES))
            line = writer.value("line", part.warp * self.rows + row)
            with writer.when(row < self.rows):
                with writer.when(part.within == 0):
                    writer.store(self.of_warps, line * STATISTICS, found.largest[at])
                    writer.store(self.of_warps, line * STATISTICS + 1, total)
                with writer.unrolled(part.width, "column") as column:
                    for beside in range(2):
                        at_column = (part.within * 2 + beside) * part.width + column
                        place = line * self.depth + at_column
                        sum_ = found.totals[column * SUMS + (height * 2 + beside)]
                        writer.store(self.found, place, sum_)

    def _together(
        self, stats: Var, values: Var, row: Expr, place: Expr, parts: int, apart: int
    ) -> tuple[Expr, Expr, Expr]:
        """A row's largest score, its sum of powers and an element of its totals, of several parts
        whose elements are so far apart."""
        writer, own = self.writer, [(n * self.rows + row) * STATISTICS for n in range(parts)]
        most = stats[own[0]]
        for each in own[1:]:
            most = tirx.max(most, stats[each])
        most = writer.value("most", most)
        below = writer.value("below", reference(most))
        total, result = real(0.0), real(0.0)
        for number, each in enumerate(own):
            factor = writer.value("factor", self.part.power(stats[each], below))
            total = total + stats[each + 1] * factor
            result = result + values[number * apart + place] * factor
        return most, writer.value("total", total), writer.value("result", result)

    def _of_block(self, number: Expr) -> tuple[Expr, Expr, Expr, Expr]:
        """An element's row, and what all warps of the block found together."""
        depth = self.depth
        row = self.writer.value("row", tirx.floordiv(number, depth))
        warps = self.part.tiles.warps
        found = self._together(self.of_warps, self.found, row, number, warps, self.rows * depth)
        return row, *found

    def _each(self, count: int) -> list[Expr]:
        """The numbers of a thread's elements."""
        threads = self.part.tiles.threads
        return [self.part.thread + first for first in range(0, count, threads)]

    def _finish_block(self) -> None:
        count = self.rows * self.depth
        for number in self._each(count):
            with self.writer.when(number < count):
                row, _, total, result = self._of_block(number)
                self._store(row, number, total, result)

    def _store(self, row: Expr, number: Expr, total: Expr, result: Expr) -> None:
        """An element of the result."""
        column = tirx.floormod(number, self.depth)
        place = self.part.row_of(self.part.attention.output, row) + column
        value = _mean(result, total).astype(self.part.dtype)
        self.writer.store(self.part.views["output"], place, value)

    def _open_barrier(self) -> Expr:
        """What this block waits for: its slice of all blocks' totals, and their rows' numbers."""
        splits, own = self.part.tiles.splits, slice_of(self.part.attention, self.part.tiles)
        count = splits * (own + STATISTICS * self.rows)
        self.received = self.writer.allocate("received", splits * own, ACCUMULATED, "shared")
        size = splits * STATISTICS * self.rows
        self.of_blocks = self.writer.allocate("of_blocks", size, ACCUMULATED, "shared")
        for buffer, last in ((self.received, splits * own - 1), (self.of_blocks, size - 1)):
            # TVM shrinks a buffer to the elements that it sees used.
            self.writer.call(buffer.ptr_to([int64(last)]))
        barriers = cluster_exchange.open_barriers(self.writer, self.part.thread == 0, [4 * count])
        barrier: Expr = barriers.ptr_to([int64(0)])
        return barrier

    def _send(self, barrier: Expr) -> None:
        """To each block of the cluster its slice, to all of them each row's numbers."""
        writer, own = self.writer, slice_of(self.part.attention, self.part.tiles)
        cluster_exchange.await_barriers(writer)
        count = self.rows * self.depth
        for number in self._each(count):
            with writer.when(number < count):
                row, most, total, result = self._of_block(number)
                to, place = divided(number, own)
                there = self.received.ptr_to([self.part.rank * own + place])
                cluster_exchange.send(writer, result, there, barrier, to)
                column = tirx.floormod(number, self.depth)
                # The first threads of a row tell its numbers, one block each.
                with writer.when(column < self.part.tiles.splits):
                    line = (self.part.rank * self.rows + row) * STATISTICS
                    for value, beside in ((most, 0), (total, 1)):
                        there = self.of_blocks.ptr_to([line + beside])
                        cluster_exchange.send(writer, value, there, barrier, column)

    def _finish_cluster(self, barrier: Expr) -> None:
        """The block's slice of the result."""
        own = slice_of(self.part.attention, self.part.tiles)
        cluster_exchange.wait(self.writer, barrier)
        for place in self._each(own):
            with self.writer.when(place < own):
                number = self.part.rank * own + place
                row = self.writer.value("row", tirx.floordiv(number, self.depth))
                _, total, result = self._together(
                    self.of_blocks, self.received, row, place, self.part.tiles.splits, own
                )
                self._store(row, number, total, result)


def _mean(result: Expr, total: Expr) -> Expr:
    """An element of the result; 0 of a row that sees no key."""
    return tirx.Select(total == real(0.0), real(0.0), result / total)
