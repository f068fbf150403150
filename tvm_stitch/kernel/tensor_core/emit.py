"""Emits a matrix product on tensor cores, and what follows it: a TensorProduct by its Tiles.

In: the product, its Tiles, flat views of the parameters, the block's number and the thread's.
Writes TIR into a Writer. Decides nothing.

A block goes through the depth. Tiles of both factors are copied into shared memory past the
registers, some stages ahead, and multiplied (kernel/tensor_core/mma). When all is summed up, the
results go through the same shared memory, from the threads that tensor cores gave them to threads
that have neighbours of a row: these compute what follows, on vectors.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.analysis.addressing import COLUMN, ROW
from tvm_stitch.kernel.analysis.contiguity import Extent, divides, in_chunks
from tvm_stitch.kernel.codegen.bf16_widen import widened
from tvm_stitch.kernel.codegen.tir_builder import (
    Writer,
    all_of,
    divided,
    evaluated,
    int64,
    vector_copy,
)
from tvm_stitch.kernel.tensor_core.mma import MATRIX, WarpMma
from tvm_stitch.kernel.tensor_core.program import DEPTH, ENTRY, WIDEST, TensorProduct
from tvm_stitch.kernel.tensor_core.smem_swizzle import WORD, OperandTile
from tvm_stitch.kernel.tensor_core.tiles import (
    FRAGMENT_ROWS,
    HALF,
    Tiles,
    ahead_of,
    footprint,
    iterations_of,
    pieces,
    stage_elements,
)
from tvm_stitch.kernel.tensor_core.wgmma import WarpgroupMma
from tvm_stitch.stages.matmul_pattern import ACCUMULATED
from tvm_stitch.stages.stage import Expr, Stage, Var, as_int64, dtype_of, substitute

LEAST_COPY = 4  # bytes that go past the registers


class TensorPart:
    """A product on its way into TIR."""

    def __init__(
        self,
        product: TensorProduct,
        tiles: Tiles,
        views: MappingOf[Var, Var],
        block: Expr,
        thread: Expr,
        writer: Writer,
    ) -> None:
        self.product, self.tiles, self.views = product, tiles, views
        self.block, self.thread, self.writer = block, thread, writer
        # One buffer for all: TVM would look for places and barriers of its own.
        self.words = -(-footprint(product, tiles).shared // WORD)
        self.smem_arena = writer.allocate("arena", self.words, ACCUMULATED, "shared.dyn")
        size = int64(self.words * WORD // HALF)
        self.halves = writer.view(self.smem_arena, size, dtype=product.multiplied)
        self.results = self.smem_arena if dtype_of(product.result) == ACCUMULATED else self.halves

    def emit(self) -> None:
        """Write the kernel's body."""
        self._find_place()
        # TVM allocates as much as it sees to be used, and of a pointer it sees one element.
        self.writer.call(self.smem_arena.ptr_to([int64(self.words - 1)]))
        self._accumulate()
        self._barrier()
        self._pass_on()
        self._barrier()
        self._finish()

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
        self.entry = writer.value("entry", entry)
        self.row = writer.value("tile_row", group * together + row) * tiles.rows
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
        for iteration in range(ahead):
            self._copy_both(int64(iteration), int64(iteration))
            self.writer.call(T.ptx.cp.async_.commit_group())
        self.sums.begin()
        with writer.serial(iterations, "turn") as iteration:
            self.writer.call(T.ptx.cp.async_.wait_group(ahead - 1))
            self.sums.arrived()
            # What the slowest warp multiplied last is where the next copies go.
            self._barrier()
            later = iteration + ahead
            if not isinstance(iterations, int) or iterations > ahead:
                with writer.when(later < iterations):
                    self._copy_both(later, tirx.floormod(later, tiles.stages))
            self.writer.call(T.ptx.cp.async_.commit_group())
            self.sums.multiply(iteration, tirx.floormod(iteration, tiles.stages))
        self.writer.call(T.ptx.cp.async_.wait_group(0))
        self.sums.end()

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
                ENTRY: self.entry,
                factor.side: side.first + place[0],
                DEPTH: iteration * tiles.depth + place[1],
            }
            source = self.views[factor.buffer], substitute(factor.at, here)
            with writer.when(number < chunks if chunks % tiles.threads else None):
                self._copy_chunk(to, source, width, self._exists(side, here))

    def _exists(self, side: OperandTile, here: MappingOf[Var, Expr]) -> Expr | None:
        """Whether there is what a thread copies; chunks are there as a whole, or not."""
        pieces = {side.factor.side: side.count, DEPTH: self.tiles.depth}
        return _inside(here, side.factor.extents, pieces)

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

    # What follows

    def _pass_on(self) -> None:
        """Every thread's totals to where others find them: two neighbours of a row at once."""
        writer, tiles, product = self.writer, self.tiles, self.product
        with (
            writer.unrolled(tiles.warp_rows // FRAGMENT_ROWS, "height") as height,
            writer.unrolled(tiles.warp_columns // MATRIX, "width") as width,
            writer.unrolled(2, "lower") as lower,
        ):
            row = self.sums.warp_row + height * FRAGMENT_ROWS + lower * MATRIX
            column = self.sums.warp_column + width * MATRIX + tirx.floormod(self.sums.lane, 4) * 2
            place = (row + tirx.floordiv(self.sums.lane, 4)) * tiles.pitch + column
            with writer.vectorized(2, "near") as near:
                total = self.sums.total(height, width, lower * 2 + near)
                writer.store(self.results, place + near, total.astype(dtype_of(product.result)))

    def _finish(self) -> None:
        """Vectors of results, one after the other."""
        writer, tiles, product = self.writer, self.tiles, self.product
        vector = self._vector()
        count = tiles.rows * tiles.columns // vector
        # Registers of one turn are free for the next: unrolled, all loads would come first.
        with writer.serial(count // tiles.threads, "turn") as iteration:
            row, chunk = divided(iteration * tiles.threads + self.thread, tiles.columns // vector)
            here = {
                ENTRY: self.entry,
                ROW: self.row + row,
                COLUMN: self.column + chunk * vector,
            }
            tile = {ROW: tiles.rows, COLUMN: tiles.columns}
            with writer.when(_inside(here, product.extents, tile)):
                self._finish_vector(here, row * tiles.pitch + chunk * vector, vector)

    def _vector(self) -> int:
        """Results that a thread has side by side."""
        vector = WIDEST
        threads = self.tiles.threads
        results = self.tiles.rows * self.tiles.columns
        while not divides(vector, self.product.columns) or results % (vector * threads):
            vector //= 2
        return vector

    def _finish_vector(self, here: MappingOf[Var, Expr], place: Expr, vector: int) -> None:
        writer, product = self.writer, self.product
        results = writer.allocate("results", vector, dtype_of(product.result))
        self._copy_vector(results, int64(0), self.results, place, vector)
        loaded = self._load(here, vector)
        outputs = {
            buffer: writer.allocate(f"{buffer.name}_out", vector, dtype_of(buffer))
            for buffer in product.outputs
        }
        with writer.unrolled(vector, "lane") as lane:
            values = {product.result: results[lane]}
            element = {**here, COLUMN: here[COLUMN] + lane}
            for stage in product.after:
                known = {r.key: values[r.buffer] for r in stage.reads if r.buffer in values}
                known |= {r.key: loaded[r.key][lane] for r in stage.reads if r.key in loaded}
                value = self._value(stage, element, known)
                values[stage.output] = writer.value(stage.name, value)
            for buffer, tile in outputs.items():
                writer.store(tile, lane, values[buffer])
        at = substitute(product.flat, here)
        for buffer, tile in outputs.items():
            self._copy_vector(self.views[buffer], at, tile, int64(0), vector)

    def _load(self, here: MappingOf[Var, Expr], vector: int) -> dict[int, Var]:
        """Vectors of what memory holds side by side, by their loads."""
        found: dict[int, Var] = {}
        tiles: dict[tuple[Var, str], Var] = {}
        for stage in self.product.after:
            for read in stage.reads:
                if read.buffer in self.product.computed or read.guarded or read.nested:
                    continue
                at = self.product.place(stage, read)
                key = read.buffer, str(at)
                if key not in tiles:
                    if not in_chunks(at, COLUMN, self.product.extents, vector):
                        continue
                    name = f"{read.buffer.name}_in"
                    tiles[key] = self.writer.allocate(name, vector, dtype_of(read.buffer))
                    start = substitute(at, here)
                    view = self.views[read.buffer]
                    self._copy_vector(tiles[key], int64(0), view, start, vector)
                found[read.key] = tiles[key]
        return found

    def _value(
        self, stage: Stage, element: MappingOf[Var, Expr], known: MappingOf[int, Expr]
    ) -> Expr:
        """A stage's value at an element, loads replaced by what is known of them."""
        axes = self.product.axes[stage.output]
        return widened(evaluated(self.views, stage.value, known, axes, element))

    def _copy_vector(self, to: Var, start: Expr, source: Var, at: Expr, vector: int) -> None:
        def move(writer: Writer, lane: Expr) -> None:
            writer.store(to, start + lane, source[at + lane])

        vector_copy(self.writer, dtype_of(to), vector, move)


def _inside(
    here: MappingOf[Var, Expr], extents: MappingOf[Var, Extent], pieces: MappingOf[Var, int]
) -> Expr | None:
    """What holds if a place is within extents that pieces may not divide; None: they all do."""
    uneven = (var for var, piece in pieces.items() if not divides(piece, extents[var]))
    return all_of(*(here[var] < extents[var] for var in uneven))


def _least(extent: Extent, most: int) -> Extent:
    return min(extent, most) if isinstance(extent, int) else tirx.min(extent, int64(most))
