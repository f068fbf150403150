"""The whole way of kernel/: a fused PrimFunc in, a stitched one out, or why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds, choose_both
from tvm_stitch.kernel.codegen import no_bfloat
from tvm_stitch.kernel.codegen.hazard_check import check_kernel, multiprocessors_needed
from tvm_stitch.kernel.codegen.no_bfloat import without_bfloat16
from tvm_stitch.kernel.codegen.prim_func import MULTIPROCESSORS_ATTRIBUTE, signature
from tvm_stitch.kernel.cost_model.kernel_model import predicted_us
from tvm_stitch.kernel.emit import UNBOUNDED, emit
from tvm_stitch.kernel.ir.mapping import SCHEMES, Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.library_product.build import (
    LIBRARY_ATTRIBUTE,
    LibraryKernel,
    LibraryMissing,
    library_function,
    library_kernel,
)
from tvm_stitch.kernel.partition import make_programs
from tvm_stitch.kernel.tensor_core.build import (
    TILES_ATTRIBUTE,
    TensorKernel,
    check_tensor_product,
    tensor_function,
    tensor_kernel,
)
from tvm_stitch.stages.op_pattern import is_view
from tvm_stitch.stages.read_stages import outputs_of, read_stages
from tvm_stitch.stages.stage import Refused, Stage, Var

SCHEDULE_ATTRIBUTE = "tvm_stitch.schedule"
# TVM makes a view of it later, unless it is scheduled.
VIEW = Refused("a view costs nothing")
# The two kinds of kernels that are a matrix product first of all.
ProductKernel = TensorKernel | LibraryKernel


def is_emitted(func: tirx.PrimFunc) -> bool:
    """Whether a PrimFunc is a kernel that comes from here, written as CUDA."""
    return SCHEDULE_ATTRIBUTE in func.attrs or TILES_ATTRIBUTE in func.attrs


def is_library_call(func: tirx.PrimFunc) -> bool:
    """Whether a PrimFunc calls a library, which launches the kernel."""
    return LIBRARY_ATTRIBUTE in func.attrs


def check_product(kernel: ProductKernel, device: Device) -> Refused | None:
    """What the last look at a product's kernel will find; at the library's nobody looks."""
    return None if isinstance(kernel, LibraryKernel) else check_tensor_product(kernel, device)


def read_library_call(func: tirx.PrimFunc, device: Device) -> LibraryKernel | Refused:
    """The call of a library that a fused PrimFunc has become."""
    stages = read_stages(func)
    if isinstance(stages, Refused):
        return stages
    return library_kernel(stages, outputs_of(func, stages), device, SCHEMES)


def read_programs(
    func: tirx.PrimFunc, schemes: Sequence[str] = SCHEMES
) -> tuple[Program, ...] | Refused:
    """The Programs of a fused PrimFunc, one for each unrelated part."""
    stages = read_stages(func)
    if isinstance(stages, Refused):
        return stages
    return VIEW if is_view(stages) else make_programs(stages, outputs_of(func, stages), schemes)


@dataclass(frozen=True, eq=False)
class StitchedKernel:
    """Programs with their schedule, and with what it would be beside other programs."""

    programs: tuple[Program, ...]
    schedule: Schedule
    packed: tuple[Mapping, ...]

    @property
    def parts(self) -> int:
        """How many unrelated parts it has; what comes in rounds is one."""
        return 1 if self.schedule.blocks else len(self.programs)


def choose_kernel(
    stages: tuple[Stage, ...],
    outputs: tuple[Var, ...],
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    schemes: tuple[str, ...] = SCHEMES,
) -> StitchedKernel | ProductKernel | Refused:
    """The kernel that computes stages: a stitched one, or that of a larger product."""
    stitched = _choose_stitched(stages, outputs, device, bounds, schemes)
    return _cheaper(stitched, choose_product(stages, outputs, device, schemes, bounds), device)


def _choose_stitched(
    stages: tuple[Stage, ...],
    outputs: tuple[Var, ...],
    device: Device,
    bounds: Bounds,
    schemes: tuple[str, ...],
) -> StitchedKernel | Refused:
    programs = make_programs(stages, outputs, schemes)
    if isinstance(programs, Refused):
        return programs
    choice = choose_both(programs, device, bounds, schemes)
    if isinstance(choice, Refused):
        return choice
    return StitchedKernel(programs, choice.alone, choice.packed)


def choose_product(
    stages: tuple[Stage, ...],
    outputs: tuple[Var, ...],
    device: Device,
    schemes: Sequence[str],
    bounds: Bounds = NO_BOUNDS,
) -> ProductKernel | Refused:
    """The faster kernel of a product: on tensor cores by this package, or the library's."""
    ours: TensorKernel | Refused = Refused("the regional scheme is switched off")
    if "regional" in schemes:
        ours = tensor_kernel(stages, outputs, device, bounds.points)
    theirs = library_kernel(stages, outputs, device, schemes)
    if isinstance(theirs, Refused):
        return theirs if isinstance(ours, Refused) and isinstance(theirs, LibraryMissing) else ours
    return ours if isinstance(ours, TensorKernel) and ours.cost_us <= theirs.cost_us else theirs


def _cheaper(
    stitched: StitchedKernel | Refused, product: ProductKernel | Refused, device: Device
) -> StitchedKernel | ProductKernel | Refused:
    """The kernel that should be faster; of refusals that of the stitched one."""
    if isinstance(stitched, Refused) and isinstance(product, LibraryMissing):
        return Refused(f"{stitched.reason}; {product.reason}")
    if isinstance(product, Refused):
        return stitched
    if isinstance(stitched, Refused):
        return product
    stitched_us = predicted_us(stitched.programs, stitched.schedule, device)
    return stitched if stitched_us <= product.cost_us else product


def stitch_function(
    func: tirx.PrimFunc,
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    schemes: tuple[str, ...] = SCHEMES,
) -> tirx.PrimFunc | Refused:
    """Emit a PrimFunc as one kernel, its Schedule or its Tiles attached as JSON."""
    kernel = kernel_of(func, device, bounds, schemes)
    if isinstance(kernel, Refused):
        return kernel
    if isinstance(kernel, LibraryKernel):
        return library_function(func, kernel)
    if isinstance(kernel, TensorKernel):
        return tensor_function(func, kernel.product, kernel.tiles, device)
    return scheduled(func, kernel.programs, kernel.schedule, device, bounds)


def kernel_of(
    func: tirx.PrimFunc, device: Device, bounds: Bounds, schemes: tuple[str, ...]
) -> StitchedKernel | ProductKernel | Refused:
    """The kernel that a fused PrimFunc becomes."""
    stages = read_stages(func)
    if isinstance(stages, Refused):
        return stages
    if is_view(stages):
        return VIEW
    return choose_kernel(stages, outputs_of(func, stages), device, bounds, schemes)


def check_emitted(
    programs: tuple[Program, ...], schedule: Schedule, device: Device
) -> Refused | None:
    """What the last look at a kernel will find, asked before there is a fused PrimFunc."""
    func = signature(b for program in programs for b in (*program.inputs, *program.outputs))
    return check_kernel(_emitted(func, programs, schedule, device), device)


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
