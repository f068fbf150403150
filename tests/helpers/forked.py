"""A server of forks for tests, and functions that it can be asked for."""

import os
import time
import warnings

from tvm_stitch.processes.forks import Forks


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
