"""The helper that most tests of stitching are made of.

`check(case)` says: this graph becomes one kernel, and that kernel is right.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import tvm
from tvm import tirx
from zoo import Case

from tvm_stitch import Options, transform
from tvm_stitch.build import lowering_context, stitch_passes
from tvm_stitch.kernel.build import is_emitted, read_programs
from tvm_stitch.kernel.choose import NO_BOUNDS
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.stitched import SCHEDULE_ATTRIBUTE, StitchedKernel
from tvm_stitch.plan.plan import Fallback, Plan
from tvm_stitch.reference import reference
from tvm_stitch.stages.op_pattern import Pattern, classify
from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import Refused
from tvm_stitch.verify import Verification, compare, rounded, stitched_for_cpu

H200 = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
A100 = tvm.target.Target({"kind": "cuda", "arch": "sm_80"})
HALVES = ("float16", "bfloat16")
# Launches so dear that whatever one kernel can hold becomes one, even where two would be faster.
TOGETHER = Options(launch_us=100.0)
DTYPES = ("float32", *HALVES)
# How far the float64 evaluation may be from NumPy: constants such as an epsilon are float32.
REFERENCE = 1e-7


def check(
    case: Case,
    kernels: int | None = 1,
    orders: int = 3,
    target: tvm.target.Target = H200,
    options: Options | None = None,
) -> Verification:
    """The case becomes that many stitched kernels and no others, and they are right.

    Right means: no hazard in any thread order, and no element further from float64 than rounding
    explains, TVM's own kernels included. The
    float64 evaluation that `verify` compares with must itself be what the case's NumPy says.
    """
    module = stitched_for_cpu(case.module, target, options)
    functions = primfuncs_of(module)
    others = [name for name, function in functions.items() if not is_stitched_or_view(function)]
    kernel_names = [name for name, function in functions.items() if is_stitched(function)]
    if kernels is not None:
        assert (len(kernel_names), others) == (kernels, [])
    arrays = rounded(case.module, case.arrays)
    exact = reference(case.module, arrays)
    assert len(exact) == len(case.expected)
    for got, want in zip(exact, case.expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=REFERENCE, atol=REFERENCE)
    fast = options is not None and options.fast_math
    verified = compare(case.module, module, target, arrays, exact, orders, fast_math=fast)
    assert verified.ok, str(verified)
    assert set(verified.kernels) == set(kernel_names)
    return verified


def stitched(
    module: tvm.IRModule,
    target: tvm.target.Target = H200,
    options: Options | None = None,
    before: str = "",
    plans: list[Plan] | None = None,
) -> tvm.IRModule:
    """The module after the stitching passes, or as the pass `before` gets it."""
    with target:
        for each in stitch_passes(target, options, plans=plans, default_schedules=False):
            if each.info.name == before:
                break
            module = each(module)
    return module


def primfuncs(
    module: tvm.IRModule,
    target: tvm.target.Target = H200,
    options: Options | None = None,
    before: str = "",
) -> dict[str, tirx.PrimFunc]:
    """All PrimFuncs of the stitched module, before TVM schedules what is not stitched."""
    return primfuncs_of(stitched(module, target, options, before))


def primfuncs_of(module: tvm.IRModule) -> dict[str, tirx.PrimFunc]:
    """All PrimFuncs of a module."""
    return {
        var.name_hint: function
        for var, function in module.functions_items()
        if isinstance(function, tirx.PrimFunc)
    }


def is_stitched(function: tirx.PrimFunc) -> bool:
    return is_emitted(function)


def is_stitched_or_view(function: tirx.PrimFunc) -> bool:
    """Whether it is a stitched kernel, or a reshape, of which TVM makes no kernel at all."""
    stages = read_stages(function)
    is_view = not isinstance(stages, Refused) and classify(stages) is Pattern.RESHAPE
    return is_stitched(function) or is_view


def the_kernel(
    module: tvm.IRModule, target: tvm.target.Target = H200, options: Options | None = None
) -> tirx.PrimFunc:
    """The only kernel of a module."""
    (kernel,) = filter(is_stitched, primfuncs(module, target, options).values())
    return kernel


def cuda_of(kernel: tirx.PrimFunc, target: tvm.target.Target = H200, name: str = "main") -> str:
    """The CUDA source that TVM makes of a kernel, which it calls `name`_kernel."""
    module = tvm.IRModule({name: kernel.with_attr("global_symbol", name)})
    with lowering_context():
        built = tvm.tirx.build(module, target=tvm.target.Target(target, host="c"))
    return built.imports[0].inspect_source()


def schedule_of(kernel: tirx.PrimFunc) -> Schedule:
    """What the kernel says of its own layout."""
    return Schedule.from_json(str(kernel.attrs[SCHEDULE_ATTRIBUTE]))


def program_of(module: tvm.IRModule) -> Program:
    """The Program of a module that fuses into one PrimFunc of one part."""
    (function,) = primfuncs(module, before="StitchSchedule").values()
    programs = read_programs(function)
    assert isinstance(programs, tuple), programs
    (program,) = programs
    return program


def plan_of(
    module: tvm.IRModule, target: tvm.target.Target = H200, options: Options | None = None
) -> Plan:
    """What StitchOps decides on a module with one dataflow block."""
    plans: list[Plan] = []
    stitched(module, target, options, plans=plans)
    (plan,) = plans
    return plan


def fallbacks(
    module: tvm.IRModule, target: tvm.target.Target = H200, options: Options | None = None
) -> list[Fallback]:
    """The operators of a module that are not stitched, with the reason of each."""
    return list(plan_of(module, target, options).fallbacks)


def schedule_by(monkeypatch: pytest.MonkeyPatch, choose: Callable[..., Schedule | Refused]) -> None:
    """Has every stitched kernel scheduled by a function that takes what kernel/choose takes."""

    def kernel_of(function, *rest):
        programs = read_programs(function)
        schedule = programs if isinstance(programs, Refused) else choose(programs, *rest)
        if isinstance(programs, Refused) or isinstance(schedule, Refused):
            return schedule
        return StitchedKernel(rest[0], NO_BOUNDS, programs, schedule, schedule.parts)

    monkeypatch.setattr(transform, "kernel_of", kernel_of)
