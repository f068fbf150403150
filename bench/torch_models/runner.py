"""Hands models to processes, a fresh one for each, and collects their rows.

In: jobs. Out: a Results file that grows row by row. Where a process crashes or hangs, the system
that was at work has failed, and the others are tried again without it.
"""

from __future__ import annotations

import os
import queue
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.runner import Worker
from bench.torch_models import table
from bench.torch_models.row import Results, Row
from bench.torch_models.systems import EAGER


@dataclass(frozen=True)
class Settings:
    """What a run is asked to do."""

    device: str
    small: bool
    output: Path
    timed: bool = True  # where there is a GPU
    tf32: bool = False  # what float32 may be rounded to
    channels_last: bool = False  # how weights of convolutions lie
    jobs: int = 1
    time_limit_s: float = 300.0
    seconds: float | None = None
    second_process: bool = False
    threads: int = 1  # that a process may compile with
    worker: tuple[str, ...] = (sys.executable, "-m", "bench.torch_models.child")


@dataclass(frozen=True)
class Job:
    """A model, an element type and a way to try it, with the systems."""

    model: str
    dtype: str
    kind: str
    systems: list[str]

    @property
    def key(self) -> tuple[str, str, str]:
        """As rows have it."""
        return self.model, self.dtype, self.kind


class Run:
    """One run of the program."""

    def __init__(self, settings: Settings, results: Results, report: Callable[[str], None]) -> None:
        self._settings, self._results, self._report = settings, results, report
        self._lock = threading.Lock()
        self._end_at = time.monotonic() + settings.seconds if settings.seconds else None
        self._workers: set[Worker] = set()
        self._folder = ""
        self._stopped = False

    def __call__(self, jobs: list[Job]) -> None:
        """Run every job for which there is time."""
        waiting: queue.SimpleQueue[Job] = queue.SimpleQueue()
        for job in jobs:
            waiting.put(job)
        with tempfile.TemporaryDirectory() as self._folder:
            threads = [
                threading.Thread(target=self._work, args=(waiting,), daemon=True)
                for _ in range(min(self._settings.jobs, len(jobs)))
            ]
            try:
                for thread in threads:
                    thread.start()
                while any(thread.is_alive() for thread in threads) and not self._is_over():
                    time.sleep(0.1)  # short, so that Ctrl-C is seen
            finally:
                self._stopped = True
                for worker in list(self._workers):
                    worker.end()

    def _work(self, waiting: queue.SimpleQueue[Job]) -> None:
        while not self._is_over():
            try:
                job = waiting.get_nowait()
            except queue.Empty:
                return
            self._one(job)
            if not self._stopped:
                self._report(table.line(self._results, job.key))

    def _is_over(self) -> bool:
        return self._stopped or (self._end_at is not None and time.monotonic() > self._end_at)

    def _one(self, job: Job) -> None:
        """All systems, in as few processes as do not end before they should."""
        with tempfile.TemporaryDirectory(dir=self._folder) as cache:
            left = list(job.systems)
            while left and not self._stopped:
                culprit = self._process(job, left, cache)
                if culprit is None or culprit == EAGER:
                    break
                left = [name for name in left if name != culprit]
            if self._settings.second_process and not self._stopped:
                done = [n for n in job.systems if n != EAGER and self._is_ok(job, n)]
                if done:
                    self._process(job, done, cache, again=True)

    def _process(self, job: Job, systems: list[str], cache: str, again: bool = False) -> str | None:
        """Try the systems in one process; the one that ended it too early, if one did."""
        worker = Worker(self._settings.worker, environment=self._environment(cache))
        self._workers.add(worker)
        current, phase, detail = "", "starting", "it sent no row"
        missing = list(systems)
        worker.send(self._command(job, systems, again))
        try:
            while True:
                message = worker.next_message(self._settings.time_limit_s)
                if message is None:
                    detail = f"{phase}: {worker.how_it_ended()}"
                    break
                match message["event"]:
                    case "phase":
                        current, phase = message["system"], message["phase"]
                    case "machine":
                        self._results.machine.update(message["machine"])
                    case "row":
                        row = Row(**message["row"])
                        missing = [name for name in missing if name != row.system]
                        self._take(row, again)
                    case "failed":
                        detail = f"{phase}: {message['detail']}"
                    case "done":
                        current = ""
                        break
        except queue.Empty:
            detail = f"{phase} took more than {self._settings.time_limit_s:g} s"
        finally:
            worker.end()
            self._workers.discard(worker)
        return None if again else self._blamed(job, current, missing, detail)

    def _blamed(self, job: Job, current: str, missing: list[str], detail: str) -> str | None:
        """Rows for what has none; the system to go on without."""
        if current in missing:
            self._take(Row(*job.key, current, "failed", detail))
            return current
        for name in missing:
            self._take(Row(*job.key, name, "failed", detail))
        if "," in current:  # it ended while the systems were timed in turns: times are missing
            for name in current.split(","):
                row = self._results.row(job.key, name)
                if row is not None:
                    row.detail = detail
        return None

    def _take(self, row: Row, again: bool = False) -> None:
        with self._lock:
            if self._stopped:  # what was under way is no failure of the model's
                return
            first = self._results.row(row.key, row.system)
            if not again:
                self._results.add(row)
            elif first is not None:
                first.second_s = row.first_s
            self._results.save(self._settings.output)

    def _is_ok(self, job: Job, system: str) -> bool:
        row = self._results.row(job.key, system)
        return row is not None and row.status == "ok"

    def _command(self, job: Job, systems: list[str], again: bool) -> dict[str, Any]:
        return {
            "model": job.model,
            "dtype": job.dtype,
            "kind": job.kind,
            "systems": systems,
            "device": self._settings.device,
            "small": self._settings.small,
            "timed": self._settings.timed,
            "tf32": self._settings.tf32,
            "channels_last": self._settings.channels_last,
            "first_only": again,
            "lock": os.path.join(self._folder, "gpu") if self._settings.jobs > 1 else None,
        }

    def _environment(self, cache: str) -> dict[str, str]:
        """Caches of its own, so that a first call is one."""
        return {
            "TORCHINDUCTOR_CACHE_DIR": os.path.join(cache, "inductor"),
            "TRITON_CACHE_DIR": os.path.join(cache, "triton"),
            "XDG_CACHE_HOME": os.path.join(cache, "others"),
            "TORCHINDUCTOR_COMPILE_THREADS": str(self._settings.threads),
        }
