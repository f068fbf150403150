"""Answers that stay with the Stage or Program that they are about.

Planners ask about the same stages in many sets. An answer must depend on its owner, which never
changes, and on the key alone: whoever asks, whenever, gets the same. An answer that names no buffer
is found once for all stages that differ in their buffers alone, as those of one PrimFunc do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from tvm import tirx


class Remembers(Protocol):
    """What answers stay with."""

    @property
    def memo(self) -> dict[Hashable, Any]:
        """Answers by key."""


class HasCopies(Protocol):
    """What is copied for other buffers, and shares answers with its copies."""

    @property
    def copies_memo(self) -> dict[Hashable, Any]:
        """Answers by key that name no buffer."""


Copied = TypeVar("Copied", bound=HasCopies)
Owner = TypeVar("Owner", bound=Remembers)
Rest = ParamSpec("Rest")
Answer = TypeVar("Answer")


def memoized(
    find: Callable[Concatenate[Owner, Rest], Answer],
) -> Callable[Concatenate[Owner, Rest], Answer]:
    """A function of a Stage or a Program, and of hashable values, that is worked out once."""

    @wraps(find)
    def known(owner: Owner, *rest: Rest.args, **named: Rest.kwargs) -> Answer:
        key = (find, *rest, *named.items())
        return remembered(owner, key, lambda: find(owner, *rest, **named))

    return known


def memoized_for_copies(
    find: Callable[Concatenate[Copied, Rest], Answer],
) -> Callable[Concatenate[Copied, Rest], Answer]:
    """The same of what holds of every copy of a Stage: it may name axes, but no buffer."""

    @wraps(find)
    def known(owner: Copied, *rest: Rest.args, **named: Rest.kwargs) -> Answer:
        key = (find, *rest, *named.items())
        return remembered_for_copies(owner, key, lambda: find(owner, *rest, **named))

    return known


def memoized_of_buffer(find: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
    """A function of a buffer, whose type never changes; the answer stays with the Python object.

    Of other expressions it is found anew: TVM makes a new object at every access.
    """
    name = f"_stitch_{find.__name__}"

    @wraps(find)
    def known(buffer: Any) -> Answer:
        if not isinstance(buffer, tirx.Var):
            return find(buffer)
        facts = buffer.__dict__
        if name not in facts:
            if not isinstance(buffer.ty, tirx.BufferType):  # Relax changes types of its variables
                return find(buffer)
            facts[name] = find(buffer)
        answer: Answer = facts[name]
        return answer

    return known


def remembered(owner: Remembers, key: Hashable, find: Callable[[], Answer]) -> Answer:
    """The same where only some of what is asked about matters: the key says what."""
    return _remembered(owner.memo, key, find)


def remembered_for_copies(owner: HasCopies, key: Hashable, find: Callable[[], Answer]) -> Answer:
    """The same of what holds of every copy of a Stage."""
    return _remembered(owner.copies_memo, key, find)


def _remembered(memo: dict[Hashable, Any], key: Hashable, find: Callable[[], Answer]) -> Answer:
    if key not in memo:
        memo[key] = find()
    answer: Answer = memo[key]
    return answer
