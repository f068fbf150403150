"""What TVM's default pipeline makes of the same module: its kernels, and what is between them.

In: a Relax module, before any pass. Out: Before, made on demand, also where TVM refuses the module.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tvm
from tvm import tirx
from tvm.relax.backend.cuda import pipeline as cuda_pipeline
from tvm.s_tir import dlight

from tvm_stitch.device import Device
from tvm_stitch.errors import StitchError, first_line
from tvm_stitch.report.data import TVMS_PIPELINE, Before, Source
from tvm_stitch.report.findings.kernels import kernels_by_function, places
from tvm_stitch.report.findings.launches import flow
from tvm_stitch.report.findings.notes import Listener, Notes
from tvm_stitch.stages.extents import Extents
from tvm_stitch.timing import stage
from tvm_stitch.tvm_default.default_schedules import MOST_LOADS, default_rules, inlined_loads

WHY = "TVM's own fusion"
_SCHEDULES = "ApplyDefaultSchedule"  # fails as a whole where a rule fails on one function


class _WhereItFits(dlight.ScheduleRule):
    """A rule of DLight; where it fails, as on a bias added to a product, the next one tries."""

    def __init__(self, rule: dlight.ScheduleRule) -> None:
        super().__init__()
        self.rule = rule

    def apply(self, func: tirx.PrimFunc, target: tvm.target.Target, tunable: bool) -> Any:
        """What the rule makes of a function, if anything."""
        try:
            return self.rule.apply(func, target, tunable)
        except Exception:  # rules fail in many ways on shapes they were not made for
            return None


class _NoneWithoutEnd(dlight.ScheduleRule):
    """Takes no function, and lets nobody take one that would keep all rules busy."""

    def apply(self, func: tirx.PrimFunc, _target: tvm.target.Target, _tunable: bool) -> None:
        """An error where an element would be computed of too many."""
        loads = inlined_loads(func)
        if loads > MOST_LOADS:
            raise StitchError(f"an element would be computed of {loads:,} loads")


@dataclass(frozen=True, eq=False)
class ByDefault:
    """What TVM's default pipeline makes of a module; called, it says so."""

    mod: tvm.IRModule
    cuda: tvm.target.Target
    device: Device
    extents: Extents
    sources: Sequence[Source]  # the module's operators

    def __call__(self) -> Before:
        """The kernels of TVM's default pipeline; found once."""
        return self._before

    @cached_property
    def _before(self) -> Before:
        start = time.perf_counter()
        with stage(TVMS_PIPELINE):
            found = self._found()
        return replace(found, seconds=time.perf_counter() - start)

    def _found(self) -> Before:
        legal = cuda_pipeline.legalize_passes(self.cuda)
        passes = [
            *cuda_pipeline.library_dispatch_passes(self.cuda),
            *(each for each in legal if each.info.name != _SCHEDULES),
            dlight.ApplyDefaultSchedule(_NoneWithoutEnd(), *map(_WhereItFits, default_rules())),
            *cuda_pipeline.dataflow_lower_passes(self.cuda),
        ]
        notes = Notes(sources=tuple(self.sources))
        listener = Listener(notes)
        context = tvm.transform.PassContext(opt_level=3, instruments=[listener])
        try:
            with self.cuda, context:
                lowered = tvm.transform.Sequential(passes)(self.mod)
        except Exception as error:
            return Before(None, None, f"{first_line(error)} in its pass {listener.running}")
        found = kernels_by_function(lowered, notes, self.device, self.extents)
        kernels = tuple(replace(kernel, why=WHY) for each in found.values() for kernel in each)
        launches = sum(kernel.launches for kernel in kernels)
        between = flow(notes.calls, kernels, places(found), (), self.extents)
        return Before(len(kernels), launches, "", kernels, between)
