"""Answers that stay with the Stage or Program that they are about.

Planners ask about the same stages in many sets. An answer must depend on its owner, which never
changes, and on the key alone: whoever asks, whenever, gets the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar


class Remembers(Protocol):
    """What answers stay with."""

    @property
    def memo(self) -> dict[Hashable, Any]:
        """Answers by key."""


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


def remembered(owner: Remembers, key: Hashable, find: Callable[[], Answer]) -> Answer:
    """The same where only some of what is asked about matters: the key says what."""
    memo = owner.memo
    if key not in memo:
        memo[key] = find()
    answer: Answer = memo[key]
    return answer
