"""What a build is doing, stage by stage, and how far it is.

In: whoever works says which stage it is, and how much of it is done. Out: every listener hears. So
does the logger "tvm_stitch": at level info, or with `TVM_STITCH_LOG=info` in the environment, it
writes each stage with its seconds. Must not know what the stages do.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

LOG = "TVM_STITCH_LOG"
DECOMPOSING = "decomposing"
PLANNING = "planning"
FUSING = "fusing"
WRITING = "writing kernels"
SCHEDULING = "TVM's schedules"
MEMORY = "planning memory"
LOWERING = "lowering kernels"
ELSEWHERE = "waiting for other processes"
COMPILING = "compiling"
_logger = logging.getLogger("tvm_stitch")


@dataclass(frozen=True)
class State:
    """How far a stage is."""

    stage: str
    seconds: float = 0.0
    done: int = 0
    most: int = 0  # 0 where nobody counts
    is_over: bool = False

    @property
    def left(self) -> float | None:
        """Seconds that are left of the stage, at the pace so far."""
        if not self.done:
            return None
        return self.seconds / self.done * (self.most - self.done)


Listener = Callable[[State], None]

_listeners: ContextVar[tuple[Listener, ...]] = ContextVar("listeners", default=())
_running: ContextVar[tuple[str, float] | None] = ContextVar("running", default=None)


@contextmanager
def stage(name: str) -> Iterator[None]:
    """What happens within is a stage; within another one it counts to that."""
    if _running.get() is not None:
        yield
        return
    start = time.perf_counter()
    token = _running.set((name, start))
    _tell(State(name))
    try:
        yield
    finally:
        _running.reset(token)
        _tell(State(name, time.perf_counter() - start, is_over=True))


def running() -> str:
    """The stage that runs; empty if none does."""
    return (_running.get() or ("", 0.0))[0]


def step(name: str, done: int, most: int) -> None:
    """So much of a stage is done, if it is the one that runs."""
    running, start = _running.get() or ("", 0.0)
    if running == name:
        _tell(State(name, time.perf_counter() - start, done, most))


@contextmanager
def heard_by(listener: Listener) -> Iterator[None]:
    """What happens within is told to a listener, too."""
    token = _listeners.set((*_listeners.get(), listener))
    try:
        yield
    finally:
        _listeners.reset(token)


@contextmanager
def timed() -> Iterator[dict[str, float]]:
    """Receives the seconds of each stage within."""
    seconds: dict[str, float] = {}

    def add(state: State) -> None:
        if state.is_over:
            seconds[state.stage] = seconds.get(state.stage, 0.0) + state.seconds

    with heard_by(add):
        yield seconds


def _tell(state: State) -> None:
    if state.is_over:
        _logger.info("%s: %.2f s", state.stage, state.seconds)
    for listener in _listeners.get():
        listener(state)


def log_as_told() -> None:
    """Write to standard error what TVM_STITCH_LOG asks for; any other logging is left alone."""
    level = os.environ.get(LOG, "").upper()
    if not level:
        return
    if not isinstance(logging.getLevelName(level), int):
        _logger.warning("%s=%s names no level; say info, or warning", LOG, level.lower())
        return
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("tvm_stitch: %(message)s"))
    _logger.addHandler(handler)
    _logger.setLevel(level)
