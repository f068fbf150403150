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
from tvm_stitch.kernel.cooperative.choose_rounds import none_waits, with_persistent_rows
from tvm_stitch.kernel.cooperative.footprint import Parts
from tvm_stitch.kernel.ir.mapping import SCHEMES, Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.legal import legal

AXES: dict[str, tuple[int, ...]] = {
    "threads": (128, 256, 512, 1024),  # of a block
    "min_blocks_per_sm": (1, 2, 3, 4),  # blocks of a multiprocessor
    "rows": (1, 2, 4, 8, 16, 32),  # of a segment, side by side in a block
    "batch": (1, 2, 4, 8),  # of these, that a thread loads at once
    "steps": (1, 2, 4),  # vectors of a thread where a part has no rows
    "persistent_rows": (0, 1),  # whether rows persist on the chip, as many as there is room for
}
# Those of some parts only: their kinds say which.
OF_PARTS = ("rows", "batch", "steps")


def schedules(
    programs: tuple[Program, ...],
    chosen: Schedule,
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    schemes: tuple[str, ...] = SCHEMES,
) -> dict[Schedule, tuple[int, ...]]:
    """Every legal schedule with its values of the axes, the chosen one first."""
    own = tuple(values_of(programs, chosen).values())
    found = {chosen: own}
    for values in _combinations(programs, chosen):
        if values == own:
            continue  # parts that were chosen one by one may differ in them
        schedule = fitted(dict(zip(AXES, values, strict=True)), programs, chosen, device)
        if schedule not in found and legal(programs, schedule, device, bounds, schemes) is None:
            found[schedule] = values
    return found


def values_of(programs: tuple[Program, ...], schedule: Schedule) -> dict[str, int]:
    """The values of the axes that make a schedule."""
    first = {name: next(iter(_said(programs, schedule, name)), 1) for name in OF_PARTS}
    return {
        "threads": schedule.block_threads,
        "min_blocks_per_sm": schedule.min_blocks_per_sm,
        **first,
        "persistent_rows": int(any(part.persistent_rows for part in schedule.parts)),
    }


def _said(programs: tuple[Program, ...], schedule: Schedule, name: str) -> list[int]:
    """What the mappings say of which an axis is."""
    parts = zip(programs, schedule.parts, strict=True)
    return [getattr(m, name) for p, m in parts if name in kind_of(p).search.in_rounds]


def fitted(
    values: dict[str, int], programs: tuple[Program, ...], chosen: Schedule, device: Device
) -> Schedule:
    """The schedule of these values, perhaps not legal; the rest is as it was chosen."""
    parts: Parts = [
        (program, _fitted(program, mapping, values))
        for program, mapping in zip(programs, chosen.parts, strict=True)
    ]
    resident = values["min_blocks_per_sm"]
    if values["persistent_rows"]:
        parts = with_persistent_rows(parts, resident, device)
    mappings = tuple(mapping for _, mapping in parts)
    return Schedule(mappings, blocks=resident * device.multiprocessors, min_blocks_per_sm=resident)


def _fitted(program: Program, chosen: Any, values: dict[str, int]) -> Mapping:
    kind = kind_of(program)
    own = {name: values[name] for name in kind.search.in_rounds}
    moving = none_waits(replace(chosen, **own))
    mapping: Mapping = kind.search.resized(program, moving, values["threads"])
    return mapping


def _combinations(programs: tuple[Program, ...], chosen: Schedule) -> Iterator[tuple[int, ...]]:
    """Values of all axes, the chosen ones among them; one where an axis says nothing."""
    own: dict[str, Any] = values_of(programs, chosen)
    silent = {name for name in OF_PARTS if not _said(programs, chosen, name)}
    if not any(program.persistent_inputs for program in programs):
        silent.add("persistent_rows")
    axes = [
        (own[name],) if name in silent else sorted({*values, own[name]})
        for name, values in AXES.items()
    ]
    return itertools.product(*axes)
