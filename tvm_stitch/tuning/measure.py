"""Measuring schedules of a workload, each in a process that it may take down with it.

In: a Workload and Schedules. Out: an Outcome for each, in the same order. Three runners:

    local   compiled by several processes, timed one after the other by another one on this
            machine's GPU
    rpc     the same on the GPUs that a TVM RPC tracker knows of (see rpc)
    simt    counted by the CPU executor: a measure without a GPU
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import Queue
from typing import Protocol

import tvm

from tvm_stitch import simt
from tvm_stitch.errors import CompilerMissing, InputError
from tvm_stitch.kernel.schedule import Schedule
from tvm_stitch.tuning import gpu
from tvm_stitch.tuning.handler import Message
from tvm_stitch.tuning.records import UNITS
from tvm_stitch.tuning.seat import Child, Lost, Seat
from tvm_stitch.tuning.workload import Workload

MICROSECONDS, ACCESSES = UNITS
HOW_COUNTED = "memory accesses on the CPU executor"
# Seconds. Starting a process means importing TVM; the first launch means making a CUDA context.
START_SECONDS = 120.0
BUILD_SECONDS = 90.0
RUN_SECONDS = 30.0
COUNT_SECONDS = 300.0
MOST_BUILDERS = 32


@dataclass(frozen=True)
class Outcome:
    """What measuring a schedule gave: a cost, or why there is none."""

    cost: float | None
    error: str = ""


class Runner(Protocol):
    """Measures schedules."""

    unit: str  # what the costs count
    how: str  # how they come about, for people

    def gpu_name(self, workload: Workload) -> str:
        """The GPU that the costs hold for."""

    def measure(
        self,
        workload: Workload,
        schedules: Sequence[Schedule],
        reference: Schedule,
        careful: bool = False,
        best: float | None = None,
    ) -> list[Outcome]:
        """The outcome of every schedule; outputs are compared with the reference's.

        `careful` takes more time for steadier costs; with `best`, a schedule that is much slower
        may be given up early.
        """

    def close(self) -> None:
        """End all processes."""


def workload_message(workload: Workload, target: tvm.target.Target, reference: Schedule) -> Message:
    """What a Handler must know of a workload."""
    return {
        "do": "workload",
        "function": tvm.ir.save_json(workload.function),
        "target": json.dumps(dict(target.export()), default=_plain),
        "reference": reference.to_json(),
    }


def run_message(schedule: Schedule, library: str, careful: bool, best: float | None) -> Message:
    """Have a library timed that was built by a schedule."""
    text = schedule.to_json()
    return {"do": "run", "library": library, "schedule": text, "careful": careful, "best": best}


def _plain(value: object) -> object:
    """TVM's containers as JSON's."""
    return list(value) if isinstance(value, tvm.ir.Array) else str(value)


def asked(seat: Seat, message: Message, seconds: float) -> Outcome:
    """One message as an outcome: a lost process has its reason, too."""
    try:
        answer = seat.ask(message, seconds)
    except Lost as lost:
        return Outcome(None, str(lost))
    if "error" in answer:
        return Outcome(None, answer["error"])
    return Outcome(answer.get("cost"))


class Pool:
    """Seats that take turns at work."""

    def __init__(self, seats: Sequence[Seat]) -> None:
        self.seats = tuple(seats)
        self._free: Queue[Seat] = Queue()
        for seat in seats:
            self._free.put(seat)
        self._threads = ThreadPoolExecutor(len(seats))

    def submit(self, work: Callable[[Seat], Outcome]) -> Callable[[], Outcome]:
        """Have some seat do the work; what is returned waits for the outcome."""

        def run() -> Outcome:
            seat = self._free.get()
            try:
                return work(seat)
            finally:
                self._free.put(seat)

        return self._threads.submit(run).result

    def stop(self) -> None:
        """Take no more work; the seats stay."""
        self._threads.shutdown(wait=True, cancel_futures=True)

    def close(self) -> None:
        """End all processes, whatever they are at."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for seat in self.seats:
            seat.close()
        self.stop()


def prepare(seat: Seat, message: Message, key: str, library: str = "") -> Outcome:
    """Have a seat know the workload, and the reference's outputs where a library has them."""
    if seat.prepared == key:
        return Outcome(None)
    seat.prepared = ""
    found = asked(seat, message, START_SECONDS)
    if library and not found.error:
        question = {"do": "reference", "library": seat.put(library)}
        found = asked(seat, question, START_SECONDS)
        if found.error:
            found = Outcome(None, f"the default schedule failed: {found.error}")
    if not found.error:
        seat.prepared = key
    return found


@dataclass(frozen=True)
class Library:
    """A schedule that is being compiled."""

    path: str
    wait: Callable[[], Outcome]  # until it is there, or could not be compiled


