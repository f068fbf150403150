"""Tunes cases on all GPUs of this machine at once, until the time is up.

In: a Plan. Out: its folder. Several processes share a GPU: while one measures, the others compile,
and a lock on a file keeps them apart. A process that dies loses its task, no other.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from queue import Empty
from typing import Any

import tvm

from bench.cases import suite
from bench.tuning.folder import Folder
from bench.tuning.spaces import known
from bench.tuning.work import Task, Work
from tvm_stitch.target import cuda_target
from tvm_stitch.tuning.measuring.measure import LocalRunner, Runner, SimtRunner

VISIBLE = "CUDA_VISIBLE_DEVICES"
# Seconds after the time is up: what is being measured then still comes to an end.
GRACE = 20.0
POLL_SECONDS = 0.5


@dataclass(frozen=True)
class Plan:
    """What to measure, and for how long."""

    folder: Path
    tasks: tuple[Task, ...]
    trials: int = 64
    seconds: float = 540.0
    runner: str = "local"
    processes: int = 4  # on each GPU
    jobs: int | None = None  # compilers of all processes; default: the machine's cores
    lock: str | None = None  # a file that others lock as well; of several GPUs, the name's start
    small: bool = False  # the cases at their test sizes


@dataclass(frozen=True)
class _Share:
    """What one process has of the machine."""

    jobs: int
    lock: str
    deadline: float  # as time.time() tells it, which all processes agree on


def run(plan: Plan, log: Callable[[str], None] = print) -> bool:
    """Measure; whether everything was."""
    context = multiprocessing.get_context("spawn")
    tasks, told = context.Queue(), context.Queue()
    gpus = visible_gpus() if plan.runner == "local" else [""]
    count = max(1, min(plan.processes * len(gpus), len(plan.tasks)))
    for task in [*plan.tasks, *[None] * count]:
        tasks.put(task)
    jobs = max(1, (plan.jobs or os.cpu_count() or 1) // count)
    deadline = time.time() + plan.seconds
    started: list[Any] = []
    with tempfile.TemporaryDirectory() as locks:
        try:
            for number in range(count):
                name = gpus[number % len(gpus)]
                lock = plan.lock or str(Path(locks) / "gpu")
                share = _Share(jobs, lock if len(gpus) == 1 else f"{lock}-{name}", deadline)
                with _seeing(name):
                    process = context.Process(target=_serve, args=(plan, share, tasks, told))
                    process.start()
                started.append(process)
            return _follow(plan, started, told, deadline + GRACE, log)
        finally:
            for process in started:
                process.kill()
                process.join()


def _follow(
    plan: Plan, processes: list[Any], told: Any, deadline: float, log: Callable[[str], None]
) -> bool:
    """Pass on what the processes tell, until they end or the time is up."""
    done = 0
    while True:
        alive = any(process.is_alive() for process in processes)
        try:
            line = told.get(timeout=POLL_SECONDS)
        except Empty:
            if not alive or time.time() > deadline:
                break
            continue
        done += line is True
        if isinstance(line, str):
            log(line)
    if done < len(plan.tasks):
        log(f"{done} of {len(plan.tasks)} tasks done; the same command goes on from here")
    return done == len(plan.tasks)


def _serve(plan: Plan, share: _Share, tasks: Any, told: Any) -> None:
    """One process: do tasks until there are none."""
    target = (
        tvm.target.Target.from_device(tvm.cuda(0)) if tvm.cuda(0).exist else cuda_target("sm_90")
    )
    runner: Runner
    if plan.runner == "simt":
        runner = SimtRunner(target, share.jobs)
    else:
        runner = LocalRunner(target, share.jobs, share.lock)
    work = Work(
        Folder(plan.folder), target, runner, plan.trials, share.deadline, plan.small, told.put
    )
    try:
        while (task := tasks.get()) is not None:
            if work.do(task):
                told.put(True)
    finally:
        runner.close()


def visible_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES names them."""
    if VISIBLE in os.environ:
        return [name for name in os.environ[VISIBLE].split(",") if name] or [""]
    number = 0
    while tvm.cuda(number).exist:
        number += 1
    return [str(each) for each in range(number)] or [""]


@contextmanager
def _seeing(gpu: str) -> Iterator[None]:
    """Processes that are started meanwhile see one GPU only."""
    before = os.environ.get(VISIBLE)
    try:
        if gpu:
            os.environ[VISIBLE] = gpu
        yield
    finally:
        if before is None:
            os.environ.pop(VISIBLE, None)
        else:
            os.environ[VISIBLE] = before


def selected(patterns: Sequence[str] | None, suite_name: str) -> list[str]:
    """Names of the cases that match, by their own name or their group's.

    Without patterns, all of the suite.
    """
    return [
        case.name
        for case in (suite(suite_name) if patterns is None else known(suite_name))
        if patterns is None
        or any(fnmatch(case.name, p) or fnmatch(case.group, p) for p in patterns)
    ]
