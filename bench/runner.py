"""Hands cases to worker processes, collects rows, and outlives every worker's end.

In: cases, systems, settings. Out: a Results file that grows row by row. A worker that dies or
takes too long costs one row: the rest of its case goes to a fresh worker. Where several workers
share the machine, what took too long is tried once more at the end, with nothing beside it.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.case import Case
from bench.results import Results, Row, case_info_from, row_from
from bench.systems import SEARCHING

# Systems that search while they compile may take this much longer.
SEARCH_FACTOR = 10
# A worker that starts measures nothing yet: it is given time on a busy machine, and more than once.
START_LIMIT_S = 600.0
START_TRIES = 3

Report = Callable[[str], None]


@dataclass(frozen=True)
class Settings:
    """What a run is asked to do."""

    systems: tuple[str, ...]
    output: Path
    suite: str = "subgraphs"
    jobs: int = 1
    # Whether those that try candidates on the GPU while they compile do so beside others.
    together: bool = False
    graphs: bool = True
    # Seconds that one phase of one system may take (compiling, measuring, …).
    time_limit_s: float = 180.0
    start_limit_s: float = START_LIMIT_S
    records: str | None = None
    trials: int = 64
    worker: tuple[str, ...] = (sys.executable, "-m", "bench.worker")


@dataclass
class Job:
    """A case and the systems still to run on it."""

    case: Case
    systems: list[str]


@dataclass(eq=False)
class Worker:
    """A child process, its messages arriving in a queue; None marks its end."""

    command: tuple[str, ...]
    log: Any = field(default_factory=tempfile.TemporaryFile)
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.messages: queue.Queue[dict[str, Any] | None] = queue.Queue()
        here = str(Path(__file__).parent.parent)
        path = os.pathsep.join(filter(None, [here, os.environ.get("PYTHONPATH")]))
        self.process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            encoding="utf-8",
            env={**os.environ, **self.environment, "PYTHONPATH": path},
            # Ctrl-C reaches the parent alone, which then ends its workers in its own order.
            start_new_session=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            with contextlib.suppress(ValueError):
                self.messages.put(json.loads(line))
        self.messages.put(None)

    def send(self, command: dict[str, Any]) -> None:
        """Give the worker a command; a dead one shows by its messages ending."""
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(json.dumps(command) + "\n")
            self.process.stdin.flush()

    def next_message(self, limit_s: float) -> dict[str, Any] | None:
        """What the worker says next; queue.Empty if it takes longer than that.

        The time in which it waits for the GPU, which another worker has, does not count: that one
        has a limit of its own.
        """
        waiting = False
        while True:
            message = self.messages.get(timeout=None if waiting else limit_s)
            if message is None or message.get("event") not in ("waiting", "held"):
                return message
            waiting = message["event"] == "waiting"

    def end(self) -> None:
        """Kill the worker and the compilers it started."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def how_it_ended(self) -> str:
        """The exit status in words, and the last thing that the worker printed."""
        code = self.process.wait()
        how = f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
        self.log.seek(0)
        lines = self.log.read().decode(errors="replace").strip().splitlines()
        return f"{how}; last output: {lines[-1][:200]}" if lines else how


