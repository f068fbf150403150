"""Answers that stay with the Stage or Program that they are about.

Planners ask about the same stages in many sets. An answer must depend on its owner, which never
changes, and on the key alone: whoever asks, whenever, gets the same. An answer that names no buffer
is found once for all stages that differ in their buffers alone, as those of one PrimFunc do.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

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
_UNKNOWN: Any = object()


if sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property(Generic[Answer]):
        """That of functools without its lock, as it is from Python 3.12 on, in half the time."""

        def __init__(self, find: Callable[[Any], Answer]) -> None:
            self.find, self.__doc__ = find, find.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self.name = name

        @overload
        def __get__(self, owner: None, kind: type) -> cached_property[Answer]: ...

        @overload
        def __get__(self, owner: object, kind: type) -> Answer: ...

        def __get__(self, owner: object | None, kind: type) -> Any:
            if owner is None:
                return self
            owner.__dict__[self.name] = answer = self.find(owner)
            return answer


def memoized(
    find: Callable[Concatenate[Owner, Rest], Answer],
) -> Callable[Concatenate[Owner, Rest], Answer]:
    """A function of a Stage or a Program, and of hashable values, that is worked out once."""

    @wraps(find)
    def known(owner: Owner, *rest: Rest.args, **named: Rest.kwargs) -> Answer:
        # Asked so often that a call more, or a second look for the key, is felt.
        memo, key = owner.memo, (find, *rest, *named.items())
        answer = memo.get(key, _UNKNOWN)
        if answer is _UNKNOWN:
            memo[key] = answer = find(owner, *rest, **named)
        return answer  # type: ignore[no-any-return]

    return known


def memoized_for_copies(
    find: Callable[Concatenate[Copied, Rest], Answer],
) -> Callable[Concatenate[Copied, Rest], Answer]:
    """The same of what holds of every copy of a Stage: it may name axes, but no buffer."""

    @wraps(find)
    def known(owner: Copied, *rest: Rest.args, **named: Rest.kwargs) -> Answer:
        memo, key = owner.copies_memo, (find, *rest, *named.items())
        answer = memo.get(key, _UNKNOWN)
        if answer is _UNKNOWN:
            memo[key] = answer = find(owner, *rest, **named)
        return answer  # type: ignore[no-any-return]

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
    answer = memo.get(key, _UNKNOWN)
    if answer is _UNKNOWN:
        memo[key] = answer = find()
    return answer  # type: ignore[no-any-return]
