"""What a user sees while tuning: a line that is rewritten on a terminal, else one for each kernel.

In: what a search tells after every batch. Out: text on standard error.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol, TextIO

from tvm_stitch.commands.terminal import Line, minutes


@dataclass(frozen=True)
class State:
    """How far a search is."""

    kernel: int  # from 1
    kernels: int
    title: str
    trials: int  # of this kernel so far
    most_trials: int
    measured: int  # trials of all kernels that were not taken from the store
    unit: str
    analytic: float | None
    best: float | None
    floor: float | None
    done: bool = False
    why: str = ""  # why nothing could be measured, if so


class Progress(Protocol):
    """Is told after every batch."""

    def __call__(self, state: State) -> None:
        """Show it."""


def silent(state: State) -> None:
    """Shows nothing."""


class Bar:
    """Shows progress on a stream."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._line = Line(stream)
        self._started = time.monotonic()

    def __call__(self, state: State) -> None:
        """Rewrite the line; without a terminal, a line when a kernel is done."""
        self._line.show(describe(state, self._left(state)), stays=state.done)

    def _left(self, state: State) -> float | None:
        """Seconds that are left, were all trials still to be measured at the pace so far."""
        if not state.measured:
            return None
        pace = (time.monotonic() - self._started) / state.measured
        kernels_after = state.kernels - state.kernel
        this = 0 if state.done else state.most_trials - state.trials
        return pace * (this + kernels_after * state.most_trials)


def describe(state: State, left: float | None) -> str:
    """One line; a terminal of 80 columns shows the time left, the best so far and its gain."""
    words = [f"[{state.kernel}/{state.kernels}]"]
    filled = round(10 * state.trials / state.most_trials)
    words.append("#" * filled + "." * (10 - filled))
    words.append(f"{state.trials}/{state.most_trials}")
    if left is not None and not state.done:
        words.append(f"{minutes(left)} left")
    if state.best is None:
        words.append("nothing measured" + (f" ({state.why})" if state.why else ""))
    else:
        words.append(f"best {state.best:.6g} {state.unit}")
        if state.analytic is not None:
            words.append(f"({state.analytic / state.best:.3f} x the chosen one's speed)")
        if state.floor is not None and state.unit == "us":
            words.append(f"{100 * state.floor / state.best:.0f} % of the floor's speed")
    return " ".join([*words, state.title])
