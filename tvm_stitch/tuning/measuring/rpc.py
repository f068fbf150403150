"""Measuring on other machines, through TVM's RPC tracker and servers.

A server (`serve`) is TVM's, with one function more: it hands messages to a child process, which a
kernel may take down without harm to the server. The runner builds here, measures there, on as many
servers at once as the tracker knows; what a lost server was doing is done by another.

TVM's servers execute what they are sent: run them on a network that you trust.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, TypeVar

import tvm
import tvm.rpc

from tvm_stitch.errors import InputError, StitchError
from tvm_stitch.tuning.measuring.jobs import START_SECONDS, Job
from tvm_stitch.tuning.measuring.library import Outcome
from tvm_stitch.tuning.measuring.measure import ACCESSES, MICROSECONDS, Measuring
from tvm_stitch.tuning.measuring.message import Message
from tvm_stitch.tuning.measuring.worker_process import ServerLost, Worker, WorkerLost, WorkerProcess
from tvm_stitch.tuning.records import PACKAGE
from tvm_stitch.tuning.workload import Workload

ANSWER = "tvm_stitch.tuning.answer"
UNIT = "tvm_stitch.tuning.unit"
WORKPATH = "tvm.rpc.server.workpath"
ATTEMPTS = 3  # servers that may be lost over one schedule
WAIT_SECONDS = 60.0  # for a server, before there is said to be none
POLL_SECONDS = 0.1
CONNECT_SECONDS = 5.0
SESSION_SECONDS = 3600.0  # after which a server takes itself back
FIRST_PORT, LAST_PORT = 9091, 9999
T = TypeVar("T")


# The server's side


def serve(tracker: str, key: str, unit: str = MICROSECONDS, bind: str = "127.0.0.1") -> Any:
    """Start a server that reports to a tracker; it runs until `terminate` is called on it.

    `unit` says what it measures: "us" on its GPU, or "accesses" on the CPU executor.
    """
    if unit == MICROSECONDS and not tvm.cuda(0).exist:
        raise InputError("there is no GPU here that TVM can use; --runner simt serves the CPU's")
    _connected(tracker).close()
    return tvm.rpc.Server(
        bind,
        FIRST_PORT,
        LAST_PORT,
        tracker_addr=address_of(tracker),
        key=key,
        silent=True,
        server_init_callback=_register_counting if unit == ACCESSES else _register_timing,
    )


def _register_timing() -> None:
    _register(MICROSECONDS)


def _register_counting() -> None:
    _register(ACCESSES)


def _register(unit: str) -> None:
    """Runs in the server's process; sessions are forks of it, each with a child of its own."""
    child = WorkerProcess()

    def answer(message: str, seconds: float) -> str:
        try:
            return json.dumps(child.ask(json.loads(message), seconds))
        except WorkerLost as lost:
            return json.dumps({"error": str(lost), "lost": True})

    tvm.register_global_func(ANSWER, answer, override=True)
    tvm.register_global_func(UNIT, lambda: unit, override=True)


# The client's side


class Remote:
    """A worker on some server of a fleet."""

    def __init__(self, fleet: Fleet) -> None:
        self.prepared = ""
        self._fleet = fleet
        self._session: Any = None
        self._files = 0

    def ask(self, message: Message, timeout: float) -> Message:
        """The answer; raises ServerLost where there is none."""

        def work(session: Any) -> Message:
            reply: Message = json.loads(session.get_function(ANSWER)(json.dumps(message), timeout))
            if reply.pop("lost", False):
                self.prepared = ""  # the server's child starts afresh
            return reply

        return self._try(work)

    def put(self, path: str) -> str:
        """Upload a file."""
        self._files += 1
        name = f"{self._files}.so"

        def work(session: Any) -> str:
            session.upload(path, name)
            return str(session.get_function(WORKPATH)(name))

        return self._try(work)

    def unit(self) -> str:
        """What the server measures."""
        return self._try(lambda session: str(session.get_function(UNIT)()))

    def close(self) -> None:
        """Give the server back."""
        self._session, self.prepared = None, ""

    def _try(self, work: Callable[[Any], T]) -> T:
        if self._session is None:
            self._session = self._fleet.session()
        try:
            return work(self._session)
        except Exception as error:  # RPCError, RuntimeError, OSError: whatever TVM makes of it
            self.close()
            raise ServerLost(f"a server was lost: {type(error).__name__}") from None


