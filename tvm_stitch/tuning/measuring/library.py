"""A schedule that is being compiled, and what measuring one gave."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """What measuring a schedule gave: a cost, or why there is none."""

    cost: float | None
    error: str = ""


@dataclass(frozen=True)
class Library:
    """A schedule that is being compiled."""

    path: str
    wait: Callable[[], Outcome]  # until it is there, or could not be compiled

    def remove(self) -> None:
        """Wait for the file and delete it."""
        self.wait()
        Path(self.path).unlink(missing_ok=True)
