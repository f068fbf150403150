"""What a mapping of rows rests on, in words for the report.

In: a Program, its Mapping. Out: part of a sentence.
"""

from __future__ import annotations

from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.stages.stage import shown

EXCHANGE = {
    "local": "by one thread",
    "warp": "by shuffles within a warp",
    "regional": "through shared memory within a block",
    "cluster": "through the shared memory of a cluster of blocks",
}
NOTHING = "each element depends on its own inputs only: threads exchange nothing"


def why_rows(program: Program, mapping: Mapping) -> str:
    """How the threads of a row exchange values, and where these wait."""
    return _told(program, mapping, _along_rows(program, mapping))


def why_sums(program: Program, mapping: Mapping, where: str) -> str:
    """The same, and where sums over the rows are combined."""
    count = len(program.column_reductions)
    sums = f"{count} sum{'s' if count > 1 else ''} over the rows synchronise {where}"
    return _told(program, mapping, [*_along_rows(program, mapping), sums])


def _along_rows(program: Program, mapping: Mapping) -> list[str]:
    along = len(program.row_reductions)
    columns = shown(program.space.columns)
    times = "once" if along == 1 else f"{along} times"
    exchange = EXCHANGE[mapping.row_scheme]
    found = [f"a row of {columns} columns is reduced {times} {exchange}"] if along else []
    if program.scans:
        found.append(f"values accumulate along {columns} columns {exchange}")
    return found


def _told(program: Program, mapping: Mapping, found: list[str]) -> str:
    if not found:
        return NOTHING
    if phases_of(program, mapping).kept:
        place = "registers" if mapping.residence == "register" else "shared memory"
        found = [*found, f"values needed again stay in {place}"]
    return "; ".join(found)
