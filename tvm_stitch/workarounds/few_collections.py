"""Planning without Python's search for circles of garbage, which takes a fifth of its time.

Planning makes many objects that live until it is done, and the collector goes through all of them
again and again. What it drops is mostly freed without; of circles there are four objects for each
operator.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# New objects from one collection to the next.
OBJECTS = 200_000

_lock = threading.Lock()
_inside = 0
_before = gc.get_threshold()


@contextmanager
def few_collections() -> Iterator[None]:
    """Collect seldom meanwhile; several threads may be inside, the last puts all back."""
    global _inside, _before
    with _lock:
        if _inside == 0:
            _before = gc.get_threshold()
            if 0 < _before[0] < OBJECTS:  # 0: somebody has switched it off
                gc.set_threshold(OBJECTS, *_before[1:])
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                gc.set_threshold(*_before)
