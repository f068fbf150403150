"""How attention is divided among blocks and warps: plain data, and its choice.

In: an Attention and a Device. Out: AttentionTiles, or why there is no such kernel.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tvm_stitch.device import Device
from tvm_stitch.kernel.codegen.footprint import (
    MAX_REGISTERS,
    OVERHEAD_REGISTERS,
    STATIC_SHARED,
    SUM_BYTES,
    Footprint,
)
from tvm_stitch.kernel.ir.mapping import WARP
from tvm_stitch.kernel.rows.legal import has_clusters
from tvm_stitch.kernel.tensor_core.mma import MATRIX, SUMS
from tvm_stitch.kernel.tensor_core.pairs import PAIRS
from tvm_stitch.kernel.tensor_core.program import WIDEST
from tvm_stitch.kernel.tensor_core.tiles import CAPABILITY
from tvm_stitch.library.attention import Attention, Size
from tvm_stitch.stages.stage import Refused

ROWS = 16  # queries that share a head of keys: what an instruction has of one side
FRAGMENT = 16  # keys that an instruction multiplies values by
LONG_TURN = 32  # keys that a warp takes at once where registers and time allow
LANES = 4  # that hold a row of an instruction's results: two neighbours each
CHUNK = LANES * WIDEST  # of the depth: what four lanes load of a key
COLUMNS = 16  # the value's depth is a multiple: lanes have pairs of neighbours
MOST_WARPS = 8
# Blocks of a cluster. Of 16 few find room at once: 4096 keys of 8 heads of 128 take 12.8 us on an
# H200, and 9.5 by 8 (bench/results/h200/attention.md).
SPLITS = (1, 2, 4, 8)
# Of a block, where each has queries of its own: of short sequences, and of others.
MOST_ROW_WARPS, ROW_WARPS = 4, 2
STATISTICS = 2  # of a row: its largest score, and the sum of powers
SCORE_REGISTERS = 24  # scores, weights, and what rescales the sums


@dataclass(frozen=True)
class AttentionTiles:
    """A warp has 16 queries, and takes `turn` keys at a time.

    `by_rows`: each of a block's `warps` has queries of its own, and all keys. Otherwise they share
    the queries, and the keys are split among the warps of a cluster of `splits` blocks. `ahead`:
    keys and values of the next turn are on their way meanwhile.
    """

    splits: int
    warps: int
    ahead: bool
    by_rows: bool = False
    turn: int = FRAGMENT

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return WARP * self.warps

    @property
    def keys(self) -> int:
        """That are taken in a turn, by all warps that share queries."""
        return self.turn if self.by_rows else self.turn * self.warps * self.splits

    @property
    def rows(self) -> int:
        """Queries of a block."""
        return ROWS * self.warps if self.by_rows else ROWS

    def __str__(self) -> str:
        """One line for people."""
        if self.by_rows:
            return f"{self.warps} warps per block, {ROWS} queries each, {self.turn} keys at a time"
        blocks = "a block" if self.splits == 1 else f"a cluster of {self.splits} blocks"
        return f"a head of keys by {blocks} of {self.warps} warps, {self.turn} keys each at a time"


def rows_of(attention: Attention) -> int:
    """Queries that share a head of keys."""
    return attention.heads // attention.key_heads * attention.queries


def heights_of(attention: Attention) -> int:
    """Matrices of a warp's rows that hold any."""
    return -(-min(rows_of(attention), ROWS) // MATRIX)


def chunks_of(attention: Attention) -> int:
    """Of a key's depth."""
    return -(-attention.depth // CHUNK)


def width_of(attention: Attention) -> int:
    """Neighbouring columns of a value that a lane has."""
    return attention.value_depth // MATRIX


@dataclass(frozen=True)
class Fragments:
    """Registers of a lane: sums, queries, and the keys and values of a turn."""

    sums: int
    queries: int
    keys: int
    values: int


def fragments_of(attention: Attention, tiles: AttentionTiles) -> Fragments:
    """What a lane holds."""
    chunks, width = chunks_of(attention), width_of(attention)
    return Fragments(
        SUMS * width,
        chunks * heights_of(attention) * PAIRS,
        chunks * tiles.turn // MATRIX * PAIRS,
        # Lines of a quarter of the keys, two halves in a register.
        tiles.turn // LANES * width // 2,
    )


def blocks_of(attention: Attention, tiles: AttentionTiles) -> Size:
    """Blocks of the grid."""
    return attention.batch * attention.key_heads * blocks_of_head(attention, tiles)


def blocks_of_head(attention: Attention, tiles: AttentionTiles) -> int:
    """Blocks of a head of keys: of its queries, or of a cluster that splits its keys."""
    return tiles.splits * -(-rows_of(attention) // tiles.rows)


def slice_of(attention: Attention, tiles: AttentionTiles) -> int:
    """Elements of the result that a block of a cluster writes."""
    return rows_of(attention) * attention.value_depth // tiles.splits


def footprint(attention: Attention, tiles: AttentionTiles) -> Footprint:
    """What a block takes: a turn of keys and values, perhaps another, and partial sums."""
    own, rows = fragments_of(attention, tiles), rows_of(attention)
    loaded = own.keys + own.values
    if tiles.ahead:
        loaded *= 2
    elif tiles.turn > FRAGMENT:
        loaded //= 2  # ptxas loads the others when these are multiplied
    scores = SCORE_REGISTERS * tiles.turn // FRAGMENT
    registers = loaded + own.sums + own.queries + scores + OVERHEAD_REGISTERS
    sums = 0
    if not tiles.by_rows:
        sums = tiles.warps * rows * (attention.value_depth + STATISTICS)
    if tiles.splits > 1:
        sums += tiles.splits * (slice_of(attention, tiles) + STATISTICS * rows)
    return Footprint(tiles.threads, registers, sums * SUM_BYTES)


def why_not(attention: Attention, device: Device) -> Refused | None:
    """Why there is no kernel for such heads on this GPU."""
    if device.capability < CAPABILITY:
        return Refused(f"{device.name} has no tensor cores for such a product")
    if attention.scale <= 0:
        return Refused("a scale that turns the largest score into the least")
    if attention.depth % WIDEST or attention.value_depth % COLUMNS:
        return Refused(f"heads of {attention.depth} and {attention.value_depth}")
    if not isinstance(attention.keys, int) and rows_of(attention) > ROWS:
        return Refused(f"{rows_of(attention)} queries by keys that are counted at run time only")
    if footprint(attention, AttentionTiles(1, 1, False, by_rows=True)).registers > MAX_REGISTERS:
        return Refused(f"heads of {attention.depth} and {attention.value_depth}, too deep")
    return None


def choose_tiles(attention: Attention, device: Device) -> AttentionTiles:
    """By rows, where a head has more than a warp takes; else its keys are split."""
    is_known, attention = isinstance(attention.keys, int), attention.expected
    by_rows = rows_of(attention) > ROWS
    chosen = _split_rows(attention, device) if by_rows else _split_keys(attention, device)
    is_short = is_known and attention.keys <= chosen.keys
    if is_short or footprint(attention, chosen).registers > MAX_REGISTERS:
        return replace(chosen, ahead=False)
    return chosen


def _split_rows(attention: Attention, device: Device) -> AttentionTiles:
    """Long turns, where all blocks are resident at once: otherwise more of them hide latencies.

    Where each score has a bias, half as many turns wait for it.
    """
    warps = -(-rows_of(attention) // ROWS)
    chosen = AttentionTiles(1, warps if warps <= MOST_ROW_WARPS else ROW_WARPS, True, by_rows=True)
    wide = replace(chosen, turn=LONG_TURN)
    room = footprint(attention, wide).blocks_per_sm(device) * device.multiprocessors
    of_scores = attention.bias is not None and attention.bias.query != 0
    wants = of_scores or blocks_of(attention, wide) <= room
    return wide if room and wants and attention.keys > LONG_TURN else chosen


def _split_keys(attention: Attention, device: Device) -> AttentionTiles:
    """Blocks for most multiprocessors, as far as warps have keys, and warps for the others."""
    heads = attention.batch * attention.key_heads
    turns = -(-attention.keys // FRAGMENT)
    elements = rows_of(attention) * attention.value_depth
    splits = 1
    for more in SPLITS[1:] if has_clusters(device) else ():
        if heads * more > device.multiprocessors or 4 * more > turns or elements % more:
            break
        splits = more
    warps = MOST_WARPS
    while warps > 1 and (
        warps * splits > turns
        or footprint(attention, AttentionTiles(splits, warps, False)).shared > STATIC_SHARED
    ):
        warps //= 2
    return AttentionTiles(splits, warps, ahead=True)
