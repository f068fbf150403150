"""The whole way of kernel/: a fused PrimFunc or its stages in, the kernel out, or why not."""

from __future__ import annotations

from collections.abc import Sequence
from types import MappingProxyType

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.bounded_products import Limits
from tvm_stitch.kernel.attention.build import ATTENTION_ATTRIBUTE
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds
from tvm_stitch.kernel.implementations import IMPLEMENTATIONS
from tvm_stitch.kernel.ir.mapping import SCHEMES
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.kernel import Implementation, Kernel, Missing
from tvm_stitch.kernel.partition import make_programs
from tvm_stitch.kernel.scattered.order import SORT_ATTRIBUTE
from tvm_stitch.stages.op_pattern import is_view
from tvm_stitch.stages.read_stages import outputs_of, read_stages
from tvm_stitch.stages.stage import Refused, Stage, Var

# TVM makes a view of it later, unless it is scheduled.
VIEW = Refused("a view costs nothing")
# Of kernels that stand in a graph before it is planned.
_READY_MADE = (SORT_ATTRIBUTE, ATTENTION_ATTRIBUTE)


def is_emitted(func: tirx.PrimFunc) -> bool:
    """Whether a PrimFunc is a kernel that comes from here, written as CUDA."""
    emitted = (each.attribute for each in IMPLEMENTATIONS if not each.on_host)
    return any(attribute in func.attrs for attribute in (*emitted, *_READY_MADE))


def is_library_call(func: tirx.PrimFunc) -> bool:
    """Whether a PrimFunc calls a library, which launches the kernel."""
    return any(each.attribute in func.attrs for each in IMPLEMENTATIONS if each.on_host)


def read_programs(
    func: tirx.PrimFunc, schemes: Sequence[str] = SCHEMES, limits: Limits = MappingProxyType({})
) -> tuple[Program, ...] | Refused:
    """The Programs of a fused PrimFunc, one for each unrelated part."""
    stages = read_stages(func)
    if isinstance(stages, Refused):
        return stages
    return (
        VIEW
        if is_view(stages)
        else make_programs(stages, outputs_of(func, stages), schemes, limits)
    )


def choose_kernel(
    stages: tuple[Stage, ...],
    outputs: tuple[Var, ...],
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    schemes: Sequence[str] = SCHEMES,
    among: Sequence[Implementation] = IMPLEMENTATIONS,
) -> Kernel | Refused:
    """The kernel that computes stages and should be the fastest; of refusals the first.

    And, after it, what is missing of a library that could do it.
    """
    found = [each.choose(stages, outputs, device, bounds, schemes) for each in among]
    kernels = [each for each in found if not isinstance(each, Refused)]
    if len(kernels) > 1:
        return min(kernels, key=lambda kernel: kernel.cost_us)
    if kernels:
        return kernels[0]
    first, *others = (each for each in found if isinstance(each, Refused))
    missing = [each.reason for each in others if isinstance(each, Missing)]
    return Refused("; ".join([first.reason, *missing])) if missing else first


def kernel_of(
    func: tirx.PrimFunc,
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    schemes: Sequence[str] = SCHEMES,
) -> Kernel | Refused:
    """The kernel that a fused PrimFunc becomes."""
    stages = read_stages(func)
    if isinstance(stages, Refused):
        return stages
    if is_view(stages):
        return VIEW
    return choose_kernel(stages, outputs_of(func, stages), device, bounds, schemes)
