"""Searches kernels on a GPU, several cases at once, until the time is up.

In: names of cases and a folder. Out: records and kernels in the folder, as they come: what was
measured when the time is up, or when something breaks, is kept.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm

from bench.cases import suite
from bench.tuning import kernels
from tvm_stitch.errors import StitchError
from tvm_stitch.kernel.choose import choose
from tvm_stitch.kernel.stage import Refused
from tvm_stitch.tuning.measure import LocalRunner, Runner, SimtRunner
from tvm_stitch.tuning.progress import State
from tvm_stitch.tuning.search import Trial
from tvm_stitch.tuning.space import Space
from tvm_stitch.tuning.store import Store
from tvm_stitch.tuning.tune import record_of, tune

RECORDS = "records.jsonl"
EXHAUSTIVE = "exhaustive.jsonl"
EXHAUSTIVE_SEED = -1
CHUNK = 32
LARGEST_EXHAUSTED = 2000


@dataclass(frozen=True)
class Plan:
    """What to measure, and for how long."""

    folder: Path
    cases: Sequence[str]
    trials: int = 64
    seconds: float = 540.0
    runner: str = "local"
    jobs: int | None = None
    at_once: int = 6
    small: bool = False
    exhaustive: bool = False


class _OutOfTime(Exception):
    """The time is up; what was measured so far is in the store."""


def run(plan: Plan, log: Callable[[str], None] = print) -> bool:
    """Measure; whether everything was."""
    plan.folder.mkdir(parents=True, exist_ok=True)
    target = _target()
    runner = _runner(plan, target)
    work = _Work(plan, target, runner, log)
    try:
        groups = {case.name: case.group for case in suite("all")}
        processes = max(1, min(8, plan.jobs or 8, len(plan.cases)))
        with ThreadPoolExecutor(plan.at_once) as threads:
            for loaded in kernels.load_cases(list(plan.cases), plan.small, processes):
                if loaded.error:
                    log(f"{loaded.case}: cannot be read: {loaded.error}")
                    work.complete = False
                    continue
                threads.submit(work.case, loaded.case, groups[loaded.case], loaded.module)
                if work.is_late:
                    log("the time is up; cases that were not read yet are left out")
                    work.complete = False
                    break
    finally:
        runner.close()
    return work.complete


def _target() -> tvm.target.Target:
    if tvm.cuda(0).exist:
        return tvm.target.Target.from_device(tvm.cuda(0))
    return tvm.target.Target({"kind": "cuda", "arch": "sm_90"})


def _runner(plan: Plan, target: tvm.target.Target) -> Runner:
    if plan.runner == "simt":
        return SimtRunner(target, plan.jobs)
    return LocalRunner(target, plan.jobs, plan.at_once)


class _Work:
    """The cases of one run; its methods are called by several threads."""

    def __init__(
        self, plan: Plan, target: tvm.target.Target, runner: Runner, log: Callable[[str], None]
    ) -> None:
        self.plan, self.target, self.runner, self.log = plan, target, runner, log
        self.complete = True
        self._deadline = time.monotonic() + plan.seconds
        self._writing = threading.Lock()
        self._exhausted: set[str] = set()

    def case(self, name: str, group: str, text: str) -> None:
        """One case; whatever goes wrong with it stays with it."""
        started = time.monotonic()
        try:
            self._in_time()
            module = tvm.ir.load_json(text)
            found = kernels.kernels_of(name, group, module, self.target)
            with self._writing:
                kernels.write(self.plan.folder, [kernel for kernel, _ in found])
            if self.plan.exhaustive:
                for kernel, workload in found:
                    self._exhaust(kernel, workload)
            else:
                self._tune(name, module)
        except _OutOfTime:
            self.log(f"{name}: the time is up")
            self.complete = False
        except StitchError as error:
            self.log(f"{name}: {error}")
            self.complete = False
        except Exception:
            self.log(f"{name}: {traceback.format_exc()}")
            self.complete = False
        else:
            self.log(f"{name}: done in {time.monotonic() - started:.0f} s")

    @property
    def is_late(self) -> bool:
        """Whether the time is up."""
        return time.monotonic() > self._deadline

    def _in_time(self, state: State | None = None) -> None:
        if self.is_late:
            raise _OutOfTime

    def _tune(self, name: str, module: Any) -> None:
        tuning = tune(
            module,
            self.target,
            self.plan.folder / RECORDS,
            trials=self.plan.trials,
            runner=self.runner,
            progress=self._in_time,
        )
        for kernel in tuning.kernels:
            if kernel.why:
                self.log(f"{name}: {kernel.title}: {kernel.why}")
                self.complete = False
            else:
                self.log(
                    f"{name}: {kernel.analytic:.6g} -> {kernel.best:.6g} {kernel.unit} "
                    f"({kernel.gain:.3f}), {kernel.trials} trials, {kernel.failed} failed, "
                    f"{kernel.title}"
                )

    def _exhaust(self, kernel: kernels.Kernel, workload: Any) -> None:
        """Measure all schedules of a kernel, the analytic choice first."""
        with self._writing:
            if kernel.space > LARGEST_EXHAUSTED or kernel.key in self._exhausted:
                return
            self._exhausted.add(kernel.key)
        analytic = choose(workload.programs, workload.device, workload.bounds)
        assert not isinstance(analytic, Refused)
        space = Space(workload.programs, workload.groups, workload.device, workload.bounds)
        wanted = list(dict.fromkeys([analytic, *(point.schedule for point in space)]))
        store = Store(self.plan.folder / EXHAUSTIVE)
        known = {
            record.schedule for record in store.read().records if record.workload == kernel.key
        }
        best: float | None = None
        for start in range(0, len(wanted), CHUNK):
            self._in_time()
            chunk = [
                schedule for schedule in wanted[start : start + CHUNK] if schedule not in known
            ]
            outcomes = self.runner.measure(workload, chunk, analytic, False, best) if chunk else []
            trials = [
                Trial(wanted.index(schedule), schedule, outcome)
                for schedule, outcome in zip(chunk, outcomes, strict=True)
            ]
            records = [record_of(self.runner, workload, t, EXHAUSTIVE_SEED) for t in trials]
            store.append(records)
            costs = [best, *(outcome.cost for outcome in outcomes)]
            best = min((cost for cost in costs if cost is not None), default=None)
        self.log(f"{kernel.case}: all {len(wanted)} schedules measured, {kernel.title}")


def selected(patterns: Sequence[str] | None, suite_name: str) -> list[str]:
    """Names of the cases that match."""
    from fnmatch import fnmatch

    cases = suite(suite_name)
    if not patterns:
        return [case.name for case in cases]
    return [
        case.name
        for case in cases
        if any(fnmatch(case.name, p) or fnmatch(case.group, p) for p in patterns)
    ]
