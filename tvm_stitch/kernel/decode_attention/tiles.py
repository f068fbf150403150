"""How attention of few queries is divided among blocks and warps: plain data, and its choice.

In: an Attention and a Device. Out: DecodeTiles, or why it is no attention of few queries.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields

from tvm_stitch.device import Device
from tvm_stitch.json_data import checked, parsed, positive
from tvm_stitch.kernel.codegen.footprint import (
    MAX_REGISTERS,
    OVERHEAD_REGISTERS,
    STATIC_SHARED,
    SUM_BYTES,
    Footprint,
)
from tvm_stitch.kernel.ir.mapping import WARP
from tvm_stitch.library.attention import Attention
from tvm_stitch.stages.stage import Refused

CAPABILITY = 90  # clusters
MOST_ROWS = 16  # queries that share a head of keys: what an instruction has of one side
FRAGMENT = 16  # keys that a warp takes at once
MATRIX = 8  # rows, keys or columns of what an instruction's factors are made of
LOADED = 8  # halves of a load
CHUNK = 32  # of the depth: what four lanes load of a key
PAIRS = LOADED // 2  # registers of a load
SUMS = 4  # of a lane, of what an instruction computes
COLUMNS = 16  # the value's depth is a multiple: lanes have pairs of neighbours
MOST_WARPS = 8
SPLITS = (1, 2, 4, 8, 16)  # blocks of a cluster
STATISTICS = 2  # of a row: its largest score, and the sum of powers
SCORE_REGISTERS = 24  # scores, weights, and what rescales the sums


@dataclass(frozen=True)
class DecodeTiles:
    """A head of keys belongs to a cluster of `splits` blocks, each of so many warps.

    Warps take 16 keys at a time, in turns. `ahead`: those of the next turn are on their way
    meanwhile.
    """

    splits: int
    warps: int
    ahead: bool

    @property
    def threads(self) -> int:
        """Threads of a block."""
        return WARP * self.warps

    @property
    def keys(self) -> int:
        """That all warps of a cluster take in a turn."""
        return FRAGMENT * self.warps * self.splits

    def __str__(self) -> str:
        """One line for people."""
        blocks = "a block" if self.splits == 1 else f"a cluster of {self.splits} blocks"
        return (
            f"each head of keys by {blocks} of {self.warps} warps, {FRAGMENT} keys each at a time"
        )


def tiles_to_json(tiles: DecodeTiles) -> str:
    """The tiles as JSON."""
    return json.dumps(asdict(tiles), sort_keys=True)


def tiles_from_json(text: str) -> DecodeTiles:
    """Read what tiles_to_json wrote; refuse unknown or missing fields and wrong types."""
    readers = {field.name: positive for field in fields(DecodeTiles)} | {"ahead": bool}
    found: DecodeTiles = checked(DecodeTiles, parsed(text, "tiles"), "tiles", readers)
    return found


def rows_of(attention: Attention) -> int:
    """Queries that share a head of keys."""
    return attention.heads // attention.key_heads * attention.queries


def heights_of(attention: Attention) -> int:
    """Matrices of rows that hold any."""
    return -(-rows_of(attention) // MATRIX)


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


def fragments_of(attention: Attention) -> Fragments:
    """What a lane holds."""
    chunks, width = chunks_of(attention), width_of(attention)
    return Fragments(
        SUMS * width,
        chunks * heights_of(attention) * PAIRS,
        chunks * FRAGMENT // MATRIX * PAIRS,
        # Lines of four keys, two halves in a register.
        4 * width // 2,
    )


def slice_of(attention: Attention, tiles: DecodeTiles) -> int:
    """Elements of the result that a block of a cluster writes."""
    return rows_of(attention) * attention.value_depth // tiles.splits


def footprint(attention: Attention, tiles: DecodeTiles) -> Footprint:
    """What a block takes: a turn of keys and values, perhaps another, and partial sums."""
    own, rows = fragments_of(attention), rows_of(attention)
    loaded = (own.keys + own.values) * (2 if tiles.ahead else 1)
    registers = loaded + own.sums + own.queries + SCORE_REGISTERS + OVERHEAD_REGISTERS
    sums = tiles.warps * rows * (attention.value_depth + STATISTICS)
    if tiles.splits > 1:
        sums += tiles.splits * (slice_of(attention, tiles) + STATISTICS * rows)
    return Footprint(tiles.threads, registers, sums * SUM_BYTES)


def why_not(attention: Attention, device: Device) -> Refused | None:
    """Why it is not attention of few queries that there is a kernel for."""
    rows = rows_of(attention)
    if device.capability < CAPABILITY:
        return Refused(f"{device.name} has no clusters to split keys among")
    if rows > MOST_ROWS:
        return Refused(f"{rows} queries of a head of keys, more than {MOST_ROWS}")
    if attention.depth % LOADED or attention.value_depth % COLUMNS:
        return Refused(f"heads of {attention.depth} and {attention.value_depth}")
    if footprint(attention, DecodeTiles(1, 1, ahead=False)).registers > MAX_REGISTERS:
        return Refused(f"heads of {attention.depth} and {attention.value_depth}, too deep")
    return None


def choose_tiles(attention: Attention, device: Device) -> DecodeTiles:
    """Blocks for most multiprocessors, as far as warps have keys, and warps for the others."""
    heads = attention.batch * attention.key_heads
    turns = -(-attention.keys // FRAGMENT)
    elements = rows_of(attention) * attention.value_depth
    splits = 1
    for more in SPLITS[1:]:
        if heads * splits >= device.multiprocessors // 2 or 2 * more > turns or elements % more:
            break
        splits = more
    warps = MOST_WARPS
    while warps > 1 and (
        warps * splits > turns
        or footprint(attention, DecodeTiles(splits, warps, ahead=False)).shared > STATIC_SHARED
    ):
        warps //= 2
    chosen = DecodeTiles(splits, warps, ahead=True)
    is_short = turns <= splits * warps
    if is_short or footprint(attention, chosen).registers > MAX_REGISTERS:
        return DecodeTiles(splits, warps, ahead=False)
    return chosen
