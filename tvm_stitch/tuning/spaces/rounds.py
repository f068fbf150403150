"""The schedules of a kernel in rounds: what all of its parts have in common is searched.

In: the Programs of such a kernel, its analytic choice, the Device. Out: every legal Schedule of the
table below, with the values that make it. What is legal is asked of kernel/legal.

Blocks of all rounds have equally many threads, and as many of them are resident as the part that
takes most room allows; parts cannot be searched one by one.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tvm_stitch.device import Device
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds
from tvm_stitch.kernel.cooperative.choose_rounds import InRounds, with_persistent_rows
from tvm_stitch.kernel.ir.mapping import SCHEMES, Flat, Mapping, Rows, RowSegment
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.legal import legal

AXES: dict[str, tuple[int, ...]] = {
    "threads": (128, 256, 512, 1024),  # of a block
    "min_blocks_per_sm": (1, 2, 3, 4),  # blocks of a multiprocessor
    "rows": (1, 2, 4, 8, 16, 32),  # of a segment, side by side in a block
    "batch": (1, 2, 4, 8),  # of these, that a thread loads at once
    "steps": (1, 2, 4),  # vectors of a thread where a part has no rows
    "persistent_rows": (
        0,
        1,
    ),  # whether rows stay on the chip between rounds, as many as there is room for
}


def schedules(
    programs: tuple[Program, ...],
    chosen: Schedule,
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    schemes: tuple[str, ...] = SCHEMES,
) -> dict[Schedule, tuple[int, ...]]:
    """Every legal schedule with its values of the axes, the chosen one first."""
    own = tuple(values_of(chosen).values())
    found = {chosen: own}
    for values in _combinations(programs, chosen):
        if values == own:
            continue  # parts that were chosen one by one may differ in them
        schedule = fitted(dict(zip(AXES, values, strict=True)), programs, chosen, device)
        if schedule not in found and legal(programs, schedule, device, bounds, schemes) is None:
            found[schedule] = values
    return found


def values_of(schedule: Schedule) -> dict[str, int]:
    """The values of the axes that make a schedule."""
    row_segments = [part for part in schedule.parts if isinstance(part, RowSegment)]
    flat = [part for part in schedule.parts if isinstance(part, Flat)]
    return {
        "threads": schedule.block_threads,
        "min_blocks_per_sm": schedule.min_blocks_per_sm,
        "rows": row_segments[0].rows if row_segments else 1,
        "batch": row_segments[0].batch if row_segments else 1,
        "steps": flat[0].steps if flat else 1,
        "persistent_rows": int(any(part.persistent_rows for part in schedule.parts)),
    }


def fitted(
    values: dict[str, int], programs: tuple[Program, ...], chosen: Schedule, device: Device
) -> Schedule:
    """The schedule of these values, perhaps not legal; the rest is as it was chosen."""
    parts = [_part(each, values) for each in chosen.parts]
    resident = values["min_blocks_per_sm"]
    if values["persistent_rows"]:
        parts = with_persistent_rows(programs, parts, resident, device)
    return Schedule(
        tuple(parts), blocks=resident * device.multiprocessors, min_blocks_per_sm=resident
    )


def _combinations(programs: tuple[Program, ...], chosen: Schedule) -> Iterator[tuple[int, ...]]:
    """Values of all axes, the chosen ones among them; one where an axis says nothing."""
    own: dict[str, Any] = values_of(chosen)
    silent = set()
    if not any(isinstance(part, RowSegment) for part in chosen.parts):
        silent |= {"rows", "batch"}
    if not any(isinstance(part, Flat) for part in chosen.parts):
        silent.add("steps")
    if not any(program.persistent_inputs for program in programs):
        silent.add("persistent_rows")
    axes = [
        (own[name],) if name in silent else sorted({*values, own[name]})
        for name, values in AXES.items()
    ]
    return itertools.product(*axes)


def _part(chosen: Mapping, values: dict[str, int]) -> InRounds:
    threads = values["threads"]
    if isinstance(chosen, RowSegment):
        rows = min(values["rows"], threads)
        each = threads // rows
        return replace(chosen, threads=each, rows=rows, batch=values["batch"], persistent_rows=0)
    if isinstance(chosen, Flat):
        return replace(chosen, threads=threads, steps=values["steps"])
    assert isinstance(chosen, Rows), "a round has one of three kinds"
    each = min(chosen.threads, threads)
    steps = chosen.steps * chosen.threads // each
    return replace(chosen, threads=each, rows=threads // each, steps=steps, persistent_rows=0)
