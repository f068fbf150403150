"""Shared memory of a kernel in rounds where rows wait for the next ones.

In: its parts, Programs with their Mappings, and the blocks of its grid. Out: how much of each
input waits, and why the rows of a schedule could not, if so. Which can stay is kernel/stay's
to say.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tvm_stitch.kernel.position import band_blocks, band_turns, piece_of
from tvm_stitch.kernel.program import Program
from tvm_stitch.kernel.schedule import Mapping
from tvm_stitch.kernel.stage import Var, dtype_of, item_bytes

Parts = Sequence[tuple[Program, Mapping]]


def waiting_elements(parts: Parts, blocks: int) -> dict[Var, int]:
    """Elements of each input that wait with a block, whose turns each have a place."""
    found: dict[Var, int] = {}
    for program, mapping, first in _places(parts):
        turns = -(-(first + band_blocks(program.space, mapping)) // blocks)
        for buffer in program.staying if mapping.staying else ():
            found[buffer] = turns * mapping.staying * piece_of(program.space, mapping)
    return found


def waiting_bytes(parts: Parts, blocks: int) -> int:
    """Bytes of shared memory of a block."""
    elements = waiting_elements(parts, blocks)
    return sum(item_bytes(dtype_of(buffer)) * count for buffer, count in elements.items())


def why_not(parts: Parts) -> str | None:
    """Why a block would not find the rows that it has left, if so."""
    places: dict[Var, tuple[int, Mapping]] = {}
    rounds: set[tuple[Var, int]] = set()
    if any(mapping.staying and not program.staying for program, mapping in parts):
        return "rows that wait, which no other round reads"
    for program, mapping, first in _places(parts):
        most = mapping.block_rows * band_turns(program.space, mapping)
        if mapping.staying % mapping.rows or not 0 <= mapping.staying <= most:
            return f"{mapping.staying} of {most} rows wait, of which {mapping.rows} come at once"
        for buffer in program.staying:
            moved = places.setdefault(buffer, (first, mapping)) != (first, mapping)
            if mapping.staying and (moved or (buffer, program.round) in rounds):
                return "rows that wait in other blocks than those that want them"
            rounds.add((buffer, program.round))
    return None


def _places(parts: Parts) -> Iterator[tuple[Program, Mapping, int]]:
    """The parts in bands, each with the number of its first block in its round."""
    first = dict.fromkeys((program.round for program, _ in parts), 0)
    for program, mapping in parts:
        if not program.staying:
            continue
        yield program, mapping, first[program.round]
        first[program.round] += band_blocks(program.space, mapping)
