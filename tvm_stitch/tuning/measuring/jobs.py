"""Jobs: what measuring a schedule asks of a worker, wherever it is.

In: a Task (a workload and its default schedule) and Schedules. Out: Jobs, which any worker can do,
each with an Outcome for every schedule of it. Runners decide which worker does which job.
"""

from __future__ import annotations

import json
import statistics
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cached_property

import tvm

from tvm_stitch.tuning.measuring.library import Library, Outcome
from tvm_stitch.tuning.measuring.message import Message
from tvm_stitch.tuning.measuring.worker_process import Worker, WorkerLost
from tvm_stitch.tuning.workload import Layout, Workload

# Seconds. Starting a process means importing TVM; the first launch means making a CUDA context.
START_SECONDS = 120.0
RUN_SECONDS = 30.0
COUNT_SECONDS = 300.0


@dataclass(frozen=True)
class Job:
    """Something that any worker can do: the outcomes of so many schedules."""

    size: int
    do: Callable[[Worker], list[Outcome]]

    def failed(self, reason: str) -> list[Outcome]:
        """The outcomes where it cannot be done."""
        return failures(self.size, reason)


def failures(size: int, reason: str) -> list[Outcome]:
    """No cost for any of so many schedules."""
    return [Outcome(None, reason)] * size


GpuLock = Callable[[], AbstractContextManager[object]]  # while a GPU is used by one process alone


@dataclass(frozen=True)
class Task:
    """A workload to be measured, and the schedule that others are compared with."""

    workload: Workload
    target: tvm.target.Target
    reference: Layout

    @cached_property
    def message(self) -> Message:
        """What a worker must know of it."""
        return {
            "do": "workload",
            "function": tvm.ir.save_json(self.workload.function),
            "target": json.dumps(dict(self.target.export()), default=_plain),
            "reference": self.reference.to_json(),
        }

    @property
    def key(self) -> str:
        """Equal for tasks that workers need not tell apart."""
        return self.workload.key


class Best:
    """The least cost so far: what is much slower may be given up early."""

    def __init__(self, cost: float | None) -> None:
        self.cost = cost

    def add(self, cost: float | None) -> None:
        """One more."""
        known = [each for each in (self.cost, cost) if each is not None]
        self.cost = min(known, default=None)


def _plain(value: object) -> object:
    """TVM's containers as JSON's."""
    return list(value) if isinstance(value, tvm.ir.Array) else str(value)


def asked(worker: Worker, message: Message, seconds: float) -> Outcome:
    """One message as an outcome: a lost process has its reason, too."""
    answer = _answer(worker, message, seconds)
    return Outcome(answer.get("cost"), answer.get("error", ""))


def _answer(worker: Worker, message: Message, seconds: float) -> Message:
    try:
        return worker.ask(message, seconds)
    except WorkerLost as lost:
        return {"error": str(lost)}


def prepare(worker: Worker, task: Task) -> Outcome:
    """Have a worker know the task."""
    if worker.prepared.startswith(task.key):
        return Outcome(None)
    worker.prepared = ""
    found = asked(worker, task.message, START_SECONDS)
    if not found.error:
        worker.prepared = task.key
    return found


def _prepare_reference(worker: Worker, task: Task, base: Library) -> Outcome:
    """Have a worker that knows the task run the default schedule, for its outputs."""
    ready = f"{task.key} with the default schedule's outputs"
    if worker.prepared == ready:
        return Outcome(None)
    found = asked(worker, {"do": "reference", "library": worker.put(base.path)}, START_SECONDS)
    if found.error:
        worker.prepared = ""
        return Outcome(None, f"the default schedule failed: {found.error}")
    worker.prepared = ready
    return found


def counting(task: Task, schedule: Layout) -> Job:
    """Have the CPU executor count a schedule's accesses to memory."""

    def do(worker: Worker) -> list[Outcome]:
        question = {"do": "count", "schedule": schedule.to_json()}
        found = prepare(worker, task)
        return [found if found.error else asked(worker, question, COUNT_SECONDS)]

    return Job(1, do)


def timing(
    task: Task, base: Library, schedule: Layout, library: Library, best: Best, gpu_lock: GpuLock
) -> Job:
    """Have a GPU time a library that is compiled here, and compare what it computes."""

    def do(worker: Worker) -> list[Outcome]:
        missing = _missing(base, library) or prepare(worker, task).error
        if missing:
            return [Outcome(None, missing)]
        path = worker.put(library.path)
        question = {"do": "run", **_named(path, schedule), "best": best.cost}
        with gpu_lock():
            found = _prepare_reference(worker, task, base)
            if not found.error:
                found = asked(worker, question, RUN_SECONDS)
        if not found.error:
            wrong = asked(worker, {"do": "compare"}, RUN_SECONDS)
            found = wrong if wrong.error else found
        best.add(found.cost)
        return [found]

    return Job(1, do)


def racing(
    task: Task,
    base: Library,
    schedules: Sequence[Layout],
    libraries: Sequence[Library],
    gpu_lock: GpuLock,
) -> Job:
    """Have one GPU time several libraries interleaved, so that small differences show.

    One that crashes or hangs takes the others with it: each then runs beside the first alone.
    """

    def do(worker: Worker) -> list[Outcome]:
        missing = _missing(base, *libraries)
        if missing:
            return failures(len(schedules), missing)
        paths = [worker.put(library.path) for library in libraries]
        runners = [_named(path, each) for path, each in zip(paths, schedules, strict=True)]
        with gpu_lock():
            together = _race(worker, task, base, runners)
            if len(runners) < 3 or not together[0].error:
                return together
            return _beside_first([_race(worker, task, base, [runners[0], o]) for o in runners[1:]])

    return Job(len(schedules), do)


def _race(worker: Worker, task: Task, base: Library, runners: list[Message]) -> list[Outcome]:
    ready = prepare(worker, task)
    found = ready if ready.error else _prepare_reference(worker, task, base)
    if found.error:
        return failures(len(runners), found.error)
    answer = _answer(worker, {"do": "race", "runners": runners}, RUN_SECONDS)
    if "error" in answer:
        return failures(len(runners), answer["error"])
    return [Outcome(cost) for cost in answer["costs"]]


def _beside_first(pairs: Sequence[Sequence[Outcome]]) -> list[Outcome]:
    """Outcomes of races with the same first one, as if all had run together."""
    costs = [first.cost for first, _ in pairs if first.cost]
    if not costs:
        return [pairs[0][0], *(other for _, other in pairs)]
    usual = statistics.median(costs)
    others = [
        Outcome(usual * other.cost / first.cost) if first.cost and other.cost else other
        for first, other in pairs
    ]
    return [Outcome(usual), *others]


def _named(path: str, schedule: Layout) -> Message:
    return {"library": path, "schedule": schedule.to_json()}


def _missing(base: Library, *libraries: Library) -> str:
    """Why one of them could not be compiled; waits for all."""
    if base.wait().error:
        return f"the default schedule failed: {base.wait().error}"
    return next((each.wait().error for each in libraries if each.wait().error), "")
