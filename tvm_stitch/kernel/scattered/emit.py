"""Emits rows that sum what indices send to them, from their block's list of updates.

In: a Program with scattered sums and its Mapping. Writes TIR into a Writer. Decides nothing.

A block lists the updates of all its rows first (update_list). Then it takes a few rows at a time:
the threads of a row add up what the list has for it, some updates on their way at once. Rows that
many indices name are shared by all threads of the block, whose sums are combined in shared memory.
What follows is emitted as of any rows, with the sums as an input that is at hand.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from functools import cached_property
from itertools import product
from typing import Any

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen.bfloat16 import widened
from tvm_stitch.kernel.codegen.thread_indexing import Position
from tvm_stitch.kernel.codegen.tir_builder import (
    Place,
    Writer,
    all_of,
    block_uniform,
    flat_loads,
    int64,
    vector_copy,
)
from tvm_stitch.kernel.codegen.warp_shuffle import ballot
from tvm_stitch.kernel.ir.mapping import WARP, Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.emit import IteratedPart, Part
from tvm_stitch.kernel.rows.row_state import NextRow
from tvm_stitch.kernel.scattered.program import ScatteredProgram, behind_sums
from tvm_stitch.kernel.scattered.update_list import IN_CUDA, UpdateList
from tvm_stitch.stages.indices import unflatten
from tvm_stitch.stages.patterns.scattered_sum import ScatteredSum
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Var,
    bind_axes,
    constant,
    dtype_of,
    element_bytes,
    find_reads,
    flatten,
    replaced,
)

FETCHED = 2  # updates of a row that are on their way at once
HEAVY = 32  # updates of a row, beyond which all threads of its block share them
# A tree reduction over so many groups of a block's threads: in the end the first has all of it.
_COMBINE = """
__device__ __forceinline__ void {name}(void* partials, int groups, int elements) {{
  {type}* own = ({type}*)partials + threadIdx.x;
  for (int left = blockDim.x / 2; groups > 1; groups /= 2, left /= 2) {{
    __syncthreads();
    if (threadIdx.x < left) {{
      for (int n = 0; n < elements; ++n) own[n * blockDim.x] += own[n * blockDim.x + left];
    }}
  }}
  __syncthreads();
}}
"""


def emit_scattered(program: ScatteredProgram, mapping: Mapping, place: Place) -> Expr:
    """Write a part; the number of its blocks."""
    return _Scattered(behind_sums(program), mapping, place, program.scattered).emit()


def shared_sum_bytes(wanted: ScatteredSum, mapping: Mapping) -> int:
    """Shared memory where the threads of a block combine their sums of one row's updates."""
    if mapping.rows == 1:
        return 0
    return mapping.elements * mapping.block_threads * element_bytes(wanted.stage.output)


class _Scattered(IteratedPart):
    """Blocks that have many rows, some at a time, and look through the indices once for all."""

    def __init__(
        self,
        program: Program,
        mapping: Mapping,
        place: Place,
        scattered: tuple[ScatteredSum, ...],
    ) -> None:
        super().__init__(program, mapping, place)
        self.lists = [UpdateList(each, program.space, mapping, place) for each in scattered]

    def emit(self) -> Expr:
        """The lists, then the rows."""
        for each in self.lists:
            each.fill()
        return super().emit()

    def part(self, iteration: Expr, next_row: NextRow | None = None) -> Part:
        """What a block does in an iteration."""
        position = self._position(iteration)
        return _Part(
            self.program, self.mapping, self.place, position, self.sums, next_row,
            lists=self.lists, iteration=iteration,
        )  # fmt: skip


class _Part(Part):
    """Rows that are at hand when their sums are."""

    def __init__(self, *of_rows: Any, lists: list[UpdateList], iteration: Expr) -> None:
        super().__init__(*of_rows)
        self.lists = {each.wanted.stage.output: each for each in lists}
        self.iteration = iteration

    def load_row(self, tiles: MappingOf[Var, Var], position: Position) -> None:
        """What is in memory is on its way while the rest is added up."""
        stored = {buffer: tile for buffer, tile in tiles.items() if buffer not in self.lists}
        if stored:
            super().load_row(stored, position)
        for buffer, tile in tiles.items():
            if buffer in self.lists:
                _Sum(self, self.lists[buffer], tile).emit()


