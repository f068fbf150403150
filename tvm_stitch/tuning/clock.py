"""A clock for the planner: whole modules, compiled and timed by processes of their own.

In: a module of TIR calls and plans of it. Out: the time of every plan on this machine's GPU, by
CUDA events; or why there is none.
"""

from __future__ import annotations

import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import tvm
from tvm import relax

from tvm_stitch.device import device_of
from tvm_stitch.errors import InputError
from tvm_stitch.plan.measured import Time
from tvm_stitch.plan.saved import SavedPlan
from tvm_stitch.stages.stage import constant
from tvm_stitch.tuning.measuring.message import Message
from tvm_stitch.tuning.measuring.worker_process import Worker, WorkerLost, WorkerProcess

# Seconds. A module is many kernels; the first call of a process makes a CUDA context.
BUILD_SECONDS = 300.0
RUN_SECONDS = 180.0


class GpuClock:
    """Times modules on this machine's GPU."""

    def __init__(
        self, target: tvm.target.Target, schemes: tuple[str, ...], dependent_launch: bool = True
    ) -> None:
        _check_gpu(target)
        self._dependent_launch = dependent_launch
        self._target = tvm.ir.save_json(target)
        self._schemes = list(schemes)
        self._builders: list[WorkerProcess] = []  # one for each plan of a module
        self._worker = WorkerProcess()
        self._folder = tempfile.TemporaryDirectory(prefix="tvm_stitch_")

    def times(self, module: tvm.IRModule, plans: tuple[SavedPlan, ...]) -> list[Time]:
        """Compile by all plans at once, time one after the other."""
        if _is_symbolic(module):
            return [Time(None, "a dimension is symbolic") for _ in plans]
        text = tvm.ir.save_json(module)
        libraries = [
            str(Path(self._folder.name) / f"{number}.so") for number, _ in enumerate(plans)
        ]
        self._builders += [WorkerProcess() for _ in plans[len(self._builders) :]]
        builds = [
            self._build_message(text, plan, library)
            for plan, library in zip(plans, libraries, strict=True)
        ]
        with ThreadPoolExecutor(len(plans)) as threads:
            built = list(threads.map(_asked, self._builders, builds, [BUILD_SECONDS] * len(plans)))
        return [
            found
            if found.error
            else _asked(self._worker, _time_message(text, library), RUN_SECONDS)
            for found, library in zip(built, libraries, strict=True)
        ]

    def _build_message(self, module: str, plan: SavedPlan, library: str) -> Message:
        return {
            "do": "build_module",
            "module": module,
            "plan": plan.to_json(),
            "schemes": self._schemes,
            "dependent_launch": self._dependent_launch,
            "target": self._target,
            "library": library,
        }

    def close(self) -> None:
        """End all processes; their libraries go with them."""
        for child in (*self._builders, self._worker):
            child.close()
        self._folder.cleanup()


def _time_message(module: str, library: str) -> Message:
    return {"do": "time_module", "module": module, "library": library}


def _asked(worker: Worker, message: Message, seconds: float) -> Time:
    """What a process answers, or why it does not."""
    try:
        answer = worker.ask(message, seconds)
    except WorkerLost as lost:
        return Time(None, str(lost))
    return Time(answer.get("cost"), answer.get("error", ""))


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
