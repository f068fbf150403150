"""TVM's intrinsics of tensor cores, imported in three seconds instead of half a minute.

DLight's rule for products of halves imports them when it meets the first one. Each of a hundred is
a `T.prim_func`, which asks inspect.stack() who calls it: that looks for the source file of every
frame among all modules. Of the answer TVM uses the frames and the text of the caller's line, which
would say whether a class of functions is being written; none is here.
"""

from __future__ import annotations

import inspect
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

INTRINSICS = "tvm.s_tir.tensor_intrin.cuda"

_lock = threading.RLock()


@contextmanager
def quick_import_of_intrinsics() -> Iterator[None]:
    """Meanwhile stacks come without lines of source, unless the intrinsics are known already."""
    if INTRINSICS in sys.modules:
        yield
        return
    with _lock:
        usual = inspect.stack
        inspect.stack = _frames
        try:
            yield
        finally:
            inspect.stack = usual


def _frames(context: int = 1) -> list[inspect.FrameInfo]:
    """As inspect.stack(), but that nothing is looked up in files."""
    found: list[inspect.FrameInfo] = []
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code = frame.f_code
        found.append(
            inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None)
        )
        frame = frame.f_back
    return found
