"""Compiling in several threads: TVM's scope of operator tags, one for each thread.

TVM keeps the tag that topi gives an operator in one variable for all threads; where two legalise at
once, one ends in "nested op_tag is not allowed for now". Here is no lock, since whoever uses topi
without knowing of this package would have to hold it as well.
"""

from __future__ import annotations

import threading
from typing import Any

from tvm.te.tag import TagScope

_entered = threading.local()


def keep_op_tags_by_thread() -> None:
    """Mend TVM's TagScope for the whole process; to do so twice does no harm."""
    TagScope.__enter__ = _enter
    TagScope.__exit__ = _exit
    TagScope.get_current = staticmethod(_current)


def _current() -> Any:
    scope = getattr(_entered, "scope", None)
    if scope is not None:
        scope.accessed = True
    return scope


def _enter(scope: Any) -> Any:
    if getattr(_entered, "scope", None) is not None:
        raise ValueError("nested op_tag is not allowed for now")
    _entered.scope = scope
    return scope


def _exit(scope: Any, *_error: Any) -> None:
    _entered.scope = None
