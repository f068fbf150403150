"""A server of forks for tests, and functions that it can be asked for."""

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tvm_stitch.processes import pickled
from tvm_stitch.processes.forks import Forks


@contextmanager
def two_jobs() -> Iterator[pytest.MonkeyPatch]:
    """Two processes work at a time, whatever this machine has."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pickled.os, "sched_getaffinity", lambda _process: {0, 1})
        patched.setenv(pickled.JOBS, "2")
        yield patched


def ready() -> Forks:
    """One that can be asked."""
    forks = Forks()
    forks.begin()
    wait_for(forks)
    return forks


def wait_for(forks: Forks) -> None:
    """Until it can be asked."""
    end = time.monotonic() + 60
    while not forks.is_ready:
        assert time.monotonic() < end, "it is not there within a minute"
        time.sleep(0.05)


def pid_of(forks: Forks) -> int:
    """The server's process."""
    return forks._process._process.pid


def doubled(number: int) -> int:
    return 2 * number


def plus(shared: int, number: int) -> int:
    return shared + number


def after(seconds: float, what: object) -> tuple[object, int]:
    time.sleep(seconds)
    return what, os.getpid()


def appended(file: str) -> None:
    with open(file, "a") as found:
        found.write("x")


def printed() -> str:
    print("what nobody reads")
    return "and an answer"


def many_bytes(count: int) -> bytes:
    return bytes(count)


def warned() -> int:
    warnings.warn("something to say", stacklevel=2)
    return 1


def wrong() -> None:
    raise ValueError("wrong")


def dead() -> None:
    os._exit(3)


def wrong_given(_given: object) -> None:
    raise ValueError("wrong")
