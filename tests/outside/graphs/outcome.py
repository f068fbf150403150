"""What became of a graph: one word, and enough to find it again."""

from __future__ import annotations

import json
import re
import traceback
from dataclasses import asdict, dataclass, replace
from pathlib import Path

OK = "ok"
# How a stage begins in which a number was wrong already.
WRONG = "wrong: "
# The words, and what they mean; in the order of a table, the worst first.
KINDS = {
    "wrong": "a wrong number",
    "crash": "an exception of ours, where TVM's default pipeline compiles and runs",
    "died": "the process ended: a signal, an illegal access",
    "hang": "no answer in time",
    "hazard": "a race, a stray access, or other bits the second time",
    "launches": "more launches than TVM's default pipeline",
    "refused": "refused with a reason, where TVM's default pipeline compiles",
    "executor": "compiled, but beyond the CPU executor",
    "tvm-wrong": "wrong, and as wrong in TVM's default pipeline",
    "tvm": "an exception, and the same in TVM's default pipeline",
    "tvm-other": "an exception, and another one in TVM's default pipeline",
    "invalid": "the generator's or the oracle's own mistake",
    OK: "right, no hazard, no more launches than TVM's default pipeline",
}
# Whose fault each is: the compiler's; TVM's as well, at the least; nobody knows.
OURS = ("wrong", "crash", "died", "hang", "hazard", "launches", "refused")
TVMS = ("tvm-wrong", "tvm", "tvm-other")
NOT_JUDGED = ("executor", "invalid")
FAILURES = (*OURS, "invalid")


@dataclass(frozen=True)
class Outcome:
    """What became of one graph."""

    seed: int
    kind: str
    detail: str = ""
    where: str = ""  # a signature: equal for what has the same cause, as far as a trace tells
    stage: str = ""
    operators: int = 0
    seconds: float = 0.0
    launches: tuple[int | None, int | None] = (None, None)  # ours, TVM's default
    stitched: int = 0  # kernels of ours
    fatal: bool = False  # the process that says so cannot go on

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @staticmethod
    def from_json(text: str) -> Outcome:
        """The inverse of to_json."""
        found = json.loads(text)
        return replace(Outcome(**found), launches=tuple(found["launches"]))

    def __str__(self) -> str:
        shown = f"seed {self.seed}: {self.kind}"
        return f"{shown}, {self.detail}" if self.detail else shown


def signature(error: BaseException) -> str:
    """Where an error comes from: the innermost line of tvm_stitch, and the message's last line."""
    frames = [
        f"{Path(frame.filename).parent.name}/{Path(frame.filename).name}:{frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if "/tvm_stitch/" in frame.filename
    ]
    return f"{frames[-1] if frames else '?'} {type(error).__name__}: {last_line(error)}"


def last_line(error: BaseException) -> str:
    """What an error says at its end, equal for what differs in numbers and addresses alone."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    text = lines[-1] if lines else ""
    text = re.sub(r"0x[0-9a-f]+", "0x", text)
    return re.sub(r"\d+", "#", text)[:160]
