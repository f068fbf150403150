"""Legality of a schedule that somebody else made: a tuner, or a record read from a file.

In: the Programs of one kernel, a Schedule, the Device. Out: nothing, or why the schedule would not
work. The counterpart of choose, which makes only schedules that are legal here; what a program
allows of its mapping its kind says.
"""

from __future__ import annotations

from tvm_stitch.device import Device
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds, context_of, problem_of, too_large
from tvm_stitch.kernel.codegen.footprint import STATIC_SHARED, not_resident
from tvm_stitch.kernel.cooperative.choose_rounds import room_of_rounds
from tvm_stitch.kernel.cooperative.footprint import NOT_READ_AGAIN, why_not
from tvm_stitch.kernel.footprint import tile_bytes
from tvm_stitch.kernel.ir.mapping import SCHEMES, switched_off
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.stages.stage import Refused


def legal(
    programs: tuple[Program, ...],
    schedule: Schedule,
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    schemes: tuple[str, ...] = SCHEMES,
) -> Refused | None:
    """Why a kernel of these programs cannot have this schedule, if so."""
    if len(schedule.parts) != len(programs):
        return Refused(f"{len(schedule.parts)} mappings for a kernel of {len(programs)} parts")
    context = context_of(programs, schedule.block_threads)
    for program, mapping in zip(programs, schedule.parts, strict=True):
        follow = schedule.longer is not None
        problem = problem_of(program, device, bounds, follow, context=context)
        refused = kind_of(program).refusal(problem, mapping)
        if refused is not None:
            return refused
    if schedule.most_rows and schedule.longer is None:
        return Refused(f"no kernel for more than {schedule.most_rows} rows")
    if tile_bytes(programs, schedule.parts) > STATIC_SHARED:
        return Refused("its parts' tiles need more shared memory than a block has")
    refused = _rounds(programs, schedule, device) or too_large(programs, schedule, device)
    if refused is not None:
        return refused
    if schedule.longer is not None:
        refused = legal(programs, schedule.longer, device, bounds, schemes)
        if refused is not None:
            return refused
    return switched_off(schedule.schemes, schemes)


def _rounds(programs: tuple[Program, ...], schedule: Schedule, device: Device) -> Refused | None:
    """What blocks that synchronise between rounds need: all of them resident at once."""
    if not any(program.round for program in programs):
        if any(part.persistent_rows for part in schedule.parts):
            return Refused(NOT_READ_AGAIN)
        return Refused("rounds, of which there is one") if schedule.blocks else None
    parts = [*zip(programs, schedule.parts, strict=True)]
    reason = why_not(parts)
    if reason is not None:
        return Refused(reason)
    if schedule.blocks < 1:
        return Refused("rounds, whose blocks are not all resident at once")
    room = room_of_rounds(parts, device, schedule.blocks)
    if isinstance(room, Refused):
        return room
    waiting = next(not_resident(schedule.blocks, schedule.min_blocks_per_sm, room, device), None)
    return None if waiting is None else Refused(waiting)
