"""What the process of every case starts with; the fork server imports it once.

So a case costs a fork, not the seconds that importing TVM and making ONNX's data take.
"""

from __future__ import annotations

from multiprocessing.connection import Connection

from tests.outside.onnx import cases
from tests.outside.onnx.judge import judge

cases.suite()


def send_kinds(sender: Connection) -> None:
    """The body of a process that only says which cases there are."""
    sender.send(cases.kinds())


def send_outcome(sender: Connection, name: str) -> None:
    """The body of a case's process: the stages that it enters, then the Outcome."""
    sender.send(judge(cases.load(name), sender.send))
