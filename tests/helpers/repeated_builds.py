"""Builds, each by a process of its own that a test may kill.

One Python imports what they need and forks for each build that it is asked for, which says how
often it planned and compiled.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

_COUNTED = """
import os, sys
from tvm_stitch import transform
from tvm_stitch.plan import planner

plans, compiled = [], []

def counted(*arguments, **named):
    plans.append(1)
    return planner.plan_graph(*arguments, **named)

transform.grouped.__globals__["plan_graph"] = counted
"""
_FORKS = """
print("ready", flush=True)
for _ in sys.stdin:
    child = os.fork()
    if not child:
        build()
        print("built", len(plans), len(compiled), flush=True)
        os._exit(0)
    print("begun", child, flush=True)
    print("gone", os.waitpid(child, 0)[1], flush=True)
"""


class Builds:
    """A process that builds whenever it is asked to, by the function `build` of a text."""

    def __init__(self, text: str, *arguments: str | Path) -> None:
        path = os.pathsep.join((str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")))
        command = [sys.executable, "-W", "error::UserWarning", "-c", _COUNTED + text + _FORKS]
        self._process = subprocess.Popen(
            [*command, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        assert self._said() == ["ready"]

    def begin(self) -> int:
        """Let it build; the process that does."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        what, child = self._said()
        assert what == "begun"
        return int(child)

    def counts(self) -> list[int] | None:
        """How often a build planned and compiled, once it is gone; None if it was killed."""
        found = None
        while (words := self._said())[0] != "gone":
            found = [int(word) for word in words[1:]]
        assert words[1] in ("0", str(int(signal.SIGKILL)))
        return found if words[1] == "0" else None

    def end(self) -> None:
        """No more builds."""
        self._process.kill()
        self._process.wait()

    def _said(self) -> list[str]:
        assert self._process.stdout is not None
        return self._process.stdout.readline().split()


@contextmanager
def builds_of(text: str, *arguments: str | Path) -> Iterator[Callable[[], Builds]]:
    """Starts processes that build, which end with the context."""
    with ExitStack() as started:

        def start() -> Builds:
            builds = Builds(text, *arguments)
            started.callback(builds.end)
            return builds

        yield start


def killed_at_any_time(builds: Builds, caches: Iterable[Path]) -> list[int] | None:
    """Kill builds at many moments, the caches empty before the first; the counts of the next one.

    That is, of the second that nobody kills: the first makes what no killed one came to.
    """
    start = time.monotonic()
    builds.begin()
    assert builds.counts() is not None
    whole = time.monotonic() - start
    for cache in caches:
        shutil.rmtree(cache)
    killed = 0
    moments = random.Random(0)
    for seconds in sorted(moments.uniform(0, whole) for _ in range(20)):
        child = builds.begin()
        time.sleep(seconds)
        with suppress(ProcessLookupError):  # what others have left is enough for it
            os.kill(child, signal.SIGKILL)
        killed += builds.counts() is None
    assert killed  # on a busy machine most builds find enough to be done before their moment
    builds.begin()
    assert builds.counts() is not None
    builds.begin()
    return builds.counts()
