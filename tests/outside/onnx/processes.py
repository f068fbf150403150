"""Every case in a process of its own, with a time limit: what crashes costs one case.

In: names of cases and their kinds. Out: Outcomes, in the order in which they are done.
This process imports neither TVM nor ONNX's data: the fork server holds them, see forked.py.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess

from tests.outside.onnx.outcome import Outcome, Stage, Verdict

# What a process does: it sends through the connection, and may be given a name.
Body = Callable[..., None]
# Seconds for a process to start, when its limit begins: the first waits for the fork server.
STARTING = 600.0
# How a Python process ends with an exception: here, one of the code that judges.
FAILED = 1
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.outside.onnx.forked"])


def kinds() -> dict[str, str]:
    """The kind of every case of the suite, by name."""
    receiver, process = _start(_send_kinds)
    found = receiver.recv()
    process.join()
    return found


def outcomes(
    chosen: Mapping[str, str], jobs: int, limit: float, body: Body | None = None
) -> Iterator[Outcome]:
    """Judge cases in so many processes at a time, each within so many seconds.

    `body` is what the process of a case does instead of judging it.
    """
    waiting = list(reversed(chosen))
    running: dict[Connection, _Running] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                name = waiting.pop()
                receiver, process = _start(body or judge_case, name)
                running[receiver] = _Running(name, chosen[name], process, limit)
            soonest = min(each.deadline for each in running.values())
            wait(list(running), max(0.0, soonest - time.monotonic()))
            for receiver, case in list(running.items()):
                outcome = case.outcome(receiver)
                if outcome is not None:
                    del running[receiver]
                    yield outcome
    finally:
        for case in running.values():
            case.process.kill()


@dataclass
class _Running:
    """A case in its process."""

    name: str
    kind: str
    process: BaseProcess
    limit: float
    stage: Stage = Stage.START
    deadline: float = field(default_factory=lambda: time.monotonic() + STARTING)

    def outcome(self, receiver: Connection) -> Outcome | None:
        """What became of it, None as long as it runs."""
        try:
            while receiver.poll():
                message = receiver.recv()
                if isinstance(message, Outcome):
                    self.process.join()
                    return message
                if self.stage is Stage.START:
                    self.deadline = time.monotonic() + self.limit
                self.stage = message
        except EOFError:
            self.process.join()
            return self._lost(f"the process ended with {_ending(self.process.exitcode)}")
        if time.monotonic() < self.deadline:
            return None
        self.process.kill()
        self.process.join()
        return self._lost(f"not done after {self.limit:g} s")

    def _lost(self, how: str) -> Outcome:
        of_others = {Stage.IMPORT: Verdict.IMPORTER, Stage.TVM: Verdict.TVM_FAILS}
        verdict = of_others.get(self.stage, Verdict.CRASH)
        if self.process.exitcode == FAILED:
            verdict = Verdict.CRASH
        return Outcome(self.name, self.kind, verdict, f"{self.stage.value}: {how}")


def judge_case(sender: Connection, name: str) -> None:
    """The body of a case's process: sends the stages that it enters, then the Outcome."""
    from tests.outside.onnx import cases
    from tests.outside.onnx.judge import judge

    sender.send(judge(cases.load(name), sender.send))


def _send_kinds(sender: Connection) -> None:
    from tests.outside.onnx import cases

    sender.send(cases.kinds())


def _start(body: Body, *arguments: str) -> tuple[Connection, BaseProcess]:
    receiver, sender = _context.Pipe(duplex=False)
    process = _context.Process(target=_quietly, args=(body, sender, *arguments), daemon=True)
    process.start()
    sender.close()
    return receiver, process


def _quietly(body: Body, sender: Connection, *arguments: str) -> None:
    # TVM's importer and compiler print what the Outcome says as well.
    null = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(null, stream)
    body(sender, *arguments)


def _ending(code: int | None) -> str:
    if code is not None and code < 0:
        return signal.Signals(-code).name
    return f"exit code {code}"