class _Sum:
    """One scattered sum of a thread's row, into its tile."""

    def __init__(self, part: _Part, updates: UpdateList, tile: Var) -> None:
        self.part, self.list, self.tile = part, updates, tile
        self.wanted = updates.wanted
        self.writer, self.mapping, self.position = part.writer, part.mapping, part.position
        self.name, self.dtype = self.wanted.stage.name, dtype_of(tile)

    def emit(self) -> None:
        """Write all of it; where not all updates had room, list them again by iterations."""
        writer, updates = self.writer, self.list
        self._clear(self.tile)
        first_row = self.part.iteration * self.mapping.rows
        if updates.always_fits:
            self._add(first_row)
            return
        whole = updates.total <= updates.layout.room
        first_row = tirx.Select(whole, first_row, int64(0))
        with writer.serial(tirx.Select(whole, int64(1), updates.looks), "look") as look:
            with writer.when(block_uniform(tirx.Not(whole))):
                updates.look(look, self.part.iteration)
            self._add(first_row)

    def _clear(self, tile: Var) -> None:
        with self.writer.unrolled(self.mapping.elements, "element") as element:
            self.writer.store(tile, element, tirx.const(0, self.dtype))

    def _add(self, first_row: Expr) -> None:
        """Add what is listed for the row, behind the rows before the iteration's first one."""
        writer, rows = self.writer, self.mapping.rows
        own = first_row + self.position.row_of_block
        first = writer.value("first", self.list.first(own))
        last = writer.value("last", self.list.last(own))
        if rows == 1:
            self._add_entries(first, last, self.tile)
            return
        with writer.when(last - first <= HEAVY):
            self._add_entries(first, last, self.tile)
        partials = writer.allocate(
            f"{self.name}_partials", self.mapping.elements * self.mapping.block_threads,
            self.dtype, "shared.dyn",
        )  # fmt: skip
        together = min(rows, WARP)
        with writer.serial(rows // together, "rows") as group:
            at = group * together + tirx.floormod(self.part.place.thread, together)
            heavy = self.list.last(first_row + at) - self.list.first(first_row + at) > HEAVY
            votes = writer.value("votes", ballot(heavy))
            with (
                writer.when(block_uniform(votes > tirx.const(0, "uint32"))),
                writer.serial(together, "heavy") as bit,
            ):
                row = group * together + bit
                one = tirx.const(1, "uint32")
                chosen = tirx.bitwise_and(tirx.shift_right(votes, bit.astype("uint32")), one)
                with writer.when(block_uniform(chosen > tirx.const(0, "uint32"))):
                    self._add_heavy(first_row, row, partials)

    def _add_heavy(self, first_row: Expr, row: Expr, partials: Var) -> None:
        """Each row's threads add some of the updates of one row, whose own add them up in order."""
        writer, mapping, position = self.writer, self.mapping, self.position
        first, last = self.list.first(first_row + row), self.list.last(first_row + row)
        each = tirx.floordiv(last - first + (mapping.rows - 1), mapping.rows)
        start = writer.value("start", first + each * position.row_of_block.astype("int32"))
        end = writer.value("end", tirx.min(start + each, last))
        partial = self.part.tile(f"{self.name}_partial", self.dtype)
        self._clear(partial)
        self._add_entries(start, end, partial)
        with writer.unrolled(mapping.elements, "element") as element:
            at = element * mapping.block_threads + self.part.place.thread
            writer.store(partials, at, partial[element])
        name = f"tvm_stitch_combine_{self.dtype}"
        source = _COMBINE.format(name=name, type=IN_CUDA[self.dtype])
        sizes = [tirx.const(each, "int32") for each in (mapping.rows, mapping.elements)]
        writer.call(T.cuda.func_call(name, partials.ptr_to([int64(0)]), *sizes, source_code=source))
        with (
            writer.when(position.row_of_block == row),
            writer.unrolled(mapping.elements, "element") as element,
        ):
            at = element * mapping.block_threads + position.thread
            writer.store(self.tile, element, self.tile[element] + partials[at])
        writer.call(T.tvm_storage_sync("shared"))

    def _add_entries(self, first: Expr, last: Expr, tile: Var) -> None:
        """Add those of a range of the list, in their order."""
        writer = self.writer
        groups = tirx.floordiv(last - first + (FETCHED - 1), FETCHED).astype("int64")
        with writer.serial(groups, "group") as group:
            taken = writer.allocate(f"{self.name}_taken", FETCHED, "int32")
            for near in range(FETCHED):
                at = first.astype("int64") + group * FETCHED + near
                none = tirx.const(-1, "int32")
                update = tirx.if_then_else(at < last.astype("int64"), self.list.update(at), none)
                writer.store(taken, int64(near), update)
            self._add_taken(taken, tile)

    def _add_taken(self, taken: Var, tile: Var) -> None:
        """All loads of these updates are on their way before the first is used."""
        fetched = [self._fetched(read, taken) for read in self._vectors]
        for alike in self.position.steps():
            with (
                self.writer.unrolled(alike.count, "step", alike.start) as step,
                self.writer.when(self.position.exists(step, alike.guard)),
            ):
                for near in range(FETCHED):
                    with self.writer.unrolled(self.mapping.vector, "lane") as lane:
                        self._add_element(tile, taken, near, step, lane, fetched)

    def _fetched(self, read: Read, taken: Var) -> Var:
        """The vectors of a tensor of updates."""
        writer, vector, each = self.writer, self.mapping.vector, self.mapping.elements
        dtype, view = dtype_of(read.buffer), self.part.views[read.buffer]
        tile = writer.allocate(f"{read.buffer.name}_fetched", FETCHED * each, dtype)
        columns = constant(self.wanted.columns)
        for near, alike in product(range(FETCHED), self.position.steps()):
            update = taken[int64(near)]
            with writer.unrolled(alike.count, "step", alike.start) as step:
                exists = self.position.exists(step, alike.guard)
                start = update.astype("int64") * columns + self.position.column(step, int64(0))
                first = step * vector + near * each

                def move(
                    writer: Writer, lane: Expr, first: Expr = first, start: Expr = start
                ) -> None:
                    writer.store(tile, first + lane, view[start + lane])

                with writer.when(all_of(update >= 0, exists)):
                    vector_copy(writer, dtype, vector, move)
        return tile

    def _add_element(
        self, tile: Var, taken: Var, near: int, step: Expr, lane: Expr, fetched: list[Var]
    ) -> None:
        slot = self.part.own_slot(step, lane)
        wanted, at = self.wanted, near * self.mapping.elements + slot
        stage, update = wanted.stage, taken[int64(near)]
        column = self.position.column(step, lane)
        axes = unflatten(column, stage.axes[wanted.depth :], stage.extents[wanted.depth :])
        known = {r.key: t[at] for r, t in zip(self._vectors, fetched, strict=True)}
        value = replaced(wanted.value, known, {**axes, wanted.update: update.astype("int64")})
        value = widened(flat_loads(self.part.views, value, wanted.place)).astype(self.dtype)
        none = tirx.const(0, self.dtype)
        self.writer.store(tile, slot, tile[slot] + tirx.if_then_else(update >= 0, value, none))

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
