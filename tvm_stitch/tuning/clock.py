"""A clock for the planner: whole modules, compiled and timed by processes of their own.

In: a module of TIR calls and plans of it. Out: the time of every plan on this machine's GPU, by
CUDA events; or why there is none.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import tvm
from tvm import relax

from tvm_stitch.device import device_of
from tvm_stitch.errors import InputError
from tvm_stitch.kernel.stage import constant
from tvm_stitch.plan.measured import Time
from tvm_stitch.plan.saved import SavedPlan
from tvm_stitch.tuning.handler import Message
from tvm_stitch.tuning.measure import Outcome, Pool, asked, target_text
from tvm_stitch.tuning.seat import Child, Seat

# Seconds. A module is many kernels; the first call of a process makes a CUDA context.
BUILD_SECONDS = 300.0
RUN_SECONDS = 180.0
BUILDERS = 2


class GpuClock:
    """Times modules on this machine's GPU."""

    def __init__(self, target: tvm.target.Target, schemes: tuple[str, ...]) -> None:
        _check_gpu(target)
        self._target = target_text(target)
        self._schemes = list(schemes)
        self._builders = Pool([Child() for _ in range(BUILDERS)])
        self._seat = Child()
        self._folder = tempfile.TemporaryDirectory(prefix="tvm_stitch_")

    def times(self, module: tvm.IRModule, plans: tuple[SavedPlan, ...]) -> list[Time]:
        """Compile by all plans at once, time one after the other."""
        if _is_symbolic(module):
            return [Time(None, "a dimension is symbolic") for _ in plans]
        text = tvm.ir.save_json(module)
        libraries = [
            str(Path(self._folder.name) / f"{number}.so") for number, _ in enumerate(plans)
        ]
        waiting = [
            self._builders.submit(self._building(text, plan, library))
            for plan, library in zip(plans, libraries, strict=True)
        ]
        return [
            self._timed(text, library, wait())
            for library, wait in zip(libraries, waiting, strict=True)
        ]

    def _building(self, module: str, plan: SavedPlan, library: str) -> Callable[[Seat], Outcome]:
        message: Message = {
            "do": "build_module",
            "module": module,
            "plan": plan.to_json(),
            "schemes": self._schemes,
            "target": self._target,
            "library": library,
        }
        return lambda seat: asked(seat, message, BUILD_SECONDS)

    def _timed(self, module: str, library: str, built: Outcome) -> Time:
        if built.error:
            return Time(None, built.error)
        message = {"do": "time_module", "module": module, "library": library}
        found = asked(self._seat, message, RUN_SECONDS)
        return Time(found.cost, found.error)

    def close(self) -> None:
        """End all processes; their libraries go with them."""
        self._builders.close()
        self._seat.close()
        self._folder.cleanup()


def _check_gpu(target: tvm.target.Target) -> None:
    """Times hold for the GPU that is meant, or for none."""
    here = tvm.cuda(0)
    if not here.exist:
        raise InputError(
            "measure=True needs a GPU that TVM can use, and there is none here; without "
            "measure the cost model decides"
        )
    wanted = device_of(target).capability
    found = int(here.compute_version.replace(".", ""))
    if found != wanted:
        raise InputError(
            f"measure=True times kernels on this machine's GPU (sm_{found}), which is not the "
            f"target's sm_{wanted}; leave out measure to plan for another GPU"
        )


def _is_symbolic(module: tvm.IRModule) -> bool:
    parameters = module["main"].params
    bindings = (binding.var for block in module["main"].body.blocks for binding in block.bindings)
    types = [var.ty for var in (*parameters, *bindings) if isinstance(var.ty, relax.TensorType)]
    return any(constant(extent) is None for ty in types for extent in ty.shape.values)