class Builder:
    """Compiles schedules into libraries, several at once. Needs no GPU."""

    def __init__(self, target: tvm.target.Target, jobs: int) -> None:
        self._pool = Pool([Child() for _ in range(jobs)])
        self._target = target
        self._folder = tempfile.TemporaryDirectory(prefix="tvm_stitch_")
        self._count = 0
        self._lock = threading.Lock()

    def start(self, workload: Workload, schedule: Schedule) -> Library:
        """Have some process compile it."""
        with self._lock:
            self._count += 1
            path = str(Path(self._folder.name) / f"{self._count}.so")
        message = workload_message(workload, self._target, schedule)
        build = {"do": "build", "schedule": schedule.to_json(), "library": path}

        def work(seat: Seat) -> Outcome:
            found = prepare(seat, message, workload.key)
            return found if found.error else asked(seat, build, BUILD_SECONDS)

        return Library(path, self._pool.submit(work))

    def close(self) -> None:
        """End all compilers; their libraries go with them."""
        self._pool.close()
        self._folder.cleanup()


class LocalRunner:
    """Times schedules on this machine's GPU.

    Several threads may measure a workload each, `at_once` of them without waiting for one another
    to compile; the GPU itself is taken in turns.
    """

    unit, how = MICROSECONDS, gpu.HOW

    def __init__(
        self, target: tvm.target.Target, jobs: int | None = None, at_once: int = 1
    ) -> None:
        if not tvm.cuda(0).exist:
            raise InputError(
                "there is no GPU here that TVM can use; measure on other machines with "
                'runner="rpc", or count memory accesses on the CPU with runner="simt"'
            )
        self._target = target
        self._builder = Builder(target, jobs_or_cores(jobs))
        self._seats = [Child() for _ in range(at_once)]
        self._idle = list(self._seats)
        self._change = threading.Condition()
        self._turn = threading.Lock()
        self._references: dict[str, Library] = {}

    def gpu_name(self, workload: Workload) -> str:
        """This machine's GPU."""
        return workload.device.name

    def measure(
        self,
        workload: Workload,
        schedules: Sequence[Schedule],
        reference: Schedule,
        careful: bool = False,
        best: float | None = None,
    ) -> list[Outcome]:
        """Compile all, time one after the other."""
        message = workload_message(workload, self._target, reference)
        if workload.key not in self._references:
            self._references[workload.key] = self._builder.start(workload, reference)
        base = self._references[workload.key]
        libraries = [self._builder.start(workload, schedule) for schedule in schedules]
        if base.wait().error:
            reason = f"the default schedule failed: {base.wait().error}"
            return [Outcome(None, reason) for _ in schedules]
        outcomes = []
        with self._seat(workload.key) as seat:
            for schedule, library in zip(schedules, libraries, strict=True):
                outcome = library.wait()
                if not outcome.error:
                    run = run_message(schedule, library.path, careful, best)
                    with self._turn:
                        outcome = prepare(seat, message, workload.key, base.path)
                        if not outcome.error:
                            outcome = asked(seat, run, RUN_SECONDS)
                Path(library.path).unlink(missing_ok=True)
                outcomes.append(outcome)
                if outcome.cost is not None:
                    best = outcome.cost if best is None else min(best, outcome.cost)
        return outcomes

    @contextmanager
    def _seat(self, key: str) -> Iterator[Seat]:
        """A seat for one thread: the one that knows the workload, if it is idle."""
        with self._change:
            while not self._idle:
                self._change.wait()
            seat = next((each for each in self._idle if each.prepared == key), self._idle[0])
            self._idle.remove(seat)
        try:
            yield seat
        finally:
            with self._change:
                self._idle.append(seat)
                self._change.notify()

    def close(self) -> None:
        """End all processes."""
        for seat in self._seats:
            seat.close()
        self._builder.close()


class SimtRunner:
    """Counts the memory accesses of schedules on the CPU executor."""

    unit, how = ACCESSES, HOW_COUNTED

    def __init__(self, target: tvm.target.Target, jobs: int | None = None) -> None:
        missing = simt.available()
        if missing is not None:
            raise CompilerMissing(missing)
        self._target = target
        self._pool = Pool([Child() for _ in range(jobs_or_cores(jobs))])

    def gpu_name(self, workload: Workload) -> str:
        """The GPU that the schedules are legal for."""
        return workload.device.name

    def measure(
        self,
        workload: Workload,
        schedules: Sequence[Schedule],
        reference: Schedule,
        careful: bool = False,
        best: float | None = None,
    ) -> list[Outcome]:
        """Compile and count, several at once."""
        message = workload_message(workload, self._target, reference)

        def counting(schedule: Schedule) -> Callable[[Seat], Outcome]:
            count = {"do": "count", "schedule": schedule.to_json()}

            def work(seat: Seat) -> Outcome:
                found = prepare(seat, message, workload.key)
                return found if found.error else asked(seat, count, COUNT_SECONDS)

            return work

        waiting = [self._pool.submit(counting(schedule)) for schedule in schedules]
        return [wait() for wait in waiting]

    def close(self) -> None:
        """End all processes."""
        self._pool.close()


def jobs_or_cores(jobs: int | None) -> int:
    """So many processes, or one for each core."""
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs must be at least 1, not {jobs}")
    return jobs or min(os.cpu_count() or 1, MOST_BUILDERS)
