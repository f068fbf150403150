"""Emits products of few rows: TensorProducts by their SkinnyTiles.

In: a product, its tiles, flat views of the parameters, its block and the thread. Writes TIR into a
Writer. Decides nothing.

Weights go from memory straight to the registers that tensor cores take them from: which elements of
the depth an instruction multiplies is free, as long as both factors agree, so every lane loads
neighbours of 16 bytes. Where the depth lies along memory, weights are the instruction's first
factor, 16 columns of them; where columns do, its second, of which a lane's pairs of the depth are
put together from two lines. Rows that there are not are read from the last one, and not stored.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping as MappingOf

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
    fragments_of,
    padded_rows,
    row_tiles_of,
    tiles_along,
)
from tvm_stitch.kernel.tensor_core.epilogue import inside, stage_value
from tvm_stitch.kernel.tensor_core.mma import MATRIX, SUMS, add_product
from tvm_stitch.kernel.tensor_core.pairs import PAIR, PAIRS, load_pairs, pair_of
from tvm_stitch.kernel.tensor_core.program import DEPTH, ENTRY, WIDEST, Factor, TensorProduct
from tvm_stitch.kernel.tensor_core.ragged import RowTile, find_rows
from tvm_stitch.stages.patterns.matmul_pattern import ACCUMULATED
from tvm_stitch.stages.stage import Expr, Var, buffer_size, constant, dtype_of, substitute
from tvm_stitch.stages.symbolic_analyzer import int64


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
        self.lines, self.fragments = padded_rows(product), fragments_of(product, tiles)
        _, self.columns, self.depth, self.entries = sizes_of(product)
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
            how = self.product, ends, row_tile, self.lines, self.thread
            self.tile = find_rows(writer, *how)
            entry = self.tile.group
        elif self.entries != 1:
            entry, tile = divided(self.block, tiles_along(self.product, self.tiles.columns))
        self.entry = writer.value("entry", entry)
        self.column = writer.value("tile", tile) * self.tiles.columns
        self.warp = writer.value("warp", tirx.floordiv(self.thread, WARP))
        group, within = divided(tirx.floormod(self.thread, WARP), WARP // GROUPS)
        self.group, self.within = writer.value("group", group), writer.value("within", within)

    # The products

    def _accumulate(self) -> None:
        """Each warp takes a step of the depth, then the one after those of all others."""
        writer, tiles = self.writer, self.tiles
        made = _AlongDepth if self.product.right.by_depth else _AcrossDepth
        self.weights: list[_Weights] = [made(self, n) for n in range(len(self.product.all))]
        for weights in self.weights:
            weights.begin()
        whole, rest = divmod(self.depth, tiles.step)
        if whole:
            turns = tirx.floordiv(whole + tiles.warps - 1 - self.warp, tiles.warps)
            with writer.when(None if whole >= tiles.warps else self.warp < whole):
                self._multiply_steps(writer.value("turns", turns), whole > tiles.warps)
        if rest:
            chunks = -(-rest // CHUNK)
            with writer.when(self.warp == whole % tiles.warps):
                loaded = self._allocate("rest", chunks)
                self._load(loaded, int64(whole * tiles.step), chunks, rest % CHUNK == 0)
                self._multiply(loaded, chunks)
        for weights in self.weights:
            weights.pass_on()

    def _multiply_steps(self, turns: Expr, are_several: bool) -> None:
        """Whole steps of a warp: the next one's loads are on their way while one is multiplied.

        Of a loop that loads and multiplies ptxas 13.0 moves each load to where it is used.
        """
        writer, tiles = self.writer, self.tiles
        loaded, following = (self._allocate(name, tiles.chunks) for name in ("loaded", "following"))
        self._load(loaded, self.warp * tiles.step, tiles.chunks)
        if are_several:
            with writer.rolled(turns - 1, "turn") as turn:
                first = ((turn + 1) * tiles.warps + self.warp) * tiles.step
                self._load(following, first, tiles.chunks)
                self._multiply(loaded, tiles.chunks)
                for to, source in zip(loaded, following, strict=True):
                    with writer.unrolled(constant(buffer_size(to)) or 1, "pair") as pair:
                        writer.store(to, pair, source[pair])
        self._multiply(loaded, tiles.chunks)

    def _allocate(self, name: str, chunks: int) -> tuple[Var, ...]:
        """Registers for the weights of each matrix, and for rows."""
        own, allocate = self.fragments, self.writer.allocate
        return (
            *(allocate(f"{name}_weights", chunks * own.weights, PAIR) for _ in self.weights),
            allocate(f"{name}_rows", chunks * own.rows, PAIR),
        )

    def _load(self, to: tuple[Var, ...], first: Expr, chunks: int, exact: bool = True) -> None:
        """Chunks of the depth from an element on."""
        own = self.fragments
        loads = [(each.load, own.weights) for each in self.weights]
        for buffer, (load, pairs) in zip(to, [*loads, (self._load_rows, own.rows)], strict=True):
            with self.writer.unrolled(chunks, "chunk") as chunk:
                depth = first + chunk * CHUNK + self.within * WIDEST
                load(buffer, chunk * pairs, depth, None if exact else depth < self.depth)

    def _multiply(self, loaded: tuple[Var, ...], chunks: int) -> None:
        """What is loaded, added to the sums."""
        own, (*weights, rows) = self.fragments, loaded
        with self.writer.unrolled(chunks, "chunk") as chunk:
            for each, of_matrix in zip(self.weights, weights, strict=True):
                each.multiply(of_matrix, chunk * own.weights, rows, chunk * own.rows)

    def _load_rows(self, to: Var, start: Expr, depth: Expr, exists: Expr | None) -> None:
        """Eight neighbours of each row that the lane has; of rows beyond the last, of that one."""
        with self.writer.unrolled(self.lines // MATRIX, "height") as height:
            row: Expr = self.group + height * MATRIX
            if self.tile is None:
                row = tirx.min(row, int64(self.rows - 1))
            else:
                row = tirx.min(self.tile.first + row, self.tile.end - 1)
            here = {ENTRY: self.entry, ROW: row, DEPTH: depth}
            self.load(self.product.left, here, to, start + height * PAIRS, PAIRS, exists)

    def load(
        self,
        factor: Factor,
        here: MappingOf[Var, Expr],
        to: Var,
        start: Expr,
        pairs: int,
        exists: Expr | None,
    ) -> None:
        """Neighbours of a factor as pairs; zeros where there are none."""
        place = substitute(factor.at, here)
        load_pairs(self.writer, self.views[factor.buffer], place, to, start, pairs, exists)

    # What follows

    def _finish(self) -> None:
        """A result a thread, or several: neighbours are neighbours of a row."""
        writer, tiles = self.writer, self.tiles
        results = self.rows * tiles.columns
        with writer.unrolled(-(-results // tiles.threads), "result") as iteration:
            number = iteration * tiles.threads + self.thread
            row, column = divided(number, tiles.columns)
            here = {ENTRY: self.entry, ROW: row, COLUMN: self.column + column}
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
                total = total + self.sums[warp * self.lines * self.tiles.pitch + place]
            if self.tile is not None:
                total = tirx.Select(self.tile.is_summed, total, tirx.const(0.0, ACCUMULATED))
            values[each.result] = writer.value("total", total.astype(dtype_of(each.result)))
        for stage in product.after:
            known = {r.key: values[r.buffer] for r in stage.reads if r.buffer in values}
            value = stage_value(product, self.views, stage, here, known)
            values[stage.output] = writer.value(stage.name, value)
        for buffer in product.outputs:
            writer.store(self.views[buffer], substitute(product.flat, here), values[buffer])


class _Weights(ABC):
    """How the weights of a matrix come to tensor cores, and what a lane adds up of them."""

    def __init__(self, part: SkinnyPart, number: int) -> None:
        self.part, self.number, self.writer = part, number, part.writer
        self.right = part.product.all[number].right
        self.width, self.heights = part.tiles.columns // GROUPS, part.lines // MATRIX

    def begin(self) -> None:
        """Nothing is added up yet."""
        sums = self.part.fragments.sums
        self.totals = self.writer.allocate("totals", sums, ACCUMULATED)
        with self.writer.unrolled(sums, "number") as number:
            self.writer.store(self.totals, number, tirx.const(0.0, ACCUMULATED))

    @abstractmethod
    def load(self, to: Var, start: Expr, depth: Expr, exists: Expr | None) -> None:
        """The lane's weights of a chunk."""

    @abstractmethod
    def multiply(self, weights: Var, start: Expr, rows: Var, row: Expr) -> None:
        """A chunk added to the sums."""

    @abstractmethod
    def pass_on(self) -> None:
        """The lane's sums to shared memory."""

    def _add(self, first: list[Expr], second: list[Expr], total: Expr) -> None:
        """An instruction of a tensor core: two fragments, and four sums from a number on."""
        totals = [self.totals[total + number] for number in range(SUMS)]
        add_product(self.writer, self.part.product.multiplied, totals, first, second)

    def _pass_on(self, row: Expr, column: Expr, total: Expr) -> None:
        """A sum to where others find it."""
        part = self.part
        line = (self.number * part.tiles.warps + part.warp) * part.lines + row
        self.writer.store(part.sums, line * part.tiles.pitch + column, self.totals[total])


