"""TVM's lowering of PrimFuncs, where its CUDA code generator does not see that vectors are aligned.

In: a module of PrimFuncs, the target, the names of the functions that kernel/ wrote, of those that
allocate just what they use, and of those whose arguments their caller checks. Out: the host's code
and the kernels, ready for code generation.

What only run time knows reaches a kernel as a parameter that the host computes: of `8 * ((n + 4095)
>> 12)` the kernel sees a name, not the 8. A vector that does not start at a multiple of its width
is taken element by element, by a vector of places: of int64 CUDA has none, and TVM fails. That
vectors of stitched kernels do start there has been proven (kernel/codegen/hazard_check).
"""

from __future__ import annotations

from collections.abc import Set

import tvm
from tvm import tirx
from tvm.tirx.build import split_host_device_mods

from tvm_stitch.stages.stage import constant
from tvm_stitch.stages.visit import mapped
from tvm_stitch.workarounds.few_checks import without_checks
from tvm_stitch.workarounds.quick_lowering import each_passed, passed


def lowered(
    tir: tvm.IRModule,
    target: tvm.target.Target,
    stitched: Set[str],
    exact: Set[str] = frozenset(),
    checked: Set[str] = frozenset(),
) -> tuple[tvm.target.Target, tvm.IRModule, dict[tvm.target.Target, tvm.IRModule]]:
    """The host's target and code, and the kernels by theirs: what tvm.tirx.build compiles."""
    host = target.host or tvm.target.Target("llvm" if tvm.runtime.enabled("llvm") else "c")
    bound = tvm.tirx.transform.BindTarget(target.with_host(host))(tir)
    pipeline, finish_host, finish_device = tvm.tirx.get_default_tir_pipeline(target)
    host_mod, device_mods = split_host_device_mods(passed(bound, pipeline, stitched, exact))
    host_mod = without_checks(host_mod, checked)
    devices = {
        each: with_aligned_vectors(each_passed(found, finish_device()), stitched)
        for each, found in device_mods.items()
    }
    return host, finish_host()(host_mod), devices


def function_of(kernel: str) -> str:
    """The function that a lowered kernel is of: they have its name, `_kernel` and a number."""
    return kernel.rpartition("_kernel")[0]


def with_aligned_vectors(mod: tvm.IRModule, stitched: Set[str]) -> tvm.IRModule:
    """The kernels of these functions with starts that are seen to be multiples of the width."""
    mod = mod.clone()
    for var, kernel in mod.functions_items():
        if function_of(var.name_hint) in stitched:
            body = mapped(kernel.body, (tirx.Ramp, _aligned))
            mod.update_func(var, tirx.PrimFunc(kernel.params, body, kernel.ret_type, kernel.attrs))
    return mod


def _aligned(ramp: tirx.Ramp) -> tirx.Ramp:
    lanes = constant(ramp.lanes)
    if lanes is None or lanes & lanes - 1 or constant(ramp.stride) != 1:
        return ramp
    modular = tvm.sym.Analyzer().modular_set(ramp.base)
    if modular.coeff % lanes == 0 and modular.base % lanes == 0:
        return ramp
    shift = tirx.IntImm(str(ramp.base.ty.dtype), lanes.bit_length() - 1)
    return tirx.Ramp(tirx.shift_right(ramp.base, shift) * lanes, ramp.stride, lanes)
