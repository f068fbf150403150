"""Measuring schedules of a workload, each in a process that it may take down with it.

In: a Workload and Schedules. Out: an Outcome for each, in the same order. Three runners:

    local   compiled by several processes, timed one after the other by another one on this
            machine's GPU
    rpc     the same on the GPUs that a TVM RPC tracker knows of (see rpc)
    simt    counted by the CPU executor: a measure without a GPU

They differ in who does the jobs (see jobs); what is asked is the same.
"""

from __future__ import annotations

import fcntl
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Protocol

import tvm

from tvm_stitch import simt
from tvm_stitch.errors import CompilerMissing, InputError
from tvm_stitch.tuning.measuring import gpu
from tvm_stitch.tuning.measuring.builder import Builder, Pool, jobs_or_cores, removed
from tvm_stitch.tuning.measuring.jobs import Best, GpuLock, Job, Task, counting, racing, timing
from tvm_stitch.tuning.measuring.library import Outcome
from tvm_stitch.tuning.measuring.worker_process import WorkerProcess
from tvm_stitch.tuning.records import UNITS
from tvm_stitch.tuning.workload import Layout, Workload

MICROSECONDS, ACCESSES = UNITS
HOW_COUNTED = "memory accesses on the CPU executor"


class Runner(Protocol):
    """Measures schedules."""

    unit: str  # what the costs count
    how: str  # how they come about, for people

    def gpu_name(self, workload: Workload) -> str:
        """The GPU that the costs hold for."""

    def measure(
        self,
        workload: Workload,
        schedules: Sequence[Layout],
        reference: Layout,
        careful: bool = False,
        best: float | None = None,
    ) -> list[Outcome]:
        """The outcome of every schedule; outputs are compared with the reference's.

        With `careful`, they are timed interleaved on one GPU, so that small differences show. With
        `best`, a schedule that is much slower may be given up early.
        """

    def close(self) -> None:
        """End all processes."""


class Measuring(ABC):
    """What the runners have in common: a job for every schedule, or one for all of them."""

    def __init__(
        self,
        target: tvm.target.Target,
        unit: str,
        jobs: int | None,
        gpu_lock: GpuLock = nullcontext,
    ) -> None:
        self.unit = unit
        self.how = HOW_COUNTED if unit == ACCESSES else gpu.HOW
        self._target, self._gpu_lock = target, gpu_lock
        # What is counted is compiled where it is counted.
        self._builder = Builder(jobs_or_cores(jobs)) if unit == MICROSECONDS else None

    def measure(
        self,
        workload: Workload,
        schedules: Sequence[Layout],
        reference: Layout,
        careful: bool = False,
        best: float | None = None,
    ) -> list[Outcome]:
        """The outcome of every schedule, in order."""
        task = Task(workload, self._target, reference)
        if self._builder is None:
            return self._do([counting(task, schedule) for schedule in schedules])
        base = self._builder.reference(task)
        libraries = [self._builder.start(task, schedule) for schedule in schedules]
        try:
            if careful:
                return self._do([racing(task, base, schedules, libraries, self._gpu_lock)])
            least = Best(best)
            pairs = zip(schedules, libraries, strict=True)
            return self._do([timing(task, base, *pair, least, self._gpu_lock) for pair in pairs])
        finally:
            removed(libraries)

    @abstractmethod
    def _do(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Have workers do the jobs; their outcomes in order."""

    def close(self) -> None:
        """End all processes."""
        if self._builder is not None:
            self._builder.close()


class LocalRunner(Measuring):
    """Times schedules on this machine's GPU.

    Several processes may share the GPU: only the one that holds the lock on the file `lock` uses
    it.
    """

    def __init__(
        self, target: tvm.target.Target, jobs: int | None = None, lock: str | None = None
    ) -> None:
        if not tvm.cuda(0).exist:
            raise InputError(
                "there is no GPU here that TVM can use; measure on other machines with --runner "
                "rpc, or count memory accesses on the CPU with --runner simt (in Python: "
                'runner="rpc", runner="simt")'
            )
        super().__init__(target, MICROSECONDS, jobs, locked_by(lock) if lock else nullcontext)
        self._worker = WorkerProcess()

    def gpu_name(self, workload: Workload) -> str:
        """This machine's GPU."""
        return workload.device.name

    def _do(self, jobs: Sequence[Job]) -> list[Outcome]:
        return [outcome for job in jobs for outcome in job.do(self._worker)]

    def close(self) -> None:
        """End all processes."""
        self._worker.close()
        super().close()


class SimtRunner(Measuring):
    """Counts the memory accesses of schedules on the CPU executor, several at once."""

    def __init__(self, target: tvm.target.Target, jobs: int | None = None) -> None:
        missing = simt.available()
        if missing is not None:
            raise CompilerMissing(missing)
        super().__init__(target, ACCESSES, jobs)
        self._pool = Pool(jobs_or_cores(jobs))

    def gpu_name(self, workload: Workload) -> str:
        """The GPU that the schedules are legal for."""
        return workload.device.name

    def _do(self, jobs: Sequence[Job]) -> list[Outcome]:
        waiting = [self._pool.submit(job) for job in jobs]
        return [outcome for wait in waiting for outcome in wait()]

    def close(self) -> None:
        """End all processes."""
        self._pool.close()
        super().close()


def locked_by(path: str) -> GpuLock:
    """Exclusive use by locking a file; a process that dies gives its lock back."""

    @contextmanager
    def gpu_lock() -> Iterator[None]:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    return gpu_lock
