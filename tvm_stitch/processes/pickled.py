"""A Python process that answers pickled questions on its standard input; how many there may be.

In: the script that it runs. Out: answers, or an error that is in GONE where there is no process to
give one. Must not know what is asked.
"""

from __future__ import annotations

import os
import pickle
import select
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

JOBS = "TVM_STITCH_JOBS"
# What it is to find that a process is not there.
GONE = (OSError, EOFError, pickle.UnpicklingError)


def jobs() -> int:
    """How many processes may work at a time: cores, or fewer by the environment."""
    cores = len(os.sched_getaffinity(0))
    return cores if (stated := _stated()) is None else max(1, min(cores, stated))


def jobs_now() -> int:
    """The same of those that do again some of what one process would do once: where others are at
    work on the machine they take fewer cores, unless the environment says how many."""
    return jobs() if _stated() is not None else max(1, jobs() - round(os.getloadavg()[0]))


def _stated() -> int | None:
    with suppress(ValueError):
        return int(os.environ[JOBS]) if JOBS in os.environ else None
    return None


class Pickles:
    """Somebody who reads and writes pickles, by two files."""

    def __init__(self, questions: IO[bytes], answers: IO[bytes]) -> None:
        self._questions, self._answers = questions, answers

    def send(self, what: object) -> None:
        """Ask something."""
        pickle.dump(what, self._questions)
        self._questions.flush()

    def answer(self) -> Any:
        """Wait for the next answer."""
        return pickle.load(self._answers)

    @property
    def has_answered(self) -> bool:
        """Whether there is something to read, be it that nobody is there any more."""
        return bool(select.select([self._answers], [], [], 0)[0])

    def end(self) -> None:
        """Say no more."""
        for stream in (self._questions, self._answers):
            with suppress(OSError):
                stream.close()


class PickledProcess(Pickles):
    """One that runs a script."""

    def __init__(self, script: Path, *arguments: str, **environment: str) -> None:
        paths = os.pathsep.join(path for path in sys.path if path)
        self._process = subprocess.Popen(
            [sys.executable, str(script), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": paths, **environment},
            start_new_session=True,  # an interrupt is ours: whoever waits ends it, with its own
        )
        assert self._process.stdin is not None and self._process.stdout is not None
        super().__init__(self._process.stdin, self._process.stdout)

    def end(self) -> None:
        """Kill it, and what it has started."""
        with suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        super().end()
        self._process.wait()
