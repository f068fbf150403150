"""CUDA compiled by NVRTC in several processes: in one, its threads wait for each other.

In: what TVM would ask of NVRTC. Out: machine code, or None where it has to be asked here after all:
a process cannot be started or has died, or the program is wrong, which NVRTC then says itself. On
two cores twelve kernels of ResNet's training took 19.3 s one by one, 14.9 by two threads, and 9.7
by two processes.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tvm_stitch.processes.pickled import GONE, PickledProcess, jobs
from tvm_stitch.workarounds.nvrtc_calls import Program

MOST = 32
"""Processes at a time, each of which has some 100 MB."""
_WORKER = Path(__file__).with_name("nvrtc_worker.py")


class Processes:
    """As many processes as programs are compiled at a time, or cores; they end with the last."""

    def __init__(self) -> None:
        self._idle: list[PickledProcess] = []
        self._users = 0
        self._cannot_start = False
        self._lock = threading.Lock()
        self._free = threading.Semaphore(min(MOST, jobs()))

    @contextmanager
    def used(self) -> Iterator[Processes]:
        """Meanwhile processes that are done wait for more."""
        with self._lock:
            self._users += 1
        try:
            yield self
        finally:
            with self._lock:
                self._users -= 1
                ended: list[PickledProcess] = []
                if not self._users:
                    ended, self._idle = self._idle, []
            for process in ended:
                process.end()

    def compiled(self, program: Program, library: str) -> bytes | None:
        """The machine code of a program by NVRTC's library of that path."""
        with self._free:
            process = self._one(library)
            if process is None:
                return None
            try:
                process.send(tuple(program))
                found: bytes | None = process.answer()
            except GONE:
                process.end()
                return None
            with self._lock:
                self._idle.append(process)
            return found

    def _one(self, library: str) -> PickledProcess | None:
        """A process that waits, or a new one; None if none can be started, and never again."""
        with self._lock:
            if self._idle or self._cannot_start:
                return self._idle.pop() if self._idle else None
        process = None
        try:
            process = PickledProcess(_WORKER)
            process.send(library)
            process.answer()
        except GONE:
            self._cannot_start = True
            if process is not None:
                process.end()
            return None
        return process


PROCESSES = Processes()
