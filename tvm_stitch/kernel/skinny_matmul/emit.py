"""Emits products of few rows: TensorProducts by their SkinnyTiles.

In: a product, its tiles, flat views of the parameters, its block and the thread. Writes TIR into a
Writer. Decides nothing.

Weights go from memory straight to the registers that tensor cores take them from: which elements of
the depth an instruction multiplies is free, as long as both factors agree, so every lane loads
neighbours of 16 bytes. Where the depth lies along memory, weights are the instruction's first
factor, 16 columns of them; where columns do, its second, of which a lane's pairs of the depth are
put together from two lines. Weights that are computed of others take the same way (weights.py).
Rows that there are not are read from the last one, and not stored.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from itertools import chain

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.analysis.addressing import COLUMN, ROW
from tvm_stitch.kernel.codegen.tir_builder import Writer, all_of, divided
from tvm_stitch.kernel.ir.mapping import WARP
from tvm_stitch.kernel.skinny_matmul.program import rows_of, sizes_of
from tvm_stitch.kernel.skinny_matmul.tiles import (
    CHUNK,
    GROUPS,
    SkinnyTiles,
    padded_rows,
    row_tiles_of,
    tiles_along,
)
from tvm_stitch.kernel.skinny_matmul.weights import AcrossDepth, AlongDepth, Lane, Weights
from tvm_stitch.kernel.tensor_core.epilogue import inside, stage_value
from tvm_stitch.kernel.tensor_core.mma import MATRIX
from tvm_stitch.kernel.tensor_core.pairs import PAIR, PAIRS
from tvm_stitch.kernel.tensor_core.program import DEPTH, ENTRY, WIDEST, TensorProduct
from tvm_stitch.kernel.tensor_core.ragged import RowTile, find_rows
from tvm_stitch.stages.patterns.matmul_pattern import ACCUMULATED
from tvm_stitch.stages.stage import (
    Expr,
    Var,
    buffer_size,
    constant,
    dtype_of,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import int64

# Registers for each matrix, and for rows.
_Loaded = tuple[tuple[Var, ...], ...]


class SkinnyPart:
    """A product of few rows on its way into TIR."""

    def __init__(
        self,
        product: TensorProduct,
        tiles: SkinnyTiles,
        views: MappingOf[Var, Var],
        block: Expr,
        thread: Expr,
        sums: Var,
        writer: Writer,
    ) -> None:
        self.product, self.tiles, self.views = product, tiles, views
        self.block, self.thread, self.sums, self.writer = block, thread, sums, writer
        _, _, self.depth, self.entries = sizes_of(product)
        self.rows = rows_of(product)
        self.tile: RowTile | None = None  # of a ragged product

    def emit(self) -> None:
        """Write the part's body."""
        self._find_place()
        with self.writer.when(self.tile and self.tile.exists):
            self._accumulate()
            self.writer.call(T.tvm_storage_sync("shared"))
            self._finish()

    def _find_place(self) -> None:
        """The block's entry and first column, and the lane's place in a fragment."""
        writer = self.writer
        entry, tile = int64(0), self.block
        if self.product.ragged is not None:  # tiles of a group beside each other, for the L2
            tile, row_tile = divided(self.block, row_tiles_of(self.product))
            ends = self.views[self.product.ragged.ends]
            how = self.product, ends, row_tile, padded_rows(self.product), self.thread
            self.tile = find_rows(writer, *how)
            entry = self.tile.group
        elif self.entries != 1:
            entry, tile = divided(self.block, tiles_along(self.product, self.tiles.columns))
        group, within = divided(tirx.floormod(self.thread, WARP), WARP // GROUPS)
        self.lane = Lane(
            self.product,
            self.tiles,
            self.views,
            self.sums,
            writer,
            entry=writer.value("entry", entry),
            first_column=writer.value("tile", tile) * self.tiles.columns,
            warp=writer.value("warp", tirx.floordiv(self.thread, WARP)),
            group=writer.value("group", group),
            within=writer.value("within", within),
        )

    # The products

    def _accumulate(self) -> None:
        """Each warp takes a step of the depth, then the one after those of all others."""
        writer, tiles = self.writer, self.tiles
        made = AlongDepth if self.product.right.by_depth else AcrossDepth
        self.weights: list[Weights] = [made(self.lane, n) for n in range(len(self.product.all))]
        for weights in self.weights:
            weights.begin()
        whole, rest = divmod(self.depth, tiles.step)
        if whole:
            turns = tirx.floordiv(whole + tiles.warps - 1 - self.lane.warp, tiles.warps)
            with writer.when(None if whole >= tiles.warps else self.lane.warp < whole):
                self._multiply_steps(writer.value("turns", turns), whole > tiles.warps)
        if rest:
            chunks = -(-rest // CHUNK)
            with writer.when(self.lane.warp == whole % tiles.warps):
                loaded = self._allocate("rest", chunks)
                first = int64(whole * tiles.step)
                self._load(loaded, first, chunks, rest % CHUNK == 0)
                self._multiply(loaded, chunks, None if rest % CHUNK == 0 else first)
        for weights in self.weights:
            weights.pass_on()

    def _multiply_steps(self, turns: Expr, are_several: bool) -> None:
        """Whole steps of a warp: the next one's loads are on their way while one is multiplied.

        Of a loop that loads and multiplies ptxas 13.0 moves each load to where it is used.
        """
        writer, tiles = self.writer, self.tiles
        loaded, following = (self._allocate(name, tiles.chunks) for name in ("loaded", "following"))
        self._load(loaded, self.lane.warp * tiles.step, tiles.chunks)
        if are_several:
            with writer.rolled(turns - 1, "turn") as turn:
                first = ((turn + 1) * tiles.warps + self.lane.warp) * tiles.step
                self._load(following, first, tiles.chunks)
                self._multiply(loaded, tiles.chunks)
                for to, source in zip(chain(*loaded), chain(*following), strict=True):
                    with writer.unrolled(constant(buffer_size(to)) or 1, "pair") as pair:
                        writer.store(to, pair, source[pair])
        self._multiply(loaded, tiles.chunks)

    def _allocate(self, name: str, chunks: int) -> _Loaded:
        """Registers for the weights of each matrix, and for rows."""
        weights = [each.allocate(name, chunks) for each in self.weights]
        rows = self.writer.allocate(f"{name}_rows", chunks * self.lane.fragments.rows, PAIR)
        return (*weights, (rows,))

    def _load(self, to: _Loaded, first: Expr, chunks: int, exact: bool = True) -> None:
        """Chunks of the depth from an element on."""
        *weights, (rows,) = to
        for each, own in zip(self.weights, weights, strict=True):
            with self.writer.unrolled(chunks, "chunk") as chunk:
                each.load(own, chunk, *self._at(first, chunk, exact))
        with self.writer.unrolled(chunks, "chunk") as chunk:
            self._load_rows(rows, chunk * self.lane.fragments.rows, *self._at(first, chunk, exact))

    def _at(self, first: Expr, chunk: Expr, exact: bool) -> tuple[Expr, Expr | None]:
        """Where the lane's part of a chunk is, and whether it exists; None: it does."""
        depth = first + chunk * CHUNK + self.lane.within * WIDEST
        return depth, None if exact else depth < self.depth

    def _multiply(self, loaded: _Loaded, chunks: int, uneven: Expr | None = None) -> None:
        """What is loaded, added to the sums; from an `uneven` place on it may not all exist."""
        *weights, (rows,) = loaded
        with self.writer.unrolled(chunks, "chunk") as chunk:
            exists = None if uneven is None else self._at(uneven, chunk, False)[1]
            for each, own in zip(self.weights, weights, strict=True):
                pairs, start = each.pairs(own, chunk, exists)
                each.multiply(pairs, start, rows, chunk * self.lane.fragments.rows)

    def _load_rows(self, to: Var, start: Expr, depth: Expr, exists: Expr | None) -> None:
        """Eight neighbours of each row that the lane has; of rows beyond the last, of that one."""
        with self.writer.unrolled(self.lane.lines // MATRIX, "height") as height:
            row: Expr = self.lane.group + height * MATRIX
            if self.tile is None:
                row = tirx.min(row, int64(self.rows - 1))
            else:
                row = tirx.min(self.tile.first + row, self.tile.end - 1)
            here = {ENTRY: self.lane.entry, ROW: row, DEPTH: depth}
            self.lane.load(self.product.left, here, to, start + height * PAIRS, PAIRS, exists)

    # What follows

    def _finish(self) -> None:
        """A result a thread, or several: neighbours are neighbours of a row."""
        writer, tiles = self.writer, self.tiles
        results = self.rows * tiles.columns
        with writer.unrolled(-(-results // tiles.threads), "result") as iteration:
            number = iteration * tiles.threads + self.thread
            row, column = divided(number, tiles.columns)
            here = {ENTRY: self.lane.entry, ROW: row, COLUMN: self.lane.first_column + column}
            left = number < results if results % tiles.threads else None
            exists = inside(here, self.product.extents, {COLUMN: tiles.columns})
            if self.tile is not None:
                here[ROW] = self.tile.first + row
                exists = all_of(exists, here[ROW] < self.tile.end)
            with writer.when(all_of(left, exists)):
                self._finish_result(here, row * tiles.pitch + column)

    def _finish_result(self, here: MappingOf[Var, Expr], place: Expr) -> None:
        writer, product = self.writer, self.product
        values = dict[Var, Expr]()
        for number, each in enumerate(product.all):
            total: Expr = tirx.const(0.0, ACCUMULATED)
            for warp in range(number * self.tiles.warps, (number + 1) * self.tiles.warps):
                total = total + self.sums[warp * self.lane.lines * self.tiles.pitch + place]
            if self.tile is not None:
                total = tirx.Select(self.tile.is_summed, total, tirx.const(0.0, ACCUMULATED))
            values[each.result] = writer.value("total", total.astype(dtype_of(each.result)))
        for stage in product.after:
            known = {r.key: values[r.buffer] for r in stage.reads if r.buffer in values}
            value = stage_value(product, self.views, stage, here, known)
            values[stage.output] = writer.value(stage.name, value)
        for buffer in product.outputs:
            writer.store(self.views[buffer], substitute(product.flat, here), values[buffer])
