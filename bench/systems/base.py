"""What every system under test provides; data and protocols only."""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import torch

from bench.case import Workload


@dataclass(frozen=True)
class Prepared:
    """A compiled case of one system, ready to be called again and again on the same inputs."""

    call: Callable[[], Any]
    outputs: Callable[[Any], list[torch.Tensor]]
    # Blocks the host until the result's kernels are all in the device's queue or done.
    wait: Callable[[Any], Any]
    compile_s: float
    # A context in which calls go to PyTorch's current stream, so that it can capture them;
    # None where the system cannot be captured.
    capture: Callable[[], contextlib.AbstractContextManager[Any]] | None = None


class System(Protocol):
    """One way to run a case."""

    name: str
    title: str
    # Measured only when asked for by name.
    optional: bool

    def missing(self) -> str | None:
        """Why the system cannot run here, if so."""

    def supports(self, workload: Workload) -> str | None:
        """Why the workload is not for this system, if so."""

    def prepare(self, workload: Workload, inputs: tuple[torch.Tensor, ...], gpu: Gpu) -> Prepared:
        """Compile the workload for these inputs."""


class Gpu:
    """The right to use the GPU, shared between worker processes through a lock file.

    A worker holds it while anything of its own may run on the device, and gives it away while it
    only compiles on the CPU. Workers that compile together share it until they measure. Without a
    file there is one worker, which always holds it. Whoever must know hears of "waiting" and
    "held".
    """

    def __init__(
        self,
        path: str | None = None,
        tell: Callable[[str], None] = lambda event: None,
        together: bool = False,
    ) -> None:
        self._file = open(path, "w") if path else None  # noqa: SIM115
        self._tell = tell
        self._usual = fcntl.LOCK_SH if together else fcntl.LOCK_EX

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold the GPU."""
        self._take(self._usual)
        try:
            yield
        finally:
            self._lock(fcntl.LOCK_UN)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the GPU with nobody else there: where something is measured."""
        if self._usual == fcntl.LOCK_EX:
            yield
            return
        self._lock(fcntl.LOCK_UN)
        self._take(fcntl.LOCK_EX)
        try:
            yield
        finally:
            self._lock(self._usual)

    @contextlib.contextmanager
    def released(self) -> Iterator[None]:
        """Let others have the GPU meanwhile."""
        if torch.cuda.is_available() and self._file:
            torch.cuda.synchronize()
        self._lock(fcntl.LOCK_UN)
        try:
            yield
        finally:
            self._take(self._usual)

    def _take(self, how: int) -> None:
        if self._file:
            self._tell("waiting")
            self._lock(how)
            self._tell("held")

    def _lock(self, operation: int) -> None:
        if self._file:
            fcntl.flock(self._file, operation)


def installed(module: str, remedy: str) -> str | None:
    """None if the module can be found, else a line that says how to get it."""
    if importlib.util.find_spec(module) is not None:
        return None
    return f"{module} is not installed ({remedy})"
