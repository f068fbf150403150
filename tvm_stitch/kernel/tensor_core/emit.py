"""Emits a matrix product on tensor cores, and what follows it: a TensorProduct by its Tiles.

In: the product, its Tiles, flat views of the parameters, the block's number and the thread's, and
the shared memory. Writes TIR into a Writer. Decides nothing.

A block goes through the depth. Tiles of both factors are copied into shared memory by cp.async,
some stages ahead, and multiplied (kernel/tensor_core/mma). When all is summed up, the results go
through the same shared memory to what follows (kernel/tensor_core/epilogue).
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.analysis.addressing import COLUMN, ROW
from tvm_stitch.kernel.analysis.contiguity import Extent
from tvm_stitch.kernel.codegen.tir_builder import Writer, all_of, divided
from tvm_stitch.kernel.tensor_core.epilogue import Epilogue, inside
from tvm_stitch.kernel.tensor_core.mma import WarpMma
from tvm_stitch.kernel.tensor_core.program import DEPTH, ENTRY, TensorProduct
from tvm_stitch.kernel.tensor_core.ragged import RowTile, find_rows
from tvm_stitch.kernel.tensor_core.smem_swizzle import WORD, OperandTile
from tvm_stitch.kernel.tensor_core.tiles import (
    HALF,
    Tiles,
    ahead_of,
    footprint,
    iterations_of,
    pieces,
    stage_elements,
)
from tvm_stitch.kernel.tensor_core.wgmma import WarpgroupMma
from tvm_stitch.stages.patterns.matmul_pattern import ACCUMULATED
from tvm_stitch.stages.stage import (
    Expr,
    Var,
    as_int64,
    buffer_size,
    dtype_of,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import int64

LEAST_COPY = 4  # bytes of a cp.async


def allocate_smem_arena(products: Sequence[TensorProduct], tiles: Tiles, writer: Writer) -> Var:
    """The shared memory of all tiles, which is one buffer, and that of all products.

    For several, TVM would look for places and barriers of its own.
    """
    words = max(-(-footprint(product, tiles).shared // WORD) for product in products)
    smem_arena = writer.allocate("arena", words, ACCUMULATED, "shared.dyn")
    # TVM allocates as much as it sees to be used, and of a pointer it sees one element.
    writer.call(smem_arena.ptr_to([int64(words - 1)]))
    return smem_arena


class TensorPart:
    """A product on its way into TIR."""

    def __init__(
        self,
        product: TensorProduct,
        tiles: Tiles,
        views: MappingOf[Var, Var],
        block: Expr,
        thread: Expr,
        rank: Expr,
        smem_arena: Var,
        writer: Writer,
    ) -> None:
        """`block` counts tiles, `rank` the blocks that share one."""
        self.product, self.tiles, self.views = product, tiles, views
        self.block, self.thread, self.rank, self.writer = block, thread, rank, writer
        self.smem_arena = smem_arena
        self.rows: RowTile | None = None  # where they are in groups
        size = buffer_size(smem_arena) * (WORD // HALF)
        self.halves = writer.view(self.smem_arena, size, dtype=product.multiplied)

    def emit(self) -> None:
        """Write the kernel's body."""
        self._find_place()
        with self.writer.when(self.rows and self.rows.exists):
            self._accumulate()
            first = {ENTRY: self.entry, ROW: self.row, COLUMN: self.column}
            extents = self._extents(self.product.extents)
            arenas = self.smem_arena, self.halves
            who = self.thread, self.rank
            how = self.product, self.tiles, self.views, first, extents, who, arenas, self.writer
            Epilogue(*how).emit(self.sums)

    def _extents(self, extents: dict[Var, Extent]) -> dict[Var, Extent]:
        """How far variables go in this block: where rows are in groups, to the group's end."""
        return {**extents, ROW: self.rows.end} if self.rows and ROW in extents else extents

    def _barrier(self) -> None:
        self.writer.call(T.tvm_storage_sync("shared"))

    def _find_place(self) -> None:
        """The block's entry and first row and column."""
        writer, tiles = self.writer, self.tiles
        across, along = pieces(self.product, tiles)
        entry, rest = int64(0), self.block
        if self.product.entries != 1:
            entry, rest = divided(self.block, across * along)
        together = _least(across, tiles.group)
        group, within = divided(rest, together * along)
        beside = tirx.min(across - group * together, as_int64(together))
        if isinstance(across, int) and across % together == 0:
            beside = int64(together)
        column, row = divided(within, beside)
        self.entry = self.group = writer.value("entry", entry)
        tile_row = writer.value("tile_row", group * together + row)
        if self.product.ragged is None:
            self.row = tile_row * tiles.rows
        else:
            ends = self.views[self.product.ragged.ends]
            how = self.product, ends, tile_row, tiles.rows, self.thread
            self.rows = find_rows(writer, *how)
            self.row, self.group = self.rows.first, self.rows.group
        self.column = writer.value("tile_column", column) * tiles.columns
        left = stage_elements(tiles, self.product.left.by_depth, tiles.rows)
        right = stage_elements(tiles, self.product.right.by_depth, tiles.columns)
        self.left = OperandTile(self.product.left, tiles, tiles.rows, self.row, 0, left)
        self.right = OperandTile(
            self.product.right, tiles, tiles.columns, self.column, tiles.stages * left, right
        )

    # The product

    def _accumulate(self) -> None:
        writer, tiles = self.writer, self.tiles
        made = WarpgroupMma if tiles.warpgroups else WarpMma
        self.sums = made(tiles, self.left, self.right, self.smem_arena, self.thread, writer)
        iterations, ahead = iterations_of(self.product, tiles), ahead_of(self.product, tiles)
        all_ahead = isinstance(iterations, int) and iterations <= ahead
        for iteration in range(ahead):
            self._copy_both(int64(iteration), int64(iteration))
            self.writer.call(T.ptx.cp.async_.commit_group())
        self.sums.begin()
        # Counted beside the iterations: every product would wait for the rest of a division.
        slots = writer.allocate("slots", 2, "int32")
        for place, slot in enumerate((0, 0 if all_ahead else ahead)):
            writer.store(slots, int64(place), tirx.const(slot, "int32"))
        # Of unrolled stages of few instructions ptxas 13.0 used the sums before it waited for the
        # last of them: wrong by a tenth on an H200.
        loop = writer.rolled if tiles.warpgroups else writer.serial
        with loop(iterations, "iteration") as iteration:
            self.writer.call(T.ptx.cp.async_.wait_group(ahead - 1))
            self.sums.arrived()
            # What the slowest warp multiplied last is where the next copies go.
            self._barrier()
            if tiles.warpgroups:  # which go on while the threads find their addresses
                self.sums.multiply(iteration, slots[0])
            later = iteration + ahead
            if not all_ahead:
                with writer.when(later < iterations):
                    self._copy_both(later, as_int64(slots[1]))
            self.writer.call(T.ptx.cp.async_.commit_group())
            if not tiles.warpgroups:
                self.sums.multiply(iteration, slots[0])
            self.sums.settle()
            for place in range(1 if all_ahead else 2):
                self._next(slots, place)
        self.writer.call(T.ptx.cp.async_.wait_group(0))
        self.sums.end()

    def _next(self, slots: Var, place: int) -> None:
        """The slot after this one."""
        following = slots[place] + 1
        again = following == self.tiles.stages
        self.writer.store(slots, int64(place), tirx.Select(again, tirx.const(0), following))

    def _copy_both(self, iteration: Expr, slot: Expr) -> None:
        for side in (self.left, self.right):
            self._copy(side, iteration, slot)

    def _copy(self, side: OperandTile, iteration: Expr, slot: Expr) -> None:
        """The block's threads copy a stage of a factor; what is not there becomes 0."""
        writer, tiles, factor = self.writer, self.tiles, side.factor
        width, fast = factor.vector, side.fast
        chunks = side.count * tiles.depth // width
        with writer.unrolled(-(-chunks // tiles.threads), "copy") as copy:
            number = copy * tiles.threads + self.thread
            line, chunk = divided(number, fast // width)
            place = (line, chunk * width) if factor.by_depth else (chunk * width, line)
            to = side.place(slot, *place)
            here = {
                ENTRY: self.group,
                factor.side: side.first + place[0],
                DEPTH: self._turn(iteration) * tiles.depth + place[1],
            }
            source = self.views[factor.buffer], substitute(factor.at, here)
            with writer.when(number < chunks if chunks % tiles.threads else None):
                self._copy_chunk(to, source, width, self._exists(side, here))

    def _turn(self, iteration: Expr) -> Expr:
        """Which of the depth's parts: blocks that share it read beside each other."""
        splits = self.tiles.splits
        return iteration if splits == 1 else iteration * splits + self.rank

    def _exists(self, side: OperandTile, here: MappingOf[Var, Expr]) -> Expr | None:
        """Whether there is what a thread copies; chunks are there as a whole, or not."""
        pieces = {side.factor.side: side.count, DEPTH: self.tiles.depth * self.tiles.splits}
        there = inside(here, self._extents(side.factor.extents), pieces)
        return there if self.rows is None else all_of(there, self.rows.is_summed)

    def _copy_chunk(
        self, to: Expr, source: tuple[Var, Expr], width: int, exists: Expr | None
    ) -> None:
        view, at = source
        size = width * HALF
        if size < LEAST_COPY:
            zero = tirx.const(0, dtype_of(view))
            value = view[at] if exists is None else tirx.if_then_else(exists, view[at], zero)
            self.writer.store(self.halves, to, value)
            return
        target = self.smem_arena.ptr_to([tirx.floordiv(to, WORD // HALF)])
        valid = []
        if exists is not None:
            most, none = tirx.const(size, "uint32"), tirx.const(0, "uint32")
            valid = [tirx.Select(exists, most, none)]
        self.writer.cp_async(target, view.ptr_to([at]), size, *valid)


def _least(extent: Extent, most: int) -> Extent:
    return min(extent, most) if isinstance(extent, int) else tirx.min(extent, int64(most))
