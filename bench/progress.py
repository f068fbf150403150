"""What the user sees during a run: a line a case, a bar, and how long it will still take."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import TextIO

from bench.table import width

BAR = 24


def duration(seconds: float) -> str:
    """Minutes and seconds."""
    whole = max(0, round(seconds))
    return f"{whole // 60}:{whole % 60:02d}"


class Progress:
    """A bar at the bottom of a terminal; where there is no terminal, the lines alone."""

    def __init__(self, total: int, out: TextIO | None = None, bar: TextIO | None = None) -> None:
        self._total, self._done = total, 0
        self._out, self._bar = out or sys.stdout, bar or sys.stderr
        self._live = self._bar.isatty()
        self._start = time.monotonic()
        self._now = ""
        self._lock = threading.Lock()

    def line(self, text: str) -> None:
        """A line that stays."""
        with self._lock:
            self._clear()
            print(text, file=self._out, flush=True)
            self._draw()

    def phase(self, text: str) -> None:
        """What is being done now."""
        with self._lock:
            self._now = text
            self._clear()
            self._draw()

    def case_done(self) -> None:
        """One case more."""
        with self._lock:
            self._done += 1

    def close(self) -> None:
        """Take the bar away."""
        with self._lock:
            self._clear()
            self._live = False

    def elapsed(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._start

    def left(self) -> float | None:
        """Seconds still to go, from the cases so far."""
        if not self._done:
            return None
        return self.elapsed() / self._done * (self._total - self._done)

    def text(self) -> str:
        """The bar."""
        filled = round(BAR * self._done / self._total) if self._total else BAR
        left = self.left()
        estimate = f", {duration(left)} left" if left is not None else ""
        bar = "█" * filled + "░" * (BAR - filled)
        return f"{bar} {self._done}/{self._total}{estimate}  {self._now}"

    def _clear(self) -> None:
        if self._live:
            print("\r\x1b[K", end="", file=self._bar, flush=True)

    def _draw(self) -> None:
        if self._live:
            room = shutil.get_terminal_size().columns - 1
            text = self.text()
            while width(text) > room:
                text = text[:-1]
            print(text, end="", file=self._bar, flush=True)
