"""What the tuner searches of elements without rows: threads, vectors, tiles, lines of a thread.

In: a Program, values of the axes. Out: the axes, and the Mapping that values make, perhaps not
legal.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_stitch.kernel.analysis.kind import POWERS, Axes, Problem, Search, Values
from tvm_stitch.kernel.elementwise.overlapping_reads import LINES, RegisterTile, find_lines
from tvm_stitch.kernel.elementwise.transposed_reads import find_tiling
from tvm_stitch.kernel.ir.mapping import Flat, Transposed
from tvm_stitch.kernel.ir.program import Program

AXES: Axes = {
    "threads": POWERS[5:],
    "vector": POWERS[:5],
    "steps": POWERS[:5],
    "min_blocks_per_sm": (0, 1024, 2048),  # threads, which registers are left for
}


def _axes(program: Program) -> Axes:
    tiles = {} if find_tiling(program) is None else {"tile": (0, *POWERS[3:8])}
    lines = find_lines(program)
    counts = () if lines is None else (n for n in LINES if lines.across % n == 0)
    return {**AXES, **tiles, **({"lines": (0, *sorted(counts))} if lines else {})}


def _fitted(_problem: Problem[Program], values: Values) -> Flat:
    own = {**values, "min_blocks_per_sm": values["min_blocks_per_sm"] // values["threads"]}
    tile, lines = own.pop("tile", 0), own.pop("lines", 0)
    if tile:
        return Transposed(**own, tile=tile)
    return RegisterTile(**own, lines=lines) if lines else Flat(**own)


def _values(mapping: Flat) -> Values:
    return vars(mapping) | {"min_blocks_per_sm": mapping.min_blocks_per_sm * mapping.threads}


def resized(mapping: Flat, threads: int) -> Flat:
    """In blocks of any size; larger tiles would take more shared memory."""
    steps = mapping.steps
    if mapping.tile:
        steps = max(1, steps * mapping.threads // threads)
    return replace(mapping, threads=threads, steps=steps)


def _in_round(_program: Program, mapping: Flat, threads: int) -> Flat:
    return replace(resized(mapping, threads), min_blocks_per_sm=0)


SEARCH = Search(_axes, _fitted, _values, in_rounds=("steps",), resized=_in_round)
