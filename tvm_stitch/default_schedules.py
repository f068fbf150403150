"""TVM's schedules for what is not stitched: the first DLight rule that takes a function.

In: a module of which some PrimFuncs are scheduled. Out: the module with all of them scheduled, or
StitchError with the name of one that no rule takes. A rule that fails on a function does not take
it. Knows no stitching.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx
from tvm.s_tir import dlight

from tvm_stitch.errors import StitchError, last_line
from tvm_stitch.target import plain_target

# So that it comes out of TVM's pass infrastructure as what it was.
tvm_ffi.register_error("StitchError", StitchError)

_SCHEDULED = "tirx.is_scheduled"


def default_rules() -> list[Any]:
    """The DLight rules of TVM's CUDA pipeline; the last takes nearly everything."""
    gpu = dlight.gpu
    return [gpu.Matmul(), gpu.GEMV(), gpu.Reduction(), gpu.GeneralReduction(), gpu.Fallback()]


def DefaultSchedules(target: tvm.target.Target) -> tvm.transform.Pass:
    """TVM's schedules for the functions that have none."""
    plain = plain_target(target)

    @tvm.transform.module_pass(opt_level=0, name="DefaultSchedules")
    def schedule(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        mod = mod.clone()
        with plain:
            for var, function in mod.functions_items():
                attributes = getattr(function, "attrs", None) or {}
                if isinstance(function, tirx.PrimFunc) and not attributes.get(_SCHEDULED, False):
                    scheduled = _scheduled(var.name_hint, function, plain)
                    if scheduled is not None:
                        mod.update_func(var, scheduled.with_attr(_SCHEDULED, True))
        return mod

    return schedule


def _scheduled(
    name: str, function: tirx.PrimFunc, target: tvm.target.Target
) -> tirx.PrimFunc | None:
    """The function as the first rule has it that takes it; None if all decline and none fails."""
    meant = function.attrs.get("target") or target
    failed: Exception | None = None
    for rule in default_rules():
        try:
            found = rule.apply(function, meant, False)
        except Exception as error:  # rules fail in many ways on shapes they were not made for
            failed = error
            continue
        if found is not None:
            (one,) = [found] if isinstance(found, s_tir.Schedule) else found
            return one.mod["main"]
    if failed is not None:
        raise StitchError(
            f"none of TVM's schedules fits the operator {name}: {last_line(failed)}. Compile the "
            "model without it, or give it a schedule of your own as a tirx.is_scheduled function."
        ) from failed
    return None
