"""What the modules of one model have in common is planned and written once.

In: a scope, within which such modules are compiled. Out: a memory, for whoever can use one. Must
not know what is remembered.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Answer = TypeVar("Answer")
_memory: ContextVar[dict[Hashable, Any] | None] = ContextVar("memory", default=None)


@contextmanager
def shared_work() -> Iterator[None]:
    """Modules compiled within, by this thread, share what the key of a question says all of."""
    token = _memory.set({})
    try:
        yield
    finally:
        _memory.reset(token)


def once(key: Callable[[], Hashable], find: Callable[[], Answer]) -> Answer:
    """The answer to a question, found once in a scope; outside of one, nothing is remembered."""
    memory = _memory.get()
    if memory is None:
        return find()
    asked = key()
    if asked not in memory:
        memory[asked] = find()
    answer: Answer = memory[asked]
    return answer
