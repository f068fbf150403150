"""What became of a case: plain data, which goes from a case's process to the report.

Must know neither TVM nor ONNX.
"""

from __future__ import annotations

import enum
import json
from dataclasses import dataclass

LONGEST_REASON = 300  # characters


class Verdict(str, enum.Enum):
    """What became of a case. The order is that of the report, the value what it says."""

    VERIFIED = "stitched and verified"
    NOT_STITCHED = "right, nothing stitched"
    IMPORTER = "importer refuses"
    TVM_FAILS = "TVM itself fails"
    TVM_WRONG = "TVM itself wrong"
    WRONG = "wrong"
    CRASH = "crash"

    @property
    def right(self) -> bool:
        """Whether nothing is left to do for tvm_stitch."""
        return self not in (Verdict.WRONG, Verdict.CRASH)


@dataclass(frozen=True)
class Outcome:
    """What became of a case, and why."""

    name: str
    kind: str
    verdict: Verdict
    reason: str = ""
    kernels: int = 0  # stitched ones
    notes: tuple[str, ...] = ()  # what is right and not as good as it should be
    seconds: float = 0.0

    @staticmethod
    def from_json(text: str) -> Outcome:
        """What json.dumps made of an outcome's fields."""
        fields = json.loads(text)
        verdict, notes = Verdict(fields["verdict"]), tuple(fields["notes"])
        return Outcome(**{**fields, "verdict": verdict, "notes": notes})


class Stage(str, enum.Enum):
    """What is being done with a case, for when the process ends."""

    START = "starting"
    IMPORT = "importing"
    TVM = "TVM's own build"
    EXPLAIN = "explain"
    COMPILE = "compile"
    VERIFY = "verify"
