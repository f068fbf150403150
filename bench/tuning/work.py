"""One case of a tuning run: its kernels are searched, or measured as a whole.

In: a task, a runner, a folder. Out: records and kernels in the folder as they come: what was
measured when the time is up, or when something breaks, is kept.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm

from bench.case import Case
from bench.importing import module_of
from bench.tuning.folder import CONFIRMED, EXHAUSTIVE, Folder, Kernel
from bench.tuning.spaces import find
from tvm_stitch.errors import StitchError
from tvm_stitch.stages.stage import Refused
from tvm_stitch.tuning.measuring.measure import Runner
from tvm_stitch.tuning.records import best_first
from tvm_stitch.tuning.search import Trial
from tvm_stitch.tuning.tune import record_of, tune
from tvm_stitch.tuning.workload import Layout, Workload
from tvm_stitch.tuning.workloads import find_workloads

CHUNK = 32
LARGEST_EXHAUSTED = 2000


@dataclass(frozen=True)
class Task:
    """A case whose kernels are searched, or a share of all their schedules to be measured."""

    case: str
    share: int = 0
    shares: int = 0  # of all schedules; 0: a search

    def __str__(self) -> str:
        return f"{self.case}, {self.share + 1}/{self.shares} of all" if self.shares else self.case


class _OutOfTime(Exception):
    """The time is up; what was measured so far is in the stores."""


class Work:
    """Does tasks with one runner."""

    def __init__(
        self,
        folder: Folder,
        target: tvm.target.Target,
        runner: Runner,
        trials: int,
        deadline: float,
        small: bool,
        log: Callable[[str], None],
    ) -> None:
        self.folder, self.target, self.runner, self.log = folder, target, runner, log
        self.trials, self.deadline, self.small = trials, deadline, small

    def do(self, task: Task) -> bool:
        """One task; whether all of it was done. Whatever goes wrong stays with it."""
        started = time.monotonic()
        try:
            self._in_time()
            complete = self._do(task)
        except _OutOfTime:
            self.log(f"{task}: the time is up")
            return False
        except StitchError as error:
            self.log(f"{task}: {error}")
            return False
        except Exception:
            self.log(f"{task}: {traceback.format_exc()}")
            return False
        self.log(f"{task}: done in {time.monotonic() - started:.0f} s")
        return complete

    def _do(self, task: Task) -> bool:
        case = find(task.case)
        module = module_of(case.workload(self.small))
        workloads = find_workloads(module, self.target).workloads
        kernels = [_kernel_of(case, workload) for workload in workloads]
        self.folder.add_kernels(case.name, kernels)
        self.log(f"{task}: spaces of {', '.join(str(kernel.space) for kernel in kernels)}")
        if not task.shares:
            return self._tune(case, module, workloads)
        for kernel, workload in zip(kernels, workloads, strict=True):
            if kernel.space <= LARGEST_EXHAUSTED:
                self._exhaust(kernel, workload, task)
        return True

    def _in_time(self) -> None:
        if time.time() > self.deadline:
            raise _OutOfTime

    def _tune(self, case: Case, module: Any, workloads: tuple[Workload, ...]) -> bool:
        tuning = tune(
            module,
            self.target,
            self.folder.searches(case.name).path,
            trials=self.trials,
            runner=self.runner,
            progress=lambda _state: self._in_time(),
        )
        for kernel in tuning.kernels:
            if kernel.why:
                self.log(f"{case.name}: {kernel.title}: {kernel.why}")
            else:
                self.log(
                    f"{case.name}: {kernel.analytic:.6g} -> {kernel.best:.6g} {kernel.unit} "
                    f"({kernel.gain:.3f}), {kernel.trials} trials, {kernel.failed} failed, "
                    f"{kernel.title}"
                )
        for workload in workloads:
            self._confirm(case, workload)
        return not any(kernel.why for kernel in tuning.kernels)

    def _confirm(self, case: Case, workload: Workload) -> None:
        """Measure the winner once more: what won by luck does not win twice."""
        store = self.folder.confirmed(case.name)
        known = {record.workload for record in store.read().records}
        records = self.folder.searches(case.name).read().records
        ranked = best_first([r for r in records if r.workload == workload.key])
        if not ranked or ranked[0].trial == 0 or workload.key in known:
            return
        self._in_time()
        best, analytic = ranked[0], _chosen(workload)
        pair = [analytic, best.schedule]
        outcomes = self.runner.measure(workload, pair, analytic, careful=True)
        numbered = zip((0, best.trial), pair, outcomes, strict=True)
        trials = [Trial(*each, final=True) for each in numbered]
        store.append(record_of(self.runner, workload, trial, CONFIRMED) for trial in trials)

    def _exhaust(self, kernel: Kernel, workload: Workload, task: Task) -> None:
        """Measure a share of all schedules of a kernel; the analytic choice is the first of all."""
        analytic = _chosen(workload)
        space = workload.space()
        wanted = list(dict.fromkeys([analytic, *(point.schedule for point in space)]))
        store = self.folder.exhausted(kernel.case)
        own = [record for record in store.read().records if record.workload == kernel.key]
        known = {record.schedule for record in own}
        best = min((record.cost for record in own if record.cost is not None), default=None)
        mine = list(enumerate(wanted))[task.share :: task.shares]
        left = [each for each in mine if each[1] not in known]
        for start in range(0, len(left), CHUNK):
            self._in_time()
            numbers, chunk = zip(*left[start : start + CHUNK], strict=True)
            outcomes = self.runner.measure(workload, chunk, analytic, False, best)
            trials = map(Trial, numbers, chunk, outcomes)
            store.append(record_of(self.runner, workload, t, EXHAUSTIVE) for t in trials)
            costs = [best, *(outcome.cost for outcome in outcomes)]
            best = min((cost for cost in costs if cost is not None), default=None)
        self.log(f"{task}: {len(mine)} of {len(wanted)} schedules measured, {kernel.title}")


def _kernel_of(case: Case, workload: Workload) -> Kernel:
    space = workload.space()
    return Kernel(
        case.name,
        case.group,
        workload.key,
        workload.title,
        space.size,
        workload.floor_us,
        tvm.ir.save_json(workload.function),
    )


def _chosen(workload: Workload) -> Layout:
    analytic = workload.choose()
    assert not isinstance(analytic, Refused), "a workload has an analytic choice"
    return analytic
