"""A server of forks for tests, and functions that it can be asked for."""

import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tvm_stitch.processes import pickled
from tvm_stitch.processes.forks import FORKS, Forks


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


def heard(monkeypatch: pytest.MonkeyPatch) -> list[tuple[object, ...]]:
    """What is asked from now on: functions and what they are given."""
    asked, ask = [], Forks.ask

    def asking(self, function, *given, **named):
        asked.append((function, *given))
        return ask(self, function, *given, **named)

    monkeypatch.setattr(Forks, "ask", asking)
    return asked


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


def wrong(*_given: object) -> None:
    raise ValueError("wrong")


def dead() -> None:
    os._exit(3)


def sum_of_doubled(numbers: list[int]) -> int:
    """Asked of other forks."""
    asked = [FORKS.ask(doubled, number) for number in numbers]
    return sum(FORKS.answer(question) for question in asked)


def sum_of_slow(count: int, seconds: float) -> int:
    asked = [FORKS.ask(after, seconds, number) for number in range(count)]
    return sum(FORKS.answer(question)[0] for question in asked)


def asked_for(shared: int, depth: int) -> int:
    """What is shared, by forks of forks of forks."""
    if not depth:
        return shared + 1
    own = FORKS.share(int, shared)
    return FORKS.answer(FORKS.ask(asked_for, depth - 1, shared=own)) + 1


def dead_while_asking() -> None:
    for _ in range(20):
        FORKS.ask(after, 20.0, None)
    time.sleep(0.2)
    os._exit(3)
