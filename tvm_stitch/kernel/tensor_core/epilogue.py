"""What follows a product on tensor cores: from the sums of threads to what memory gets.

In: a TensorProduct, its Tiles, the place of the block's results, and what threads have added up.
Writes TIR into a Writer. Must not know how products are added up.

The results go through shared memory, from the threads that tensor cores gave them to threads that
have neighbours of a row: these compute what follows, on vectors. Of blocks that share a depth, each
has some of the rows, for which it adds up what all of them found, itself first: the order is fixed.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.analysis.addressing import COLUMN, ROW
from tvm_stitch.kernel.analysis.contiguity import Extent, divides, in_chunks
from tvm_stitch.kernel.codegen import cluster_exchange
from tvm_stitch.kernel.codegen.bfloat16 import widened
from tvm_stitch.kernel.codegen.tir_builder import (
    ACCESS_BYTES,
    Writer,
    all_of,
    divided,
    evaluated,
    vector_copy,
)
from tvm_stitch.kernel.tensor_core.mma import MATRIX, MmaAccumulator
from tvm_stitch.kernel.tensor_core.pairs import round_pair
from tvm_stitch.kernel.tensor_core.program import WIDEST, TensorProduct
from tvm_stitch.kernel.tensor_core.smem_swizzle import WORD
from tvm_stitch.kernel.tensor_core.tiles import FRAGMENT_ROWS, Tiles, spare_registers
from tvm_stitch.stages.patterns.matmul_pattern import ACCUMULATED
from tvm_stitch.stages.stage import Expr, Read, Stage, Var, dtype_of, item_bytes, substitute
from tvm_stitch.stages.symbolic_analyzer import int64

# Vectors of results whose loads a thread has on their way at once. One after the other, of tiles
# beyond the last row, 197 x 768 x 3072 took 6.2 us on an H200, with a bias and a residual 10.2.
BATCHED_LOADS = 4


class Epilogue:
    """What becomes of a block's tile of results, of which the first is at `first`."""

    def __init__(
        self,
        product: TensorProduct,
        tiles: Tiles,
        views: MappingOf[Var, Var],
        first: MappingOf[Var, Expr],
        extents: MappingOf[Var, Extent],
        who: tuple[Expr, Expr],
        arenas: tuple[Var, Var],
        writer: Writer,
    ) -> None:
        """`who`: thread and rank of its block; `arenas`: shared memory as float32 and as halves."""
        self.product, self.tiles, self.views = product, tiles, views
        self.first, self.extents, self.writer = first, extents, writer
        self.thread, self.rank = who
        self._result = ACCUMULATED if tiles.splits > 1 else dtype_of(product.result)
        self.results = arenas[self._result != ACCUMULATED]

    def emit(self, sums: MmaAccumulator) -> None:
        """All that follows the last product."""
        self._barrier()
        self._pass_on(sums)
        self._barrier()  # also of a cluster's blocks: TVM does not know that theirs is one
        if self.tiles.splits > 1:
            cluster_exchange.publish(self.writer)
        self._finish()
        if self.tiles.splits > 1:
            cluster_exchange.leave(self.writer)

    def _barrier(self) -> None:
        self.writer.call(T.tvm_storage_sync("shared"))

    def _pass_on(self, sums: MmaAccumulator) -> None:
        """Every thread's totals to where others find them: two neighbours of a row at once."""
        writer = self.writer
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
        return self.tiles.rows // self.tiles.splits * self.tiles.columns // vector

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
        summed = self._summed(iteration, size, vector) if self.tiles.splits > 1 else None
        with writer.unrolled(size, "iteration") as number:
            here, place, exists = self._own(iteration + number, vector)
            with writer.when(exists):
                results = self._results_at(place, vector) if summed is None else summed
                first = int64(0) if summed is None else number * vector
                self._finish_vector(here, (results, first), vector, loads, number * vector)

    def _own(self, iteration: Expr, vector: int) -> tuple[dict[Var, Expr], Expr, Expr | None]:
        """Where a thread's results are, also in shared memory, and what holds if there are any."""
        tiles, chunks = self.tiles, self._chunks(vector)
        number = iteration * tiles.threads + self.thread
        row, chunk = divided(number, tiles.columns // vector)
        if tiles.splits > 1:  # of the rows that there are, each block has as many
            row = row * tiles.splits + self.rank
        here = {
            **self.first,
            ROW: self.first[ROW] + row,
            COLUMN: self.first[COLUMN] + chunk * vector,
        }
        tile = {ROW: tiles.rows, COLUMN: tiles.columns}
        left = number < chunks if chunks % tiles.threads else None
        exists = all_of(left, inside(here, self.extents, tile))
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
        found: tuple[Var, Expr],
        vector: int,
        loads: MappingOf[tuple[Var, str], tuple[Expr, Var]],
        start: Expr,
    ) -> None:
        writer, product = self.writer, self.product
        results, first = found
        loaded = {read.key: loads[key][1] for read, key, _ in self._reads() if key in loads}
        outputs = {
            buffer: writer.allocate(f"{buffer.name}_out", vector, dtype_of(buffer))
            for buffer in product.outputs
        }
        with writer.unrolled(vector, "lane") as lane:
            values = {product.result: self._rounded_once(results[first + lane])}
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

    def _results_at(self, place: Expr, vector: int) -> Var:
        """A thread's results, whose product no other block has a part of."""
        results = self.writer.allocate("results", vector, self._result)
        self._copy_vector(results, int64(0), self.results, place, vector)
        return results

    def _summed(self, iteration: Expr, size: int, vector: int) -> Var:
        """A batch of results of all blocks that share the depth, whose reads are issued at once."""
        writer, splits = self.writer, self.tiles.splits
        results = writer.allocate("results", size * vector, ACCUMULATED)
        width = min(vector, ACCESS_BYTES // WORD)
        with writer.unrolled(size, "sum") as number:
            _, place, exists = self._own(iteration + number, vector)
            with writer.when(exists):
                self._copy_vector(results, number * vector, self.results, place, vector)
                with (
                    writer.unrolled(splits - 1, "other", start=1) as other,
                    writer.unrolled(vector // width, "part") as part,
                ):
                    rank = tirx.floormod(self.rank + other, splits)
                    own = results.ptr_to([number * vector + part * width])
                    at = self.results.ptr_to([place + part * width])
                    cluster_exchange.add_from(writer, own, at, width, rank)
        return results

    def _rounded_once(self, result: Expr) -> Expr:
        """A result as what follows takes it, which sums of several blocks have yet to become."""
        dtype = dtype_of(self.product.result)
        if dtype == self._result:
            return result
        return self.writer.value("result", result.astype(dtype))

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
