"""Hands graphs to workers and collects samples; outlives every worker's end.

In: names of graphs, settings. Out: a Samples file, written as it grows. A kernel that crashes or
hangs costs itself: the rest of its graph goes to a fresh worker.
"""

from __future__ import annotations

import os
import queue
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.calibration import groups
from bench.calibration.samples import CASE, Sample, Samples
from bench.runner import Worker

COMMAND = (sys.executable, "-m", "bench.calibration.worker")
# Seconds without a word from a worker; while it waits for the GPU, others may use it for long.
SILENCE_S, WAITING_S = 120.0, 900.0
MOST_ATTEMPTS = 4
SAVE_EVERY_S = 5.0


@dataclass(frozen=True)
class Settings:
    """What a run is asked to do."""

    output: Path
    jobs: int
    seconds: float
    each: int = 3  # schedules of a kernel beside the chosen one
    dry: bool = False  # compile only
    command: tuple[str, ...] = COMMAND


@dataclass
class Job:
    """A graph, and its kernels that must not be tried again."""

    graph: str
    skip: list[int] = field(default_factory=list)
    attempts: int = 0


def all_graphs() -> list[str]:
    """Generated graphs and the cases of the sub-graph suite, in an order that mixes them."""
    from bench.cases import suite

    names = [*groups.names(), *(CASE + case.name for case in suite("subgraphs"))]
    random.Random(groups.SEED).shuffle(names)
    return names


class Measuring:
    """One run of the program."""

    def __init__(self, settings: Settings, samples: Samples, report: Callable[[str], None]) -> None:
        self._settings, self._samples, self._report = settings, samples, report
        self._jobs: queue.SimpleQueue[Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._workers: set[Worker] = set()
        self._stop = threading.Event()
        self._saved = self._started = time.monotonic()
        self._done = 0

    def __call__(self, graphs: list[str]) -> None:
        """Measure the graphs until all are done or the time is over."""
        for graph in graphs:
            self._jobs.put(Job(graph))
        with tempfile.TemporaryDirectory() as folder:
            self._gpu_lock = os.path.join(folder, "gpu")
            threads = [
                threading.Thread(target=self._work, args=(number == 0,), daemon=True)
                for number in range(min(self._settings.jobs, len(graphs)))
            ]
            try:
                for thread in threads:
                    thread.start()
                while any(thread.is_alive() for thread in threads) and not self._is_late():
                    time.sleep(0.2)
            finally:
                self._stop.set()
                for worker in list(self._workers):
                    self._end(worker)
                for thread in threads:
                    thread.join(5)
                self._samples.save(self._settings.output)

    def _is_late(self) -> bool:
        return time.monotonic() - self._started > self._settings.seconds

    def _work(self, calibrate: bool) -> None:
        worker = None
        while not self._stop.is_set():
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            worker = worker or self._start(calibrate)
            if worker is None:
                self._jobs.put(job)
                break
            calibrate = False
            if not self._one(worker, job):
                self._end(worker)
                worker = None
        if worker is not None:
            self._end(worker)

    def _start(self, calibrate: bool) -> Worker | None:
        worker = Worker(self._settings.command)
        with self._lock:
            self._workers.add(worker)
        begin = {"do": "begin", "lock": self._gpu_lock, "dry": self._settings.dry}
        worker.send({**begin, "calibrate": calibrate})
        try:
            message = worker.messages.get(timeout=SILENCE_S)
        except queue.Empty:
            message = None
            self._end(worker)
        if message is None:
            if not self._stop.is_set():
                self._fail("", "a worker", f"did not start: {worker.how_it_ended()}")
            return None
        with self._lock:
            self._samples.machine.update(message["machine"])
        return worker

    def _one(self, worker: Worker, job: Job) -> bool:
        """Run one job; whether the worker is still good."""
        kernel: int | None = None
        phase, fatal = "starting", ""
        worker.send(
            {"do": "graph", "graph": job.graph, "each": self._settings.each, "skip": job.skip}
        )
        while True:
            limit = WAITING_S if phase == "waiting" else SILENCE_S
            try:
                message = worker.messages.get(timeout=limit)
            except queue.Empty:
                self._after_loss(job, kernel, f"silent for {limit:g} s while {phase}")
                return False
            if self._stop.is_set():
                return False
            if message is None:
                how = fatal or worker.how_it_ended()
                self._after_loss(job, kernel, f"the worker was lost while {phase}: {how}")
                return False
            match message["event"]:
                case "phase":
                    kernel, phase = message["kernel"], message["phase"]
                case "sample":
                    self._add(Sample(**message["sample"]))
                case "failure":
                    fatal = message["reason"]
                    self._fail(job.graph, str(message["kernel"]), fatal)
                    if message["kernel"] is not None:
                        job.skip.append(message["kernel"])
                case "done":
                    self._progress(job)
                    return True

    def _after_loss(self, job: Job, kernel: int | None, reason: str) -> None:
        self._fail(job.graph, str(kernel), reason)
        job.attempts += 1
        if kernel is not None:
            job.skip.append(kernel)
        if job.attempts < MOST_ATTEMPTS:
            self._jobs.put(job)
        else:
            self._progress(job)

    def _add(self, sample: Sample) -> None:
        with self._lock:
            known = {kernel.key for kernel in self._samples.kernels if kernel.graph == sample.graph}
            if sample.key not in known:
                self._samples.kernels.append(sample)

    def _fail(self, graph: str, kernel: str, reason: str) -> None:
        with self._lock:
            self._samples.failures.append({"graph": graph, "kernel": kernel, "reason": reason})
        self._report(f"{graph or 'run'}: kernel {kernel}: {reason}")

    def _progress(self, job: Job) -> None:
        with self._lock:
            self._done += 1
            now = time.monotonic()
            if now - self._saved > SAVE_EVERY_S:
                self._saved = now
                self._samples.save(self._settings.output)
        kernels, seconds = len(self._samples.kernels), now - self._started
        self._report(f"{self._done}: {job.graph} ({kernels} kernels, {seconds:.0f} s)")

    def _end(self, worker: Worker) -> None:
        with self._lock:
            self._workers.discard(worker)
        worker.end()


def measure(settings: Settings, graphs: list[str], about: dict[str, Any]) -> Samples:
    """Measure the graphs and write the file."""
    samples = Samples(machine=dict(about))
    lock = threading.Lock()

    def report(line: str) -> None:
        with lock:
            print(line, file=sys.stderr, flush=True)

    Measuring(settings, samples, report)(graphs)
    return samples
