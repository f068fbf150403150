"""The whole way of kernel/: a fused PrimFunc in, a stitched one out, or why not."""

from __future__ import annotations

from collections.abc import Sequence

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.op_pattern import Pattern, classify
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds, choose
from tvm_stitch.kernel.codegen import no_bfloat
from tvm_stitch.kernel.codegen.hazard_check import check_kernel, multiprocessors_needed
from tvm_stitch.kernel.codegen.no_bfloat import without_bfloat16
from tvm_stitch.kernel.codegen.prim_func import MULTIPROCESSORS_ATTRIBUTE
from tvm_stitch.kernel.emit import UNBOUNDED, emit
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.read_stages import outputs_of, read_stages
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.ir.stage import Refused
from tvm_stitch.kernel.partition import make_programs
from tvm_stitch.kernel.tensor_core.build import TILES_ATTRIBUTE, tensor_function

SCHEDULE_ATTRIBUTE = "tvm_stitch.schedule"
VIEW = Refused("a view costs nothing")


def is_emitted(func: tirx.PrimFunc) -> bool:
    """Whether a PrimFunc is a kernel that comes from here."""
    return SCHEDULE_ATTRIBUTE in func.attrs or TILES_ATTRIBUTE in func.attrs


def read_programs(
    func: tirx.PrimFunc, schemes: Sequence[str] = SCHEMES
) -> tuple[Program, ...] | Refused:
    """The Programs of a fused PrimFunc, one for each unrelated part."""
    stages = read_stages(func)
    if isinstance(stages, Refused):
        return stages
    if classify(stages) is Pattern.RESHAPE:
        # TVM makes a view of it later, unless it is scheduled.
        return VIEW
    return make_programs(stages, outputs_of(func, stages), schemes)


def stitch_function(
    func: tirx.PrimFunc,
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    schemes: tuple[str, ...] = SCHEMES,
) -> tirx.PrimFunc | Refused:
    """Emit a PrimFunc as one stitched kernel, its Schedule attached as JSON.

    Where it is a matrix product too large for that, it may be one on tensor cores.
    """
    kernel = _stitched(func, device, bounds, schemes)
    if isinstance(kernel, Refused) and kernel is not VIEW and "regional" in schemes:
        product = tensor_function(func, device)
        return kernel if isinstance(product, Refused) else product
    return kernel


def _stitched(
    func: tirx.PrimFunc, device: Device, bounds: Bounds, schemes: tuple[str, ...]
) -> tirx.PrimFunc | Refused:
    programs = read_programs(func, schemes)
    if isinstance(programs, Refused):
        return programs
    schedule = choose(programs, device, bounds, schemes)
    if isinstance(schedule, Refused):
        return schedule
    return scheduled(func, programs, schedule, device, bounds)


def check_emitted(
    programs: tuple[Program, ...], schedule: Schedule, device: Device
) -> Refused | None:
    """What the last look at a kernel will find, asked before there is a fused PrimFunc."""
    buffers = dict.fromkeys(b for program in programs for b in (*program.inputs, *program.outputs))
    empty = tirx.PrimFunc(list(buffers), tirx.Evaluate(0))
    return check_kernel(_emitted(empty, programs, schedule, device), device)


def scheduled(
    func: tirx.PrimFunc,
    programs: tuple[Program, ...],
    schedule: Schedule,
    device: Device,
    bounds: Bounds = NO_BOUNDS,
) -> tirx.PrimFunc | Refused:
    """Emit a PrimFunc, whose Programs were read from it, by a legal Schedule."""
    longest = [bounds.columns(p) if bounds.know(p) else UNBOUNDED for p in programs]
    kernel = _emitted(func, programs, schedule, device, longest)
    hazard = check_kernel(kernel, device)
    if hazard is not None:
        return hazard
    if needed := multiprocessors_needed(kernel, device):
        kernel = kernel.with_attr(MULTIPROCESSORS_ATTRIBUTE, needed)
    return kernel.with_attr(SCHEDULE_ATTRIBUTE, schedule.to_json())


def _emitted(
    func: tirx.PrimFunc,
    programs: tuple[Program, ...],
    schedule: Schedule,
    device: Device,
    longest: Sequence[int] = (),
) -> tirx.PrimFunc:
    kernel = emit(func, programs, schedule, longest)
    return without_bfloat16(kernel) if device.capability < no_bfloat.CAPABILITY else kernel
