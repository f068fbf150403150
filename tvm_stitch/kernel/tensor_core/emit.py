"""Emits a matrix product on tensor cores, and what follows it: a TensorProduct by its Tiles.

In: the product, its Tiles, flat views of the parameters, the block's number and the thread's, and
the shared memory.
Writes TIR into a Writer. Decides nothing.

A block goes through the depth. Tiles of both factors are copied into shared memory by
cp.async, some stages ahead, and multiplied (kernel/tensor_core/mma). When all is summed up, the
results go through the same shared memory, from the threads that tensor cores gave them to threads
that have neighbours of a row: these compute what follows, on vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as MappingOf

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.analysis.addressing import COLUMN, ROW
from tvm_stitch.kernel.analysis.contiguity import Extent, divides, in_chunks
from tvm_stitch.kernel.codegen.bfloat16 import widened
from tvm_stitch.kernel.codegen.tir_builder import Writer, all_of, divided, evaluated, vector_copy
from tvm_stitch.kernel.tensor_core.mma import MATRIX, WarpMma
from tvm_stitch.kernel.tensor_core.program import DEPTH, ENTRY, WIDEST, TensorProduct
from tvm_stitch.kernel.tensor_core.round_pair import round_pair
from tvm_stitch.kernel.tensor_core.smem_swizzle import WORD, OperandTile
from tvm_stitch.kernel.tensor_core.tiles import (
    FRAGMENT_ROWS,
    HALF,
    Tiles,
    ahead_of,
    footprint,
    iterations_of,
    pieces,
    spare_registers,
    stage_elements,
)
from tvm_stitch.kernel.tensor_core.wgmma import WarpgroupMma
from tvm_stitch.stages.patterns.matmul_pattern import ACCUMULATED
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Stage,
    Var,
    as_int64,
    buffer_size,
    dtype_of,
    item_bytes,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import int64

LEAST_COPY = 4  # bytes of a cp.async
# Vectors of results whose loads a thread has on their way at once. One after the other, of tiles
# beyond the last row, 197 x 768 x 3072 took 6.2 us on an H200, with a bias and a residual 10.2.
BATCHED_LOADS = 4


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
        smem_arena: Var,
        writer: Writer,
    ) -> None:
        self.product, self.tiles, self.views = product, tiles, views
        self.block, self.thread, self.writer = block, thread, writer
        self.smem_arena = smem_arena
        size = buffer_size(smem_arena) * (WORD // HALF)
        self.halves = writer.view(self.smem_arena, size, dtype=product.multiplied)
        self._result = dtype_of(product.result)
        self.results = self.smem_arena if self._result == ACCUMULATED else self.halves

    def emit(self) -> None:
        """Write the kernel's body."""
        self._find_place()
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
        return inside(here, side.factor.extents, pieces)

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
        writer, sums = self.writer, self.sums
        swapped, pitch = self.tiles.swapped, self.tiles.pitch
        with (
            writer.unrolled(sums.heights, "height") as height,
            writer.unrolled(sums.widths, "width") as width,
            writer.unrolled(2, "lower") as lower,
        ):
            down = height * FRAGMENT_ROWS + lower * MATRIX + tirx.floordiv(sums.lane, 4)
            across = width * MATRIX + tirx.floormod(sums.lane, 4) * 2
            row, column = (across, down) if swapped else (down, across)
            place = (sums.warp_row + row) * pitch + sums.warp_column + column
            if swapped:  # neighbours are of a column
                found = [sums.total(height, width, lower * 2 + near) for near in range(2)]
                for near, total in enumerate(self._rounded(found)):
                    writer.store(self.results, place + near * pitch, total)
            else:
                with writer.vectorized(2, "near") as near:
                    total = sums.total(height, width, lower * 2 + near)
                    writer.store(self.results, place + near, total.astype(self._result))

    def _rounded(self, totals: list[Expr]) -> list[Expr]:
        """Two neighbours as results are, whatever becomes of each."""
        if self._result == ACCUMULATED:
            return totals
        pair = self.writer.allocate("pair", 2, self._result)
        low, high = totals
        round_pair(self.writer, low, high, pair)
        return [pair[int64(0)], pair[int64(1)]]

    def _finish(self) -> None:
        """Vectors of results, batches of iterations, whose loads are issued before any is used."""
        vector = self._vector()
        iterations = -(-self._chunks(vector) // self.tiles.threads)
        for first, times, size in _batches(iterations, self._batch(vector)):
            # Registers of one batch are free for the next: unrolled, all loads would come first.
            with self.writer.serial(times, "batch") as batch:
                self._finish_batch(first + batch * size, size, vector)

    def _vector(self) -> int:
        """Results that a thread has side by side."""
        vector = WIDEST
        while not divides(vector, self.product.columns):
            vector //= 2
        return vector

    def _batch(self, vector: int) -> int:
        """Iterations of a batch: as many as the registers have room for beside the sums.

        The compiler loads what follows before the product is done.
        """
        keys = {key: item_bytes(dtype_of(read.buffer)) for read, key, _ in self._reads()}
        each = sum(keys.values()) * vector // WORD
        return min(BATCHED_LOADS, max(1, spare_registers(self.tiles) // max(1, each)))

    def _chunks(self, vector: int) -> int:
        return self.tiles.rows * self.tiles.columns // vector

    def _finish_batch(self, iteration: Expr, size: int, vector: int) -> None:
        writer = self.writer
        loads = self._loads(size, vector)
        if loads:
            with writer.unrolled(size, "load") as number:
                here, place, exists = self._own(iteration + number, vector)
                with writer.when(exists):
                    for buffer, (at, tile) in loads.items():
                        source = self.views[buffer[0]], substitute(at, here)
                        self._copy_vector(tile, number * vector, *source, vector)
        with writer.unrolled(size, "iteration") as number:
            here, place, exists = self._own(iteration + number, vector)
            with writer.when(exists):
                self._finish_vector(here, place, vector, loads, number * vector)

    def _own(self, iteration: Expr, vector: int) -> tuple[dict[Var, Expr], Expr, Expr | None]:
        """Where a thread's results are, also in shared memory, and what holds if there are any."""
        tiles, chunks = self.tiles, self._chunks(vector)
        number = iteration * tiles.threads + self.thread
        row, chunk = divided(number, tiles.columns // vector)
        here = {ENTRY: self.entry, ROW: self.row + row, COLUMN: self.column + chunk * vector}
        tile = {ROW: tiles.rows, COLUMN: tiles.columns}
        left = number < chunks if chunks % tiles.threads else None
        exists = all_of(left, inside(here, self.product.extents, tile))
        return here, row * tiles.pitch + chunk * vector, exists

    def _loads(self, count: int, vector: int) -> dict[tuple[Var, str], tuple[Expr, Var]]:
        """What lies side by side in memory of what is read: where, and a buffer for a batch."""
        found: dict[tuple[Var, str], tuple[Expr, Var]] = {}
        for _, key, at in self._reads():
            if key not in found and in_chunks(at, COLUMN, self.product.extents, vector):
                size, dtype = count * vector, dtype_of(key[0])
                found[key] = at, self.writer.allocate(f"{key[0].name}_in", size, dtype)
        return found

    def _reads(self) -> Iterator[tuple[Read, tuple[Var, str], Expr]]:
        """Plain loads of what memory holds, what tells them apart, and where they go."""
        for stage in self.product.after:
            for read in stage.reads:
                if not (read.buffer in self.product.computed or read.guarded or read.nested):
                    at = self.product.place(stage, read)
                    yield read, (read.buffer, str(at)), at

    def _finish_vector(
        self,
        here: MappingOf[Var, Expr],
        place: Expr,
        vector: int,
        loads: MappingOf[tuple[Var, str], tuple[Expr, Var]],
        start: Expr,
    ) -> None:
        writer, product = self.writer, self.product
        results = writer.allocate("results", vector, dtype_of(product.result))
        self._copy_vector(results, int64(0), self.results, place, vector)
        loaded = {read.key: loads[key][1] for read, key, _ in self._reads() if key in loads}
        outputs = {
            buffer: writer.allocate(f"{buffer.name}_out", vector, dtype_of(buffer))
            for buffer in product.outputs
        }
        with writer.unrolled(vector, "lane") as lane:
            values = {product.result: results[lane]}
            element = {**here, COLUMN: here[COLUMN] + lane}
            for stage in product.after:
                known = {r.key: values[r.buffer] for r in stage.reads if r.buffer in values}
                known |= {
                    r.key: loaded[r.key][start + lane] for r in stage.reads if r.key in loaded
                }
                value = stage_value(product, self.views, stage, element, known)
                values[stage.output] = writer.value(stage.name, value)
            for buffer, tile in outputs.items():
                writer.store(tile, lane, values[buffer])
        at = substitute(product.flat, here)
        for buffer, tile in outputs.items():
            self._copy_vector(self.views[buffer], at, tile, int64(0), vector)

    def _copy_vector(self, to: Var, start: Expr, source: Var, at: Expr, vector: int) -> None:
        def move(writer: Writer, lane: Expr) -> None:
            writer.store(to, start + lane, source[at + lane])

        vector_copy(self.writer, dtype_of(to), vector, move)


def stage_value(
    product: TensorProduct,
    views: MappingOf[Var, Var],
    stage: Stage,
    element: MappingOf[Var, Expr],
    known: MappingOf[int, Expr],
) -> Expr:
    """The value of what follows a product at an element, loads replaced by what is known."""
    return widened(evaluated(views, stage.value, known, product.axes[stage.output], element))


def inside(
    here: MappingOf[Var, Expr], extents: MappingOf[Var, Extent], pieces: MappingOf[Var, int]
) -> Expr | None:
    """What holds if a place is within extents that pieces may not divide; None: they all do."""
    uneven = (var for var, piece in pieces.items() if not divides(piece, extents[var]))
    return all_of(*(here[var] < extents[var] for var in uneven))


def _batches(iterations: int, size: int) -> Iterator[tuple[int, int, int]]:
    """The first iteration of batches, how many there are, and the iterations of each."""
    times, rest = divmod(iterations, size)
    if times:
        yield 0, times, size
    if rest:
        yield times * size, 1, rest


def _least(extent: Extent, most: int) -> Extent:
    return min(extent, most) if isinstance(extent, int) else tirx.min(extent, int64(most))
