"""TVM's intrinsics of tensor cores, imported in three seconds instead of half a minute.

DLight's rule for products of halves imports them when it meets the first one. Each of a hundred is
a `T.prim_func`, which asks inspect.stack() who calls it: that looks for the source file of every
frame among all modules. Of the answer TVM uses the frames and the text of the caller's line, which
says whether a class of functions is being written.
"""

from __future__ import annotations

import inspect
import linecache
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTRINSICS = "tvm.s_tir.tensor_intrin.cuda"

_lock = threading.RLock()


@contextmanager
def quick_import_of_intrinsics() -> Iterator[None]:
    """Meanwhile stacks come with one line of source a frame, unless the intrinsics are known."""
    if INTRINSICS in sys.modules:
        yield
        return
    with _lock:
        usual = inspect.stack
        inspect.stack = frames
        try:
            yield
        finally:
            inspect.stack = usual


def frames(context: int = 1) -> list[inspect.FrameInfo]:
    """As inspect.stack(), but that no frame's file is looked for among all modules.

    Of every frame comes the line that it is at, and no more.
    """
    found: list[inspect.FrameInfo] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code, number = frame.f_code, frame.f_lineno
        line = linecache.getline(code.co_filename, number, frame.f_globals) if context else ""
        lines, index = ([line], 0) if line else (None, None)
        found.append(inspect.FrameInfo(frame, code.co_filename, number, code.co_name, lines, index))
        frame = frame.f_back
    return found
