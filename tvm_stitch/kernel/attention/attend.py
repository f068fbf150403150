"""A warp's pass over keys and values in attention, the scores in registers.

In: a Part. Out: Found, what the warp holds behind its last key. Decides nothing.

Queries that share a head of keys are the rows of an instruction of tensor cores. Keys and values go
from memory straight to the registers that these take them from, 16 bytes a lane: which elements of
the depth an instruction multiplies is free, as long as both factors agree, and which columns of the
values a lane has, too. A warp's scores are its weights for the second product where they are, as in
FlashAttention; what warps and the blocks of a cluster found is rescaled to the largest score of all
(split keys, as in FlashDecoding). A row that sees no key is 0, as PyTorch has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.attention.part import NOTHING, Part, real, reference
from tvm_stitch.kernel.attention.tiles import (
    CHUNK,
    FRAGMENT,
    LANES,
    chunks_of,
    fragments_of,
)
from tvm_stitch.kernel.codegen.tir_builder import all_of
from tvm_stitch.kernel.tensor_core.mma import MATRIX, SUMS, add_product
from tvm_stitch.kernel.tensor_core.pairs import PAIR, PAIRS, load_pairs, pair_of, round_pair
from tvm_stitch.kernel.tensor_core.program import WIDEST
from tvm_stitch.library.attention import BOTTOM_RIGHT, NO_MASK, Place
from tvm_stitch.stages.patterns.matmul_pattern import ACCUMULATED
from tvm_stitch.stages.stage import Expr, Var, as_int64, buffer_size
from tvm_stitch.stages.symbolic_analyzer import int64

LINES = FRAGMENT // LANES  # of the values, of which a lane has a part


@dataclass(frozen=True)
class Found:
    """What a warp holds: of each row its largest score, the sum of powers and the totals."""

    largest: Var
    sums: Var
    totals: Var


class Attend:
    """The pass on its way into TIR."""

    def __init__(self, part: Part) -> None:
        self.part, self.writer, self.attention = part, part.writer, part.attention
        self.heights, self.width, self.chunks = part.heights, part.width, chunks_of(part.attention)
        self.turn = part.tiles.turn

    def emit(self) -> Found:
        """Write the whole pass."""
        self._begin()
        self._go_through()
        return Found(self.largest, self.sums, self.totals)

    def _begin(self) -> None:
        """Queries in registers, and rows that have seen no key."""
        own, allocate = fragments_of(self.attention, self.part.tiles), self.writer.allocate
        self.queries = allocate("queries", own.queries, PAIR)
        self.totals = allocate("totals", own.sums, ACCUMULATED)
        self.largest = allocate("largest", self.heights, ACCUMULATED)
        self.sums = allocate("sums", self.heights, ACCUMULATED)
        with self.writer.unrolled(own.sums, "number") as number:
            self.writer.store(self.totals, number, real(0.0))
        for height in range(self.heights):
            self.writer.store(self.largest, int64(height), real(NOTHING))
            self.writer.store(self.sums, int64(height), real(0.0))
            row = tirx.min(self.part.rows_at(height), int64(self.part.rows - 1))
            start = self.part.row_of(self.attention.query, row)
            for chunk in range(self.chunks):
                at = int64((chunk * self.heights + height) * PAIRS)
                self._load_depth(self.queries, at, "query", start, chunk)

    def _load_depth(self, to: Var, at: Expr, name: str, start: Expr, chunk: int) -> None:
        """The lane's eight neighbours of a chunk of a row; zeros beyond its end."""
        depth = self.part.within * WIDEST + chunk * CHUNK
        is_whole = (chunk + 1) * CHUNK <= self.attention.depth
        exists = None if is_whole else depth < self.attention.depth
        load_pairs(self.writer, self.part.views[name], start + depth, to, at, PAIRS, exists)

    # Keys and values

    def _go_through(self) -> None:
        """Turn by turn; if there is time ahead, the next one's loads are on their way."""
        part, tiles, writer = self.part, self.part.tiles, self.writer
        turns = self._turns()
        first: Expr = int64(0)
        if not tiles.by_rows:
            first = writer.value("first", (part.warp * tiles.splits + part.rank) * self.turn)
        loaded = self._allocate("loaded")
        several = not isinstance(turns, int) or turns > 1
        # Only the last turn may reach beyond the keys; which it is nobody knows below a diagonal.
        ends = self._has_rest and not self._stops_early
        if tiles.ahead:
            following = self._allocate("following")
            self._load_turn(loaded, first)
            with writer.rolled(turns - 1, "turn") as turn:
                self._load_turn(following, first + (turn + 1) * tiles.keys)
                self._multiply(loaded, first + turn * tiles.keys, several, not ends)
                for to, source in zip(loaded, following, strict=True):
                    with writer.unrolled(int(buffer_size(to)), "pair") as pair:
                        writer.store(to, pair, source[pair])
            self._multiply(loaded, first + (turns - 1) * tiles.keys, several)
            return
        before = turns - 1 if ends else turns
        if not isinstance(before, int) or before:
            with writer.rolled(before, "turn") as turn:
                self._load_turn(loaded, first + turn * tiles.keys, not ends)
                self._multiply(loaded, first + turn * tiles.keys, several, not ends)
        if ends:
            self._load_turn(loaded, first + before * tiles.keys)
            self._multiply(loaded, first + before * tiles.keys, several)

    def _turns(self) -> int | Expr:
        """As many as there are keys for, or as the block's last query sees, where it sees those up
        to a diagonal."""
        a, tiles = self.attention, self.part.tiles
        if not self._stops_early:
            return (a.keys + (tiles.keys - 1)) // tiles.keys
        first = tirx.floormod(self.part.rank * tiles.rows, a.queries)
        last = tirx.min(first + (tiles.rows - 1), int64(a.queries - 1)) + self._diagonal
        seen = tirx.max(tirx.min(last, as_int64(a.keys - 1)), int64(0))
        return self.writer.value("turns", tirx.floordiv(seen, tiles.keys) + 1)

    @property
    def _stops_early(self) -> bool:
        """Whether a block has turns for the keys that its own queries see."""
        return self.attention.mask != NO_MASK and self.part.tiles.by_rows

    @property
    def _diagonal(self) -> int | Expr:
        """How far the last key that a query sees lies behind its own number."""
        a = self.attention
        return a.keys - a.queries if a.mask == BOTTOM_RIGHT else 0

    def _allocate(self, name: str) -> tuple[Var, Var]:
        own = fragments_of(self.attention, self.part.tiles)
        return (
            self.writer.allocate(f"{name}_keys", own.keys, PAIR),
            self.writer.allocate(f"{name}_values", own.values, PAIR),
        )

    def _load_turn(self, to: tuple[Var, Var], first: Expr, is_last: bool = True) -> None:
        """A warp's keys and values; of those beyond the last, that one's."""
        keys, values = to
        for tile in range(self.turn // MATRIX):
            key = first + self.part.group + tile * MATRIX
            start = self._start_of(self.attention.key, key, is_last)
            for chunk in range(self.chunks):
                at = int64((tile * self.chunks + chunk) * PAIRS)
                self._load_depth(keys, at, "key", start, chunk)
        view, pairs = self.part.views["value"], gcd(self.width, WIDEST) // 2
        for line in range(self.turn // LANES):
            key = first + self.part.within * 2 + (line // 2 * MATRIX + line % 2)
            start = self._start_of(self.attention.value, key, is_last)
            start = start + self.part.group * self.width
            for part in range(self.width // 2 // pairs):
                at = line * (self.width // 2) + part * pairs
                load_pairs(self.writer, view, start + part * 2 * pairs, values, int64(at), pairs)

    def _start_of(self, place: Place, key: Expr, is_last: bool) -> Expr:
        """Where a key's row begins."""
        key = self.writer.value("key", self._existing(key, is_last))
        head = self.part.batch * place.batch + self.part.key_head * place.head
        return place.start + head + key * place.row

    def _existing(self, key: Expr, is_last: bool) -> Expr:
        """A key, or the last one if it lies beyond."""
        last = as_int64(self.attention.keys - 1)
        return tirx.min(key, last) if self._has_rest and is_last else key

    @property
    def _has_rest(self) -> bool:
        """Whether the last turn is of fewer keys than warps have room for."""
        keys = self.attention.keys
        return not isinstance(keys, int) or bool(keys % self.part.tiles.keys)

    def _multiply(
        self, loaded: tuple[Var, Var], first: Expr, are_several: bool, is_last: bool = True
    ) -> None:
        """A turn: scores, the largest so far, weights, and values by them added to the totals."""
        keys, values = loaded
        scores = self._scores(keys, first, is_last)
        for height in range(self.heights):
            self._weigh(scores, height, are_several)
        for group in range(self.turn // FRAGMENT):
            self._add_values(scores, values, group)

    def _add_values(self, scores: Var, values: Var, group: int) -> None:
        """Sixteen keys' values by their weights, which are rounded."""
        weights = self.writer.allocate("weights", 2 * SUMS, self.part.dtype)
        pairs = self.writer.view(weights, int64(SUMS), dtype=PAIR)
        for number in range(SUMS):
            tile, height = group * 2 + number // 2, number % 2
            if height < self.heights:
                low = int64(tile * SUMS + height * 2)
                at = self.writer.view(weights, int64(2), 2 * number)
                round_pair(self.writer, scores[low], scores[low + 1], at)
        factor = [pairs[int64(n)] if n % 2 < self.heights else _none() for n in range(SUMS)]
        first, lines = group * LINES * self.width // 2, self.width // 2
        for column in range(self.width):
            at = [first + line * lines + column // 2 for line in range(LINES)]
            beside = [
                pair_of(values[int64(at[line])], values[int64(at[line + 1])], column % 2)
                for line in (0, 2)
            ]
            self._instruction(self.totals, column * SUMS, factor, beside)

    def _instruction(self, to: Var, at: int, first: Sequence[Expr], second: Sequence[Expr]) -> None:
        """An instruction of tensor cores, which adds to four sums."""
        sums = [to[int64(at + number)] for number in range(SUMS)]
        add_product(self.writer, self.part.dtype, sums, first, second)

    def _scores(self, keys: Var, first: Expr, is_last: bool) -> Var:
        """The products of queries and a turn's keys, with their bias, minus infinity where a key is
        not seen; of each eight keys four of a lane."""
        tiles = self.turn // MATRIX
        scores = self.writer.allocate("scores", tiles * SUMS, ACCUMULATED)
        with self.writer.unrolled(tiles * SUMS, "number") as number:
            self.writer.store(scores, number, real(0.0))
        for tile in range(tiles):
            for chunk in range(self.chunks):
                for half in range(0, PAIRS, 2):
                    query = [
                        self.queries[int64((chunk * self.heights + height) * PAIRS + half + k)]
                        if height < self.heights
                        else _none()
                        for k in range(2)
                        for height in range(2)
                    ]
                    at = (tile * self.chunks + chunk) * PAIRS + half
                    self._instruction(
                        scores, tile * SUMS, query, [keys[int64(at + k)] for k in range(2)]
                    )
        for number in range(tiles * SUMS):
            height = number % SUMS // 2
            if height < self.heights:
                row = self.part.rows_at(height)
                key = first + self.part.within * 2 + (number // SUMS * MATRIX + number % 2)
                self.writer.store(
                    scores, int64(number), self._seen(scores[int64(number)], row, key, is_last)
                )
        return scores

    def _seen(self, score: Expr, row: Expr, key: Expr, is_last: bool) -> Expr:
        """A score with its bias; minus infinity where the query does not see the key."""
        a, bias = self.attention, self.attention.bias
        head, query = self.part.of_head(tirx.min(row, int64(self.part.rows - 1)))
        if bias is not None:
            place = bias.start + self.part.batch * bias.batch + head * bias.head
            place = place + query * bias.query + self._existing(key, is_last) * bias.key
            score = score * real(a.scale) + self.part.views["bias"][place].astype(ACCUMULATED)
        limit = None
        if a.mask != NO_MASK:
            limit = key <= query + self._diagonal
        seen = all_of(limit, key < a.keys if self._has_rest and is_last else None)
        return score if seen is None else tirx.Select(seen, score, real(NOTHING))

    def _weigh(self, scores: Var, height: int, are_several: bool) -> None:
        """Scores of rows as powers of their distance to the largest so far, which the sums that
        there are already are rescaled to."""
        writer, at = self.writer, int64(height)
        own = [
            int64(tile * SUMS + height * 2 + beside)
            for tile in range(self.turn // MATRIX)
            for beside in range(2)
        ]
        most = self.largest[at]
        for number in own:
            most = tirx.max(most, scores[number])
        most = writer.value("most", T.cuda.warp_reduce(most, "max", LANES))
        below = writer.value("below", reference(most))
        if are_several:
            factor = writer.value("factor", self.part.power(self.largest[at], below))
            writer.store(self.sums, at, self.sums[at] * factor)
            with writer.unrolled(self.width, "column") as column:
                for beside in range(2):
                    total = column * SUMS + (height * 2 + beside)
                    writer.store(self.totals, total, self.totals[total] * factor)
        writer.store(self.largest, at, most)
        for number in own:
            writer.store(scores, number, self.part.power(scores[number], below))
            writer.store(self.sums, at, self.sums[at] + scores[number])


def _none() -> Expr:
    return tirx.const(0, PAIR)
