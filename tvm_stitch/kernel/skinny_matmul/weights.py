"""How weights of products of few rows come to tensor cores: loaded, or computed of what is loaded.

In: a lane's place in a product, and registers. Writes TIR into its Writer. Decides nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass
from functools import partial

from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import COLUMN
from tvm_stitch.kernel.codegen.tir_builder import Writer, vector_copy
from tvm_stitch.kernel.skinny_matmul.dequantize import COLUMNS, DEPTHS, float_pairs, lane_weights
from tvm_stitch.kernel.skinny_matmul.program import sizes_of
from tvm_stitch.kernel.skinny_matmul.tiles import (
    GROUPS,
    Fragments,
    SkinnyTiles,
    fragments_of,
    padded_rows,
)
from tvm_stitch.kernel.tensor_core.mma import MATRIX, SUMS, add_product
from tvm_stitch.kernel.tensor_core.pairs import PAIR, PAIRS, load_pairs, pair_of, rounded_pair
from tvm_stitch.kernel.tensor_core.program import DEPTH, ENTRY, WIDEST, Factor, TensorProduct
from tvm_stitch.stages.patterns.matmul_pattern import ACCUMULATED
from tvm_stitch.stages.stage import Expr, Refused, Var, dtype_of, replaced, substitute
from tvm_stitch.stages.symbolic_analyzer import int64


@dataclass(frozen=True, eq=False)
class Lane:
    """A lane's place in its block's part of a product, and what it has to work with."""

    product: TensorProduct
    tiles: SkinnyTiles
    views: MappingOf[Var, Var]
    sums: Var  # in shared memory
    writer: Writer
    entry: Expr
    first_column: Expr  # of the block
    warp: Expr
    group: Expr  # of four lanes
    within: Expr  # its group

    @property
    def lines(self) -> int:
        """Rows that tensor cores compute."""
        return padded_rows(self.product)

    @property
    def fragments(self) -> Fragments:
        """What it adds up and loads."""
        return fragments_of(self.product, self.tiles)

    @property
    def columns(self) -> int:
        """Those of the product."""
        return sizes_of(self.product)[1]

    @property
    def depth(self) -> int:
        """That of the product."""
        return sizes_of(self.product)[2]

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


class Weights(ABC):
    """How the weights of a matrix come to tensor cores, and what a lane adds up of them."""

    def __init__(self, lane: Lane, number: int) -> None:
        self.lane, self.number, self.writer = lane, number, lane.writer
        self.product = lane.product.all[number]
        self.right = self.product.right
        self.width, self.heights = lane.tiles.columns // GROUPS, lane.lines // MATRIX
        computed = lane_weights(self.product, self.beside) if self.product.before else None
        assert not isinstance(computed, Refused), "products whose lanes cannot are none of these"
        self.computed = computed

    def begin(self) -> None:
        """Nothing is added up yet."""
        sums = self.lane.fragments.sums
        self.totals = self.writer.allocate("totals", sums, ACCUMULATED)
        with self.writer.unrolled(sums, "number") as number:
            self.writer.store(self.totals, number, tirx.const(0.0, ACCUMULATED))

    @property
    @abstractmethod
    def beside(self) -> int:
        """Neighbouring columns of which a lane has weights, once or twice."""

    @abstractmethod
    def column(self, number: int | Expr) -> Expr:
        """The first of them, of the first or the second time."""

    @abstractmethod
    def load_pairs(self, to: Var, start: Expr, depth: Expr, exists: Expr | None) -> None:
        """The lane's weights of a chunk, where they are in memory."""

    def allocate(self, name: str, chunks: int) -> tuple[Var, ...]:
        """Registers for what a lane loads."""
        allocate = self.writer.allocate
        if self.computed is None:
            return (allocate(f"{name}_weights", chunks * self.lane.fragments.weights, PAIR),)
        return tuple(
            allocate(name, chunks * self._times * each.count, dtype_of(each.buffer))
            for each in self.computed.loads
        )

    def load(self, to: tuple[Var, ...], chunk: Expr, depth: Expr, exists: Expr | None) -> None:
        """The lane's weights of a chunk, or what they are computed of."""
        if self.computed is None:
            return self.load_pairs(to[0], chunk * self.lane.fragments.weights, depth, exists)
        if exists is not None:
            depth = tirx.min(depth, int64(self.lane.depth - WIDEST))
        for number in range(self._times):
            here = {
                ENTRY: self.lane.entry,
                COLUMNS: tirx.floordiv(self.column(number), self.beside),
                DEPTHS: tirx.floordiv(depth, WIDEST),
            }
            for own, each in zip(to, self.computed.loads, strict=True):
                first = substitute(each.first, here)
                at, view = (chunk * self._times + number) * each.count, self.lane.views[each.buffer]
                copy = partial(_copy, (own, at), (view, first))
                vector_copy(self.writer, dtype_of(each.buffer), each.count, copy)
        return None

    def pairs(self, loaded: tuple[Var, ...], chunk: Expr, exists: Expr | None) -> tuple[Var, Expr]:
        """The lane's weights of a chunk, as pairs from a register on."""
        if self.computed is None:
            return loaded[0], chunk * self.lane.fragments.weights
        found = self.writer.allocate("weights", self.lane.fragments.weights, PAIR)
        for number in range(self._times):
            place = chunk * self._times + number
            known = {
                key: loaded[load][place * self.computed.loads[load].count + at]
                for key, (load, at) in self.computed.at.items()
            }
            values = [replaced(value, known) for value in self.computed.values]
            for pair, (low, high) in enumerate(float_pairs(values)):
                both = rounded_pair(low, high, self.product.multiplied)
                if exists is not None:
                    both = tirx.Select(exists, both, tirx.const(0, PAIR))
                self.writer.store(found, int64(number * len(values) // 2 + pair), both)
        return found, int64(0)

    @property
    def _times(self) -> int:
        return self.width // self.beside

    @abstractmethod
    def multiply(self, weights: Var, start: Expr, rows: Var, row: Expr) -> None:
        """A chunk added to the sums."""

    @abstractmethod
    def pass_on(self) -> None:
        """The lane's sums to shared memory."""

    def _add(self, first: list[Expr], second: list[Expr], total: Expr) -> None:
        """An instruction of a tensor core: two fragments, and four sums from a number on."""
        totals = [self.totals[total + number] for number in range(SUMS)]
        add_product(self.writer, self.lane.product.multiplied, totals, first, second)

    def _pass_on(self, row: Expr, column: Expr, total: Expr) -> None:
        """A sum to where others find it."""
        lane = self.lane
        line = (self.number * lane.tiles.warps + lane.warp) * lane.lines + row
        self.writer.store(lane.sums, line * lane.tiles.pitch + column, self.totals[total])


class AlongDepth(Weights):
    """Weights whose depth lies along memory: 16 columns are the first factor, rows the second."""

    beside = 1

    def column(self, number: int | Expr) -> Expr:
        """Of two, eight apart; beyond the last column, that one."""
        lane = self.lane
        column: Expr = lane.first_column + lane.group + number * MATRIX
        if lane.columns % lane.tiles.columns:
            column = tirx.min(column, int64(lane.columns - 1))
        return column

    def load_pairs(self, to: Var, start: Expr, depth: Expr, exists: Expr | None) -> None:
        """Eight neighbours of each column."""
        lane = self.lane
        with self.writer.unrolled(2, "lower") as lower:
            here = {ENTRY: lane.entry, COLUMN: self.column(lower), DEPTH: depth}
            lane.load(self.right, here, to, start + lower * PAIRS, PAIRS, exists)

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
        lane = self.lane
        for height in range(self.heights):
            for each in range(SUMS):
                row = height * MATRIX + lane.within * 2 + each % 2
                column = lane.group + each // 2 * MATRIX
                self._pass_on(row, column, int64(height * SUMS + each))


class AcrossDepth(Weights):
    """Weights whose columns lie along memory: rows are the first factor, columns the second."""

    @property
    def beside(self) -> int:
        """All that a lane has."""
        return self.width

    def column(self, _number: int | Expr) -> Expr:
        """Beyond the last column, those before."""
        lane = self.lane
        column: Expr = lane.first_column + lane.group * self.width
        if lane.columns % lane.tiles.columns:
            column = tirx.min(column, int64(lane.columns - self.width))
        return column

    def load_pairs(self, to: Var, start: Expr, depth: Expr, exists: Expr | None) -> None:
        """Neighbours of eight lines."""
        lane = self.lane
        with self.writer.unrolled(WIDEST, "line") as line:
            here = {ENTRY: lane.entry, COLUMN: self.column(0), DEPTH: depth + line}
            pairs = self.width // 2
            lane.load(self.right, here, to, start + line * pairs, pairs, exists)

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
        lane = self.lane
        for beside in range(self.width):
            for each in range(2 * self.heights):
                row = lane.group + each // 2 * MATRIX
                column = (lane.within * 2 + each % 2) * self.width + beside
                self._pass_on(row, column, int64(beside * SUMS + each))


def _copy(to: tuple[Var, Expr], source: tuple[Var, Expr], writer: Writer, number: Expr) -> None:
    """An element of neighbours, from a place in each buffer on."""
    (buffer, at), (view, first) = to, source
    writer.store(buffer, at + number, view[first + number])