class _AlongDepth(_Weights):
    """Weights whose depth lies along memory: 16 columns are the first factor, rows the second."""

    def load(self, to: Var, start: Expr, depth: Expr, exists: Expr | None) -> None:
        """Of two columns, eight apart; of columns beyond the last, of that one."""
        part = self.part
        with self.writer.unrolled(2, "lower") as lower:
            column: Expr = part.column + part.group + lower * MATRIX
            if part.columns % part.tiles.columns:
                column = tirx.min(column, int64(part.columns - 1))
            here = {ENTRY: part.entry, COLUMN: column, DEPTH: depth}
            part.load(self.right, here, to, start + lower * PAIRS, PAIRS, exists)

    def multiply(self, weights: Var, start: Expr, rows: Var, row: Expr) -> None:
        """Two instructions for every eight rows."""
        for height in range(self.heights):
            total = int64(height * SUMS)
            for half in range(0, PAIRS, 2):
                first = [weights[start + lower + half + k] for k in (0, 1) for lower in (0, PAIRS)]
                second = [rows[row + height * PAIRS + half + k] for k in (0, 1)]
                self._add(first, second, total)

    def pass_on(self) -> None:
        """Two neighbours of the rows, of a column and of that eight beyond."""
        part = self.part
        for height in range(self.heights):
            for each in range(SUMS):
                row = height * MATRIX + part.within * 2 + each % 2
                column = part.group + each // 2 * MATRIX
                self._pass_on(row, column, int64(height * SUMS + each))


