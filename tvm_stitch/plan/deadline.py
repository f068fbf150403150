"""The time that planning may take.

Whoever searches asks whether it is up; what has been found by then stands. Nothing else depends on
a clock, so plans are the same on any machine that is done in time.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

REACHED = "time limit"
NOT_PLANNED = "planning's time limit was reached before it"


@dataclass(frozen=True)
class Deadline:
    """A moment of the monotonic clock."""

    end: float = float("inf")

    @staticmethod
    def after(seconds: float) -> Deadline:
        """So many seconds from now."""
        return Deadline(time.monotonic() + seconds)

    @property
    def seconds(self) -> float:
        """What is left, none at the least."""
        return max(0.0, self.end - time.monotonic())

    @property
    def is_over(self) -> bool:
        """Whether nothing is left."""
        return self.seconds == 0.0


NEVER = Deadline()
