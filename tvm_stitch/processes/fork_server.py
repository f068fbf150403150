"""A process that answers questions by forks of its own; run as a script.

In: how many forks there may be at a time, how many more for what can wait, and a module that they
need; on its standard input, pickled, what they share and what is asked. Out: on its standard output
that it is ready, and then the number of each question with its answer, which is None where there is
none: whoever asked has to find it.

It has no threads when it forks, nor anything of CUDA or PyTorch, which the process that compiles
may have: that is what it is for. It ends when nobody has asked, or listened, for a while.
"""

from __future__ import annotations

import ctypes
import os
import pickle
import selectors
import signal
import sys
import warnings
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

IDLE_SECONDS = 60.0
UNHEARD_SECONDS = 600.0  # with answers that nobody has read
_CHUNK, _PIECE = 1 << 20, 1 << 16  # bytes that are read, and written, at a time
_END_WITH_PARENT = 1  # PR_SET_PDEATHSIG

Call = tuple[Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Share:
    """What questions may refer to by its number: found once, in every later fork. None: no more."""

    number: int
    call: Call | None


@dataclass(frozen=True)
class Ask:
    """A question by its number: a function's result, which is given what is shared, if it wants.

    can_wait: nobody waits for it yet. It is work that whoever asks would do alike, on all cores.
    """

    number: int
    call: Call
    shared: int | None = None
    can_wait: bool = False


@dataclass
class _Fork:
    asked: Ask
    process: int
    read: int
    answer: bytearray = field(default_factory=bytearray)


class ForkServer:
    """The questions that wait, and the forks that are at some."""

    def __init__(self, read: int, write: int, most: int, more: int = 0) -> None:
        self._read, self._write = _Pipe(read), write
        # Forks that there may be before one for what can wait, and for all else, begins.
        self._most = {True: most + more, False: most}
        # What is to be said: while whoever asks says more he does not listen, and neither waits.
        self._said = bytearray()
        self._is_saying = False
        os.set_blocking(write, False)
        self._shared: dict[int, Any] = {}
        # About what is shared first: whoever shares something waits for all of it.
        self._waiting: tuple[deque[Ask], deque[Ask], deque[Ask]] = deque(), deque(), deque()
        self._forks: dict[int, _Fork] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(read, selectors.EVENT_READ)

    def serve(self) -> None:
        """Answer until there is nobody to ask."""
        self._tell(True)
        while True:
            seconds = UNHEARD_SECONDS if self._said else IDLE_SECONDS
            ready = self._selector.select(None if self._forks else seconds)
            if not ready:
                return
            for key, _ in ready:
                if isinstance(key.data, _Fork):
                    self._hear(key.data)
                elif key.fd == self._write:
                    self._say()
                elif not self._take():
                    return
            while (asked := self._next()) is not None:
                self._begin(asked)

    def _take(self) -> bool:
        """The next thing that is said; False at the end."""
        try:
            said = pickle.load(self._read)  # type: ignore[arg-type]
        except EOFError:
            return False
        if isinstance(said, Ask):
            self._waiting[2 if said.can_wait else said.shared is None].append(said)
        elif said.call is None:
            self._shared.pop(said.number, None)
        else:
            function, given = said.call
            with suppress(Exception):  # whoever asks about it gets no answer
                self._shared[said.number] = function(*given)
        return True

    def _next(self) -> Ask | None:
        """What a fork may begin with."""
        for waiting in filter(None, self._waiting):
            can_wait = waiting[0].can_wait
            working = sum(fork.asked.can_wait <= can_wait for fork in self._forks.values())
            if working < self._most[can_wait]:
                return waiting.popleft()
        return None

    def _begin(self, asked: Ask) -> None:
        read, write = os.pipe()
        process = os.fork()
        if not process:
            _answer(asked, self._shared, write)
        os.close(write)
        fork = _Fork(asked, process, read)
        self._forks[read] = fork
        self._selector.register(read, selectors.EVENT_READ, fork)

    def _hear(self, fork: _Fork) -> None:
        """A piece of a fork's answer, or that it has ended."""
        piece = os.read(fork.read, _CHUNK)
        fork.answer += piece
        if piece:
            return
        self._selector.unregister(fork.read)
        os.close(fork.read)
        del self._forks[fork.read]
        _, status = os.waitpid(fork.process, 0)
        self._tell((fork.asked.number, bytes(fork.answer) if not status else None))

    def _tell(self, what: object) -> None:
        self._said += pickle.dumps(what)
        if not self._is_saying:
            self._selector.register(self._write, selectors.EVENT_WRITE)
            self._is_saying = True

    def _say(self) -> None:
        """As much as there is room for."""
        del self._said[: os.write(self._write, self._said[:_PIECE])]
        if not self._said:
            self._selector.unregister(self._write)
            self._is_saying = False


class _Pipe:
    """Of a pipe no more is read than is asked for: a buffer would hide that there is more."""

    def __init__(self, pipe: int) -> None:
        self._pipe = pipe

    def read(self, count: int) -> bytes:
        """So many bytes, fewer at the end."""
        found = bytearray()
        while len(found) < count and (piece := os.read(self._pipe, count - len(found))):
            found += piece
        return bytes(found)

    def readline(self) -> bytes:
        """Up to the end of a line."""
        found = bytearray()
        while not found.endswith(b"\n") and (piece := os.read(self._pipe, 1)):
            found += piece
        return bytes(found)


def _answer(asked: Ask, shared: dict[int, Any], write: int) -> None:
    """The work of a fork: it writes its answer and ends; with a status where it has none."""
    status = 1
    try:
        ctypes.CDLL(None).prctl(_END_WITH_PARENT, signal.SIGKILL)
        # Who has something to say says it where somebody hears of it.
        warnings.simplefilter("error")
        function, given = asked.call
        found = function(*given) if asked.shared is None else function(shared[asked.shared], *given)
        with os.fdopen(write, "wb") as answer:
            pickle.dump(found, answer)
        status = 0
    finally:
        os._exit(status)


def _main() -> None:
    del sys.path[0]  # this folder, in which modules are called as others elsewhere
    sys.modules["torch"] = None  # type: ignore[assignment]  # TVM's FFI imports it where it can
    # What anything prints shall not be read as its answers.
    answers = os.dup(1)
    os.dup2(2, 1)
    most, more, imported = sys.argv[1:]
    import_module(imported)  # what takes time is done before anybody asks
    module = import_module("tvm_stitch.processes.fork_server")
    module.ForkServer(0, answers, int(most), int(more)).serve()


if __name__ == "__main__":
    _main()
