"""Planning without Python's search for cycles of garbage, which takes a fifth of its time.

Planning makes many objects that live until it is done, and the collector goes through all of them
again and again. What it drops is mostly freed without; of cycles there are four objects for each
operator. What was there before, 400,000 objects once TVM is imported, is not gone through at all.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator
from contextlib import contextmanager

# New objects from one collection to the next.
OBJECTS = 2_000_000

_lock = threading.Lock()
_inside = 0
_before = gc.get_threshold()
_frozen = False


@contextmanager
def few_collections() -> Iterator[None]:
    """Collect seldom meanwhile; several threads may be inside, the last puts all back."""
    global _inside, _before, _frozen
    with _lock:
        if _inside == 0:
            _before = gc.get_threshold()
            if 0 < _before[0] < OBJECTS:  # 0: somebody has switched it off
                gc.set_threshold(OBJECTS, *_before[1:])
            _frozen = gc.get_freeze_count() == 0  # else somebody has, and wants it to stay so
            if _frozen:
                gc.freeze()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                gc.set_threshold(*_before)
                if _frozen:
                    gc.unfreeze()