class Run:
    """One run of the program."""

    def __init__(self, settings: Settings, results: Results, report: Report) -> None:
        self._settings, self._results, self._report = settings, results, report
        self._lock = threading.Lock()
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._workers: set[Worker] = set()
        self._stop = threading.Event()
        self._later: dict[str, Job] = {}  # by case: what is to be tried with nothing beside it
        self._alone = settings.jobs == 1
        self._calibrate = "copy_gbs" not in results.machine
        self.failure: str | None = None

    def __call__(
        self, jobs: list[Job], on_case: Callable[[Case], None], on_start: Callable[[], None]
    ) -> None:
        """Run every job; on_start once the machine is known, on_case after each case."""
        self._on_case = on_case
        with tempfile.TemporaryDirectory() as folder:
            self._gpu_lock = os.path.join(folder, "gpu") if self._settings.jobs > 1 else None
            # The first worker measures the copy rate alone; the others start when it has.
            try:
                first = self._start_worker(needed=True)
                if first is None:
                    return
                on_start()
                self._spread(jobs, first)
                self._rest()
            finally:
                self._stop.set()
                for worker in list(self._workers):
                    self._end(worker)

    def _spread(self, jobs: list[Job], first: Worker) -> None:
        for job in jobs:
            names = [n for n in job.systems if n not in self._results.missing]
            if names:
                self._jobs.put(Job(job.case, names))
        count = min(self._settings.jobs, max(1, self._jobs.qsize()))
        threads = [
            threading.Thread(target=self._work, args=(first if i == 0 else None,), daemon=True)
            for i in range(count)
        ]
        for thread in threads:
            thread.start()
        # Short waits, so that Ctrl-C is seen.
        while any(thread.is_alive() for thread in threads):
            threads[0].join(0.2)
            time.sleep(0.05)

    def _rest(self) -> None:
        """What was put off, by one worker after all others have ended."""
        if not self._later or self._stop.is_set():
            return
        self._alone, jobs, self._later = True, list(self._later.values()), {}
        for job in jobs:
            self._jobs.put(job)
        self._work(None)

    def _work(self, worker: Worker | None) -> None:
        while not self._stop.is_set():
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            pending = [job]
            while pending and not self._stop.is_set():
                worker = worker if worker is not None else self._start_worker(self._alone)
                if worker is None:
                    self._put_off(job.case, [name for rest in pending for name in rest.systems])
                    return
                retries, alive = self._one(worker, pending.pop(0))
                pending += retries
                if not alive:
                    self._end(worker)
                    worker = None
            if not self._stop.is_set() and job.case.name not in self._later:
                self._on_case(job.case)
        if worker is not None:
            self._end(worker)

    def _put_off(self, case: Case, systems: list[str]) -> None:
        with self._lock:
            self._later.setdefault(case.name, Job(case, [])).systems.extend(systems)

    def _start_worker(self, needed: bool) -> Worker | None:
        """A worker that is ready; a run that needs one ends without."""
        for _ in range(START_TRIES):
            worker, failure = self._try_to_start()
            if failure is None:
                return worker
            if self._stop.is_set():
                return None
        if needed:
            self.failure = f"no worker could be started: {failure}"
            self._stop.set()
        return None

    def _try_to_start(self) -> tuple[Worker, str | None]:
        """A worker, and why it is of no use."""
        worker = Worker(self._settings.worker)
        with self._lock:
            self._workers.add(worker)
        worker.send(
            {
                "do": "begin",
                "systems": list(self._settings.systems),
                "lock": self._gpu_lock,
                "together": self._settings.together,
                "records": self._settings.records,
                "trials": self._settings.trials,
                "calibrate": self._calibrate,
            }
        )
        try:
            message = worker.next_message(self._settings.start_limit_s)
        except queue.Empty:
            self._end(worker)
            return worker, f"starting took more than {self._settings.start_limit_s:g} s"
        if message is None or message.get("event") != "ready":
            failure = worker.how_it_ended() if message is None else f"it said {message}"
            self._end(worker)
            return worker, failure
        with self._lock:
            self._calibrate = False
            self._results.machine.update(message["machine"])
            self._results.missing.update(message["missing"])
            self._results.save(self._settings.output)
        return worker, None

    def _one(self, worker: Worker, job: Job) -> tuple[list[Job], bool]:
        """Run one job; what is to be tried again, and whether the worker is still good."""
        left = list(job.systems)
        current, phase = "", "starting"
        worker.send(
            {
                "do": "case",
                "case": job.case.name,
                "systems": left,
                "graphs": self._settings.graphs,
                "info": job.case.name not in self._results.cases,
            }
        )
        failure = None
        while True:
            limit = self._settings.time_limit_s * (SEARCH_FACTOR if current in SEARCHING else 1)
            try:
                message = worker.next_message(limit)
            except queue.Empty:
                failure = f"{phase} took more than {limit:g} s"
                return self._after_time(job, left, current, failure), False
            if self._stop.is_set():
                return [], False
            if message is None or message["event"] == "lost":
                detail = message["detail"] if message else worker.how_it_ended()
                if failure is None:
                    failure = f"the worker was lost while {phase}: {detail}"
                return self._after_failure(job, left, current, failure), False
            match message["event"]:
                case "phase":
                    current, phase = message["system"], message["phase"]
                    self._report(f"{job.case.name}: {current or 'all'}, {phase}")
                case "case":
                    info = case_info_from(message["info"])
                    info.suite = self._settings.suite
                    with self._lock:
                        self._results.cases[message["name"]] = info
                case "row":
                    row = row_from(message["row"])
                    self._add(row)
                    if row.system in left:
                        left.remove(row.system)
                case "failed":
                    failure = message["detail"]
                case "done":
                    if not left:
                        return [], not message.get("retire")
                    reason = failure or "the worker sent no result"
                    return (
                        self._after_failure(job, left, current, reason),
                        not message.get("retire"),
                    )

    def _after_time(self, job: Job, left: list[str], current: str, reason: str) -> list[Job]:
        """As after a failure; but on a machine that others keep busy, it may be their fault."""
        slow = [current] if current in left else left
        if self._alone or not slow:
            return self._after_failure(job, left, current, reason)
        self._put_off(job.case, slow)
        rest = [name for name in left if name not in slow]
        return [Job(job.case, rest)] if rest else []

    def _after_failure(self, job: Job, left: list[str], current: str, reason: str) -> list[Job]:
        """Blame the system that was running, if one was alone; try the others again, each alone."""
        if "," in current and left:
            # Whose fault it was is unknown: it happened while the systems took turns.
            return [Job(job.case, [name]) for name in left]
        blamed = [current] if current in left else left
        for name in blamed:
            self._add(Row(job.case.name, name, "failed", reason))
        rest = [name for name in left if name not in blamed]
        return [Job(job.case, rest)] if rest else []

    def _add(self, row: Row) -> None:
        with self._lock:
            self._results.add(row)
            self._results.save(self._settings.output)

    def _end(self, worker: Worker) -> None:
        with self._lock:
            self._workers.discard(worker)
        worker.end()
