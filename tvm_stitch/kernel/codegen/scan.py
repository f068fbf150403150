"""Emits what is accumulated along a row: each element with all before it, in registers; or with all
behind it, where lanes, warps and steps take the other order.

In: a stage that scans, and the tile of a thread's elements, of which those that do not exist are
last or, in a misaligned row, first. Writes TIR into a Writer. Must not know what is computed of it.

A thread accumulates its vector of a step; what the vectors of a step amount to is scanned by
shuffles within each warp; warps leave their totals of all steps in shared memory, behind one
barrier. Every thread then adds up what comes before its own in the same order: equal inputs give
equal results to the bit.
"""

from __future__ import annotations

from itertools import pairwise

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen import footprint
from tvm_stitch.kernel.codegen.reduction import needs_exchange
from tvm_stitch.kernel.codegen.thread_indexing import Guard, Position
from tvm_stitch.kernel.codegen.tir_builder import Writer
from tvm_stitch.kernel.codegen.warp_shuffle import combine, from_lane, from_lower, from_upper
from tvm_stitch.kernel.ir.mapping import WARP, Mapping
from tvm_stitch.stages.stage import Expr, Stage, Var, dtype_of, element_bytes
from tvm_stitch.stages.symbolic_analyzer import int64


def scratch_bytes(stage: Stage, mapping: Mapping) -> int:
    """Shared memory of a block for one scan of all rows of a batch."""
    if not needs_exchange(mapping):
        return 0
    return mapping.batch * footprint.aligned(_totals(mapping) * element_bytes(stage.output))


def accumulate(
    writer: Writer,
    stage: Stage,
    tile: Var,
    mapping: Mapping,
    position: Position,
    carry: Var | None = None,
) -> None:
    """Write the scan of a tile, in place.

    `carry` has what the row's chunks before this one amount to, and then those up to it.
    """
    _Scan(writer, stage, tile, mapping, position, carry).emit()


def nothing_before(writer: Writer, stage: Stage) -> Var:
    """A carry before the first chunk of a row."""
    dtype = dtype_of(stage.output)
    carry = writer.allocate(f"{stage.name}_carry", 1, dtype)
    writer.store(carry, int64(0), stage.identity.astype(dtype))
    return carry


def _totals(mapping: Mapping) -> int:
    return mapping.steps * mapping.block_threads // WARP


