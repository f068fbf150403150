"""The whole way of kernel/: a fused PrimFunc in, a stitched one out, or why not."""

from __future__ import annotations

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds, choose, residency_of
from tvm_stitch.kernel.emit import emit
from tvm_stitch.kernel.program import Program, make_program
from tvm_stitch.kernel.schedule import SCHEMES
from tvm_stitch.kernel.stage import Refused, is_buffer, read_stages

SCHEDULE_ATTRIBUTE = "tvm_stitch.schedule"


def read_program(func: tirx.PrimFunc) -> Program | Refused:
    """The Program of a fused PrimFunc."""
    stages = read_stages(func)
    if isinstance(stages, Refused):
        return stages
    written = {stage.output for stage in stages}
    outputs = tuple(param for param in func.params if is_buffer(param) and param in written)
    return make_program(stages, outputs)


def stitch_function(
    func: tirx.PrimFunc,
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    schemes: tuple[str, ...] = SCHEMES,
) -> tirx.PrimFunc | Refused:
    """Emit a PrimFunc as one stitched kernel, its Schedule attached as JSON."""
    program = read_program(func)
    if isinstance(program, Refused):
        return program
    schedule = choose(program, device, bounds)
    if isinstance(schedule, Refused):
        return schedule
    if schedule.scheme not in schemes:
        return Refused(f"the {schedule.scheme} scheme is switched off")
    kernel = emit(func, program, residency_of(program, schedule), schedule, bounds.columns(program))
    return kernel.with_attr(SCHEDULE_ATTRIBUTE, schedule.to_json())
