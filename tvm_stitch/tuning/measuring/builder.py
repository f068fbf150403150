"""Compiling schedules into libraries, several at once. Needs no GPU.

In: Tasks and Schedules. Out: Libraries: files that are there once they have been waited for.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

from tvm_stitch.errors import InputError
from tvm_stitch.tuning.measuring.jobs import Job, Task, asked, prepare
from tvm_stitch.tuning.measuring.library import Library, Outcome
from tvm_stitch.tuning.measuring.worker_process import Worker, WorkerProcess
from tvm_stitch.tuning.workload import Layout

BUILD_SECONDS = 90.0
MOST_BUILDERS = 32


def jobs_or_cores(jobs: int | None) -> int:
    """So many processes, or one for each core."""
    if jobs is not None and jobs < 1:
        raise InputError(f"jobs must be at least 1, not {jobs}")
    return jobs or min(os.cpu_count() or 1, MOST_BUILDERS)


class Pool:
    """Workers of this machine, each of which takes a job when it is free."""

    def __init__(self, size: int) -> None:
        self._workers = tuple(WorkerProcess() for _ in range(size))
        self._free: Queue[Worker] = Queue()
        for worker in self._workers:
            self._free.put(worker)
        self._threads = ThreadPoolExecutor(size)

    def submit(self, job: Job) -> Callable[[], list[Outcome]]:
        """Have some worker do the job; what is returned waits for the outcomes."""

        def run() -> list[Outcome]:
            worker = self._free.get()
            try:
                return job.do(worker)
            finally:
                self._free.put(worker)

        return self._threads.submit(run).result

    def close(self) -> None:
        """End all processes, whatever they are at."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        for worker in self._workers:
            worker.close()
        self._threads.shutdown(wait=True)


class Builder:
    """Compiles in processes of their own. The default schedule of a workload is compiled once."""

    def __init__(self, jobs: int) -> None:
        self._pool = Pool(jobs)
        self._folder = tempfile.TemporaryDirectory(prefix="tvm_stitch_")
        self._count = 0
        self._lock = threading.Lock()
        self._references: dict[tuple[str, Layout], Library] = {}

    def start(self, task: Task, schedule: Layout) -> Library:
        """Have some process compile it."""
        with self._lock:
            self._count += 1
            path = str(Path(self._folder.name) / f"{self._count}.so")
        build = {"do": "build", "schedule": schedule.to_json(), "library": path}

        def do(worker: Worker) -> list[Outcome]:
            found = prepare(worker, task)
            return [found if found.error else asked(worker, build, BUILD_SECONDS)]

        outcomes = self._pool.submit(Job(1, do))
        return Library(path, lambda: outcomes()[0])

    def reference(self, task: Task) -> Library:
        """The default schedule of a task."""
        key = task.key, task.reference
        if key not in self._references:
            self._references[key] = self.start(task, task.reference)
        return self._references[key]

    def close(self) -> None:
        """End all compilers; their libraries go with them."""
        self._pool.close()
        self._folder.cleanup()


def removed(libraries: Sequence[Library]) -> None:
    """Delete them all."""
    for library in libraries:
        library.remove()