class Fleet:
    """The servers of one key."""

    def __init__(self, tracker: str, key: str) -> None:
        self.tracker, self.key = tracker, key
        self._lock = threading.Lock()
        self._tracker = _connected(tracker)

    def servers(self) -> int:
        """How many there are now."""
        with self._lock:
            info = self._summary()["server_info"]
        return sum(server.get("key") == f"server:{self.key}" for server in info)

    def session(self) -> Any:
        """A server that is free; waits for one."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            with self._lock:
                # One at a time: a request without a free server would wait for ever.
                if self._summary()["queue_info"].get(self.key, {}).get("free", 0) > 0:
                    # A server that goes away in the meantime is asked for again.
                    with suppress(Exception):
                        return self._tracker.request(
                            self.key, session_timeout=SESSION_SECONDS, max_retry=1
                        )
            time.sleep(POLL_SECONDS)
        raise StitchError(
            f"no server with the key {self.key!r} became free within {WAIT_SECONDS:.0f} s at the "
            f"tracker {self.tracker}; start one with `tvm-stitch tune --serve {self.tracker} "
            f"--key {self.key}`"
        )

    def _summary(self) -> dict[str, Any]:
        try:
            if self._tracker is None:
                self._tracker = _connected(self.tracker)
            summary: dict[str, Any] = self._tracker.summary()
            return summary
        except (OSError, RuntimeError):
            self._tracker = None
            raise StitchError(f"the tracker {self.tracker} went away") from None


class RpcRunner(Measuring):
    """Measures on the servers of a tracker."""

    def __init__(
        self, target: tvm.target.Target, tracker: str, key: str, jobs: int | None = None
    ) -> None:
        self._fleet = Fleet(tracker, key)
        first = Remote(self._fleet)
        self._remotes = [first]
        unit = first.unit()
        self._gpu = self._checked(first.ask({"do": "hello"}, START_SECONDS))
        super().__init__(target, unit, jobs)

    def gpu_name(self, workload: Workload) -> str:
        """The servers' GPU; where they only count, the one that is built for."""
        return self._gpu if self.unit == MICROSECONDS else workload.device.name

    def _do(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Every job done by some server; what a lost one was at is done by another."""
        spread = _Spread(jobs)
        while not spread.is_done:
            # Where all servers were lost, this waits for one to come back, or raises.
            while len(self._remotes) < max(1, self._fleet.servers()):
                self._remotes.append(Remote(self._fleet))
            with ThreadPoolExecutor(len(self._remotes)) as threads:
                ends = [threads.submit(spread.work, remote) for remote in self._remotes]
            kept = [end.result() for end in ends]
            self._remotes = [r for r, keep in zip(self._remotes, kept, strict=True) if keep]
        return spread.outcomes()

    def close(self) -> None:
        """Give all servers back."""
        for remote in self._remotes:
            remote.close()
        super().close()

    def _checked(self, hello: Message) -> str:
        if hello.get("package") != PACKAGE:
            raise InputError(
                f"the servers run tvm_stitch {hello.get('package')}, this is {PACKAGE}: their "
                "records would not hold here"
            )
        return str(hello["gpu"])


class _Spread:
    """Jobs that several servers share out among themselves."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._waiting = deque(range(len(jobs)))
        self._losses = [0] * len(jobs)
        self._found: dict[int, list[Outcome]] = {}
        self._change = threading.Condition()

    @property
    def is_done(self) -> bool:
        """Whether every job has an outcome."""
        return len(self._found) == len(self._jobs)

    def outcomes(self) -> list[Outcome]:
        """In the order of the jobs."""
        return [outcome for number in range(len(self._jobs)) for outcome in self._found[number]]

    def work(self, worker: Worker) -> bool:
        """Do jobs until all are done, or the server is lost; whether it is still there."""
        while (number := self._take()) is not None:
            try:
                self._put(number, self._jobs[number].do(worker))
            except ServerLost as lost:
                self._put_back(number, str(lost))
                return False
            except BaseException:
                self._put_back(number, "")
                raise
        return True

    def _take(self) -> int | None:
        """A job; waits while others may still give theirs back."""
        with self._change:
            while not self._waiting and not self.is_done:
                self._change.wait(POLL_SECONDS)
            return self._waiting.popleft() if self._waiting else None

    def _put(self, number: int, outcomes: list[Outcome]) -> None:
        with self._change:
            self._found[number] = outcomes
            self._change.notify_all()

    def _put_back(self, number: int, reason: str) -> None:
        self._losses[number] += 1
        if self._losses[number] >= ATTEMPTS:
            failed = self._jobs[number].failed(f"{reason}, {ATTEMPTS} times over this schedule")
            self._put(number, failed)
            return
        with self._change:
            self._waiting.append(number)
            self._change.notify_all()


def address_of(tracker: str) -> tuple[str, int]:
    """Host and port of "host:port"."""
    host, colon, port = tracker.rpartition(":")
    if not colon or not host or not port.isdigit() or int(port) > 65535:
        raise InputError(f"tracker {tracker!r} is not of the form host:port, such as gpu-1:9190")
    return host, int(port)


def _connected(tracker: str) -> tvm.rpc.TrackerSession:
    """A connection to the tracker, if it is there: TVM alone would try for a minute."""
    address = address_of(tracker)
    try:
        socket.create_connection(address, CONNECT_SECONDS).close()
        return tvm.rpc.connect_tracker(*address)
    except (OSError, RuntimeError) as error:
        raise InputError(
            f"there is no TVM RPC tracker at {tracker}: {error}; start one with "
            f"`python -m tvm.exec.rpc_tracker --port {address[1]}`"
        ) from None
