"""Questions to a server of forks, which several processes answer at a time.

In: functions of this package with what they are given, all of which can be pickled. Out: their
results, or None where nobody has found one: then it is found here. Until the server is ready,
nobody waits for it.
"""

from __future__ import annotations

import atexit
import itertools
import os
import pickle
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tvm_stitch.processes.fork_server import Ask, Share
from tvm_stitch.processes.pickled import GONE, JOBS, PickledProcess, Pickles, jobs, jobs_now

# Of a graph that several processes may work on: it takes a second until they are there.
LEAST_OPERATORS = 150
_SETTINGS = "TVM_STITCH_"  # what of the environment answers may depend on
_IMPORTED = "tvm_stitch.build"  # what answers need
_SERVER = Path(__file__).with_name("fork_server.py")


class Forks:
    """A server, if one is there. Questions are known by their numbers."""

    def __init__(self) -> None:
        self._process: Pickles | None = None
        self.most = 1  # forks that are at work at a time
        self._environment: tuple[tuple[str, str], ...] = ()
        self._is_ready = self._cannot_start = False
        self._numbers = itertools.count()
        self._answers: dict[int, Any] = {}
        self._asked: set[int] = set()
        self._done: set[Any] = set()
        self._lock = threading.Lock()

    def begin(self) -> None:
        """Start a server, for somebody who will ask; waits for nothing."""
        most = jobs_now()
        if most < 2 or self._cannot_start:
            return
        with self._lock:
            settings = (each for each in os.environ.items() if each[0].startswith(_SETTINGS))
            environment = tuple(sorted(settings))
            if self._process is not None and self._environment != environment:
                self._end()
            self._look()
            if self._process is not None:
                return
            try:
                # A fork is one of the processes that there may be.
                counts = str(most), str(jobs() - most)
                self._process = PickledProcess(_SERVER, *counts, _IMPORTED, **{JOBS: "1"})
                self._environment, self.most = environment, most
            except GONE:
                self._cannot_start = True

    def begin_for(self, operators: int) -> None:
        """The same, for a graph of so many operators, if they are enough to ask about."""
        if operators >= LEAST_OPERATORS:
            self.begin()

    @property
    def is_ready(self) -> bool:
        """Whether it can be asked."""
        if self._process is None or not self._lock.acquire(blocking=False):
            return False
        try:
            self._look()
            return self._is_ready
        finally:
            self._lock.release()

    def share(self, find: Callable[..., Any], *given: Any) -> int:
        """Have the server find something that questions are about."""
        number = next(self._numbers)
        self._send(Share(number, (find, given)))
        return number

    def drop(self, number: int) -> None:
        """Nobody asks about that any more."""
        self._send(Share(number, None))

    def once(self, do: Callable[..., Any], *given: Any) -> None:
        """Have the server do something before anything that is asked from now on, if it has not."""
        if (do, given) not in self._done:
            self._done.add((do, given))
            self.share(do, *given)

    def ask(
        self,
        function: Callable[..., Any],
        *given: Any,
        shared: int | None = None,
        can_wait: bool = False,
    ) -> int:
        """Ask for a function's result, of what is shared if it is about that.

        What can wait begins after all else, and on all cores: it is no work that others do twice.
        """
        number = next(self._numbers)
        self._asked.add(number)
        self._send(Ask(number, (function, given), shared, can_wait))
        return number

    def answer(self, number: int) -> Any:
        """The answer to a question, once it is there; None if there is none."""
        while number in self._asked:
            with self._lock:
                if number in self._asked:
                    self._hear()
        return self._answers.pop(number, None)

    def answers(self, numbers: Iterable[int]) -> Iterator[tuple[int, Any]]:
        """The answers to some questions, in the order in which they are found."""
        wanted = set(numbers)
        while wanted:
            with self._lock:
                if wanted <= self._asked:
                    self._hear()
            for number in sorted(wanted - self._asked):
                wanted.remove(number)
                yield number, self._answers.pop(number, None)

    def end(self) -> None:
        """Kill it."""
        with self._lock:
            self._end()

    def forget(self) -> None:
        """A fork of this process has no server: that of its parent answers the parent."""
        self.__init__()  # type: ignore[misc]

    def join(self, questions: int, answers: int, most: int) -> None:
        """In a fork of a server's: ask that one, which has so many at work at a time."""
        self._process = Pickles(os.fdopen(questions, "wb"), os.fdopen(answers, "rb"))
        self._is_ready, self.most = True, most

    def _send(self, what: Share | Ask) -> None:
        with self._lock:
            if not self._is_ready:
                self._asked.clear()
                return
            self._or_end(lambda process: process.send(what))

    def _hear(self) -> None:
        """The next answer, whosever it is."""

        def read(process: Pickles) -> None:
            number, found = process.answer()
            if number in self._asked:
                self._answers[number] = None if found is None else pickle.loads(found)
                self._asked.remove(number)

        if self._process is None:
            self._asked.clear()
        else:
            self._or_end(read)

    def _look(self) -> None:
        """See whether it has become ready, or is gone: while nobody asks it says nothing else."""
        process = self._process
        if process is None or self._asked or not process.has_answered:
            return

        def read(process: Pickles) -> None:
            self._is_ready = bool(process.answer())

        self._or_end(read)

    def _or_end(self, do: Callable[[Pickles], None]) -> None:
        """Do something with the process; what fails or is interrupted leaves none."""
        assert self._process is not None
        is_done = False
        try:
            do(self._process)
            is_done = True
        except GONE:
            pass
        finally:
            if not is_done:
                self._end()

    def _end(self) -> None:
        if self._process is not None:
            self._process.end()
        self._process, self._is_ready = None, False
        self._asked.clear()
        self._done.clear()


FORKS = Forks()
atexit.register(FORKS.end)
os.register_at_fork(after_in_child=FORKS.forget)
