"""CUDA compiled by NVRTC in several processes: in one, its threads wait for each other.

In: what TVM would ask of NVRTC. Out: machine code, or None where it has to be asked here after all:
a process cannot be started or has died, or the program is wrong, which NVRTC then says itself. On
two cores twelve kernels of ResNet's training took 19.3 s one by one, 14.9 by two threads, and 9.7
by two processes.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from tvm_stitch.workarounds.nvrtc_calls import Program

MOST = 32
"""Processes at a time, each of which has some 100 MB."""
# What it is to find that a process is not there.
_GONE = (OSError, EOFError, pickle.UnpicklingError)
_WORKER = Path(__file__).with_name("nvrtc_worker.py")


class Processes:
    """As many processes as programs are compiled at a time, or cores; they end with the last."""

    def __init__(self) -> None:
        self._idle: list[subprocess.Popen[bytes]] = []
        self._users = 0
        self._cannot_start = False
        self._lock = threading.Lock()
        self._free = threading.Semaphore(min(MOST, len(os.sched_getaffinity(0))))

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
                ended: list[subprocess.Popen[bytes]] = []
                if not self._users:
                    ended, self._idle = self._idle, []
            for process in ended:
                _end(process)

    def compiled(self, program: Program, library: str) -> bytes | None:
        """The machine code of a program by NVRTC's library of that path."""
        with self._free:
            process = self._one(library)
            if process is None:
                return None
            try:
                _send(process, tuple(program))
                found: bytes | None = _answer(process)
            except _GONE:
                _end(process)
                return None
            with self._lock:
                self._idle.append(process)
            return found

    def _one(self, library: str) -> subprocess.Popen[bytes] | None:
        """A process that waits, or a new one; None if none can be started, and never again."""
        with self._lock:
            if self._idle or self._cannot_start:
                return self._idle.pop() if self._idle else None
        process = None
        try:
            process = _started()
            _send(process, library)
            _answer(process)
        except _GONE:
            self._cannot_start = True
            if process is not None:
                _end(process)
            return None
        return process


PROCESSES = Processes()


def _started() -> subprocess.Popen[bytes]:
    paths = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, str(_WORKER)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": paths},
    )


def _send(process: subprocess.Popen[bytes], what: object) -> None:
    assert process.stdin is not None
    pickle.dump(what, process.stdin)
    process.stdin.flush()


def _answer(process: subprocess.Popen[bytes]) -> Any:
    assert process.stdout is not None
    return pickle.load(process.stdout)


def _end(process: subprocess.Popen[Any]) -> None:
    """It ends when there is nobody to ask."""
    for stream in (process.stdin, process.stdout):
        if stream is not None:
            with suppress(OSError):
                stream.close()
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=5)
        return
    process.kill()
    process.wait()
