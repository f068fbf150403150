"""Kernels of a plan beside those that TVM would launch for the same operators.

In: both, each by the operators that it computes. Out: those that have to do with each other, and
which stitched ones to give up where they are more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tvm_stitch.graph.back.default_fusion import DefaultKernel, Numbers
from tvm_stitch.plan.plan import Group


@dataclass(frozen=True, eq=False)
class Launched:
    """One stitched kernel, or what FuseOps puts together, by the operators that it computes."""

    numbers: Numbers
    group: Group | None = None
    default: DefaultKernel | None = None
    holds_product: bool = False  # a group with a product on tensor cores


def connected(
    ours: Sequence[Launched], theirs: Sequence[Launched]
) -> list[tuple[list[Launched], list[Launched]]]:
    """Kernels of both sides that share operators, directly or through others; ours among them."""
    holders: dict[int, list[Launched]] = {}
    for each in (*ours, *theirs):
        for number in each.numbers:
            holders.setdefault(number, []).append(each)
    place: dict[Launched, int] = {}
    for start, first in enumerate(ours):
        pending = [first]
        while pending:
            each = pending.pop()
            if each not in place:
                place[each] = start
                pending += [near for number in each.numbers for near in holders[number]]
    found: dict[int, tuple[list[Launched], list[Launched]]] = {}
    for side, kernels in enumerate((ours, theirs)):
        for each in kernels:
            if each in place:
                found.setdefault(place[each], ([], []))[side].append(each)
    return list(found.values())


def to_give_up(
    ours: Sequence[Launched], theirs: Sequence[Launched], count: Callable[[Launched], int]
) -> list[Launched]:
    """Stitched kernels without which no more is launched than by TVM, those that save least."""
    kept = [each for each in ours if each.group is not None]
    most = sum(map(count, theirs))

    def launches(stitched: Sequence[Launched]) -> int:
        covered = frozenset().union(*(each.numbers for each in stitched))
        return len(stitched) + sum(count(each) for each in theirs if each.numbers - covered)

    given_up: list[Launched] = []
    while kept and (not given_up or launches(kept) > most):
        rest = [[other for other in kept if other is not each] for each in kept]
        saved = [each.group.bytes_saved if each.group else 0 for each in kept]
        _, _, place = min((launches(rest[i]), saved[i], i) for i in range(len(kept)))
        given_up.append(kept[place])
        kept = rest[place]
    return given_up
