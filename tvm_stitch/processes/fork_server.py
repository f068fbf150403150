"""A process that answers questions by forks of its own; run as a script.

In: how many forks there may be at a time, how many more for what can wait, and a module that they
need; on its standard input, pickled, what they share and what is asked. Out: on its standard output
that it is ready, and then the number of each question with its answer, which is None where there is
none: whoever asked has to find it.

A fork may ask as well: what it asks is answered by other forks, whose place it leaves meanwhile.

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
_ASKING = "tvm_stitch.processes.forks"  # by which a fork asks; it knows this module

# What is begun with first: about what is shared, for which whoever shared it waits in all.
_OF_SHARED, _URGENT, _CAN_WAIT = range(3)

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


class _Client:
    """Who asks, and what is to be said to him.

    While he says more he does not listen, and neither may wait for the other. `can_wait`: nobody
    waits for what he does.
    """

    def __init__(self, read: int, write: int, can_wait: bool = False) -> None:
        self.read, self.write, self.can_wait = read, write, can_wait
        self.asked = 0  # questions that have no answer yet
        self.is_gone = False
        self.said = bytearray()
        self.shared: dict[int, Any] = {}
        os.set_blocking(write, False)


@dataclass
class _Fork:
    asked: Ask
    client: _Client  # who asked
    own: _Client
    process: int
    read: int
    answer: bytearray = field(default_factory=bytearray)


_Question = tuple[_Client, Ask]


class ForkServer:
    """The questions that wait, and the forks that are at some."""

    def __init__(self, read: int, write: int, most: int, more: int = 0) -> None:
        self._first = _Client(read, write)
        # Forks that there may be before one for what can wait, and for all else, begins.
        self._most = {True: most + more, False: most}
        self._waiting: tuple[deque[_Question], ...] = deque(), deque(), deque()  # by rank
        self._forks: dict[int, _Fork] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(read, selectors.EVENT_READ, self._first)

    def serve(self) -> None:
        """Answer until there is nobody to ask."""
        self._tell(self._first, True)
        while True:
            seconds = UNHEARD_SECONDS if self._first.said else IDLE_SECONDS
            ready = self._selector.select(None if self._forks else seconds)
            if not ready:
                return
            for key, _ in ready:
                if isinstance(key.data, _Fork):
                    self._hear(key.data)
                elif key.data.is_gone:
                    continue
                elif key.fd == key.data.write:
                    self._say(key.data)
                elif not self._take(key.data):
                    if key.data is self._first:
                        return
                    self._selector.unregister(key.fd)
            while (question := self._next()) is not None:
                self._begin(*question)

    def _take(self, client: _Client) -> bool:
        """The next thing that somebody says; False at the end."""
        try:
            said = pickle.load(_Pipe(client.read))  # type: ignore[arg-type]
        except (EOFError, pickle.UnpicklingError):
            return False
        if isinstance(said, Ask):
            client.asked += 1
            rank = _URGENT if said.shared is None else _OF_SHARED
            if said.can_wait or client.can_wait:
                rank = _CAN_WAIT
            self._waiting[rank].append((client, said))
        elif said.call is None:
            client.shared.pop(said.number, None)
        else:
            function, given = said.call
            with suppress(Exception):  # whoever asks about it gets no answer
                client.shared[said.number] = function(*given)
        return True

    def _next(self) -> _Question | None:
        """What a fork may begin with."""
        for rank, waiting in enumerate(self._waiting):
            can_wait = rank == _CAN_WAIT
            at_work = [fork for fork in self._forks.values() if not fork.own.asked]
            count = sum(can_wait or not fork.own.can_wait for fork in at_work)
            if waiting and count < self._most[can_wait]:
                return waiting.popleft()
        return None

    def _begin(self, client: _Client, asked: Ask) -> None:
        read, write = os.pipe()
        (asks, asking), (answered, answers) = os.pipe(), os.pipe()
        process = os.fork()
        if not process:
            import_module(_ASKING).FORKS.join(asking, answered, self._most[False])
            _answer(asked, client.shared, write)
        for file in (write, asking, answered):
            os.close(file)
        own = _Client(asks, answers, asked.can_wait or client.can_wait)
        fork = _Fork(asked, client, own, process, read)
        self._forks[read] = fork
        self._selector.register(read, selectors.EVENT_READ, fork)
        self._selector.register(asks, selectors.EVENT_READ, own)

    def _hear(self, fork: _Fork) -> None:
        """A piece of a fork's answer, or that it has ended."""
        piece = os.read(fork.read, _CHUNK)
        fork.answer += piece
        if piece:
            return
        for file in (fork.read, fork.own.read, fork.own.write):
            with suppress(KeyError):
                self._selector.unregister(file)
            os.close(file)
        del self._forks[fork.read]
        self._forget(fork.own)
        _, status = os.waitpid(fork.process, 0)
        fork.client.asked -= 1
        self._tell(fork.client, (fork.asked.number, bytes(fork.answer) if not status else None))

    def _forget(self, gone: _Client) -> None:
        """Nobody is left who wants to know what a fork has asked."""
        gone.is_gone = True
        for waiting in self._waiting:
            for question in [each for each in waiting if each[0] is gone]:
                waiting.remove(question)
        for fork in self._forks.values():
            if fork.client is gone:
                os.kill(fork.process, signal.SIGKILL)

    def _tell(self, client: _Client, what: object) -> None:
        if client.is_gone:
            return
        if not client.said:
            self._selector.register(client.write, selectors.EVENT_WRITE, client)
        client.said += pickle.dumps(what)

    def _say(self, client: _Client) -> None:
        """As much as there is room for."""
        try:
            del client.said[: os.write(client.write, client.said[:_PIECE])]
        except OSError:  # a fork that has ended
            client.said.clear()
        if not client.said:
            self._selector.unregister(client.write)


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