class _Scan:
    def __init__(
        self,
        writer: Writer,
        stage: Stage,
        tile: Var,
        mapping: Mapping,
        position: Position,
        carry: Var | None,
    ) -> None:
        self.writer, self.stage, self.tile, self.carry = writer, stage, tile, carry
        self.mapping, self.position = mapping, position
        self.width = min(mapping.threads, WARP)
        self.warps = mapping.threads // self.width
        self.lane = tirx.floormod(position.thread, self.width)
        self.warp = tirx.floordiv(position.thread, self.width)
        self.dtype = dtype_of(tile)
        self.identity = stage.identity.astype(self.dtype)
        self.last_lane = 0 if stage.from_end else self.width - 1  # which has all of its warp's

    def emit(self) -> None:
        writer, steps = self.writer, self.mapping.steps
        name = self.stage.name
        before = writer.allocate(f"{name}_before", steps, self.dtype)
        shared = needs_exchange(self.mapping)
        totals = (
            writer.allocate(f"{name}_warps", _totals(self.mapping), self.dtype, "shared")
            if shared
            else writer.allocate(f"{name}_totals", steps, self.dtype)
        )
        for alike in self.position.steps():
            with writer.unrolled(alike.count, "step", alike.start) as step:
                self._vector(step, alike.guard)
                total = self._warp(step, before)
                if shared:
                    with writer.when(self.lane == self.last_lane):
                        writer.store(totals, self._slot(step, self.warp), total)
                else:
                    last = from_lane(total, self.last_lane, self.width)
                    writer.store(totals, step, last if self.width > 1 else total)
        if shared:
            writer.add(tirx.Evaluate(T.tvm_storage_sync("shared")))
        self._add_before(before, totals, shared)

    def _vector(self, step: Expr, guard: Guard) -> None:
        """A thread's own elements of a step; what is not there counts for nothing."""
        writer, vector = self.writer, self.mapping.vector
        first = step * vector
        if guard is not Guard.NONE:
            with writer.unrolled(vector, "lane") as lane:
                exists = self.position.inside(step, lane)
                own = tirx.Select(exists, self.tile[first + lane], self.identity)
                writer.store(self.tile, first + lane, own)
        lanes = self._ordered(vector)
        for before, lane in pairwise(lanes):
            both = self._combined(self.tile[first + before], self.tile[first + lane])
            writer.store(self.tile, first + lane, both)

    def _warp(self, step: Expr, before: Var) -> Expr:
        """What the warp's vectors of a step amount to up to a thread's own; those before it."""
        writer, name = self.writer, self.stage.name
        last = step * self.mapping.vector + self._ordered(self.mapping.vector)[-1]
        value = writer.value(f"{name}_upto", self.tile[last])
        distance = 1
        while distance < self.width:
            other = writer.value(f"{name}_lower", self._earlier(value, distance))
            both = self._combined(other, value)
            value = writer.value(f"{name}_upto", tirx.Select(self._has(distance), both, value))
            distance *= 2
        if self.width == 1:
            writer.store(before, step, self.identity)
            return value
        lower = writer.value(f"{name}_lower", self._earlier(value, 1))
        writer.store(before, step, tirx.Select(self._has(1), lower, self.identity))
        return value

    def _earlier(self, value: Expr, distance: int) -> Expr:
        """The value of the lane that comes so much before a thread's own."""
        way = from_upper if self.stage.from_end else from_lower
        return way(value, distance, self.width)

    def _has(self, distance: int) -> Expr:
        """Whether there is such a lane."""
        if self.stage.from_end:
            return self.lane < self.width - distance
        return self.lane >= distance

    def _ordered(self, count: int) -> list[int]:
        """Numbers below one in the order in which elements are accumulated."""
        return list(range(count))[:: -1 if self.stage.from_end else 1]

    def _nth(self, number: Expr, count: int) -> Expr:
        """The same, one after the other, in a loop."""
        return count - 1 - number if self.stage.from_end else number

    def _add_before(self, before: Var, totals: Var, shared: bool) -> None:
        """What comes before a thread's vectors: its warp's lower lanes, other warps, steps."""
        writer, mapping = self.writer, self.mapping
        running, zero = self.carry, int64(0)
        if running is None:
            running = writer.allocate(f"{self.stage.name}_running", 1, self.dtype)
            writer.store(running, zero, self.identity)
        with writer.unrolled(mapping.steps, "step") as number:
            step = self._nth(number, mapping.steps)
            if shared:
                mine = writer.allocate(f"{self.stage.name}_mine", 1, self.dtype)
                writer.store(mine, zero, running[zero])
                with writer.unrolled(self.warps, "warp") as nth:
                    warp = self._nth(nth, self.warps)
                    own = tirx.Select(warp == self.warp, running[zero], mine[zero])
                    writer.store(mine, zero, own)
                    total = totals[self._slot(step, warp)]
                    writer.store(running, zero, self._combined(running[zero], total))
                start = self._combined(mine[zero], before[step])
            else:
                start = self._combined(running[zero], before[step])
            start = writer.value(f"{self.stage.name}_start", start)
            if not shared:
                writer.store(running, zero, self._combined(running[zero], totals[step]))
            with writer.unrolled(mapping.vector, "lane") as lane:
                at = step * mapping.vector + lane
                writer.store(self.tile, at, self._combined(start, self.tile[at]))

    def _slot(self, step: Expr, warp: Expr) -> Expr:
        """Where the warps of a block's rows leave their totals of a step."""
        row = self.position.row_of_block
        return (row * self.mapping.steps + step) * self.warps + warp

    def _combined(self, left: Expr, right: Expr) -> Expr:
        return combine(self.stage.scan, left, right)
