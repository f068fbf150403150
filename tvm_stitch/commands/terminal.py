"""What a terminal sees more than a file: colours, and a line at the bottom that is written anew.

In: texts. Out: text; without a terminal, no colours, and only those lines that are to stay.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from tvm_stitch import timing

_BOLD, _RED, _GREEN, _YELLOW = 1, 31, 32, 33
# Of reports, verifications and differences, whose texts know nothing of colours.
_COLOURS = (
    (r"^(?:before|after|plan|target|time)(?= )", _BOLD),
    (r"^\d+  \w+$", _BOLD),  # a kernel
    (r"^[A-Z][^:]*:$", _BOLD),  # a heading
    (r"^(?:ok$|\+ .*|faster: .*)", _GREEN),
    (r"^(?:NOT OK.*|- .*|slower: .*)", _RED),
    (r"^~ .*", _YELLOW),
)


def coloured(text: str, stream: TextIO | None = None) -> str:
    """The text as a terminal gets it; as it is for a file, or where NO_COLOR is set."""
    if os.environ.get("NO_COLOR") or not (stream or sys.stdout).isatty():
        return text
    for pattern, code in _COLOURS:
        text = re.sub(pattern, rf"\033[{code}m\g<0>\033[0m", text, flags=re.M)
    return text


class Line:
    """A line of a stream."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self.is_rewritten = self._stream.isatty()

    def show(self, text: str, stays: bool = False) -> None:
        """Put a text in the place of the last one; what stays gets the next one below it."""
        if not self.is_rewritten and not stays:
            return
        if self.is_rewritten:
            width = shutil.get_terminal_size().columns
            text = "\r" + text[: width - 1].ljust(width - 1)
        self._stream.write(text + ("\n" if stays else ""))
        self._stream.flush()

    def clear(self) -> None:
        """Leave an empty line, with its beginning to write at."""
        if self.is_rewritten:
            self.show("")
            self._stream.write("\r")
            self._stream.flush()


def minutes(seconds: float) -> str:
    """Minutes and seconds."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


@contextmanager
def stages_shown(stream: TextIO | None = None) -> Iterator[None]:
    """The stages within are shown on a terminal while they last; without one, nothing is."""
    line = Line(stream)

    def show(state: timing.State) -> None:
        words = [state.stage]
        if state.most:
            words.append(f"{state.done}/{state.most}")
        if state.left is not None:
            words.append(f"{minutes(state.left)} left")
        line.show(" ".join(words))

    try:
        with timing.heard_by(show):
            yield
    finally:
        line.clear()