class _AcrossDepth(_Weights):
    """Weights whose columns lie along memory: rows are the first factor, columns the second."""

    def load(self, to: Var, start: Expr, depth: Expr, exists: Expr | None) -> None:
        """Neighbours of eight lines; beyond the last column, of those before."""
        part = self.part
        with self.writer.unrolled(WIDEST, "line") as line:
            column: Expr = part.column + part.group * self.width
            if part.columns % part.tiles.columns:
                column = tirx.min(column, int64(part.columns - self.width))
            here = {ENTRY: part.entry, COLUMN: column, DEPTH: depth + line}
            pairs = self.width // 2
            part.load(self.right, here, to, start + line * pairs, pairs, exists)

    def multiply(self, weights: Var, start: Expr, rows: Var, row: Expr) -> None:
        """For each of the lane's columns two instructions, of four lines each."""
        pairs, upper = self.width // 2, self.heights > 1
        for half in range(2):
            lines = [start + (half * 4 + line) * pairs for line in range(4)]
            for column in range(self.width):
                second = [
                    pair_of(weights[lines[k] + column // 2], weights[lines[k + 1] + column // 2],
                          column % 2)
                    for k in (0, 2)
                ]  # fmt: skip
                first: list[Expr] = []
                for k in range(2):
                    place = row + half * 2 + k
                    first.append(rows[place])
                    first.append(rows[place + PAIRS] if upper else tirx.const(0, PAIR))
                total = int64(column * SUMS)
                self._add(first, second, total)

    def pass_on(self) -> None:
        """Of each instruction two columns of a row, and of that eight below."""
        part = self.part
        for beside in range(self.width):
            for each in range(2 * self.heights):
                row = part.group + each // 2 * MATRIX
                column = (part.within * 2 + each % 2) * self.width + beside
                self._pass_on(row, column, int64(beside * SUMS + each))
