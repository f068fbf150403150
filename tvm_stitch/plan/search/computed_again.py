"""Values that are computed once more rather than written and read.

In: a Region, its Judge and sets of nodes. Out: the same sets with what they read of each other, as
far as it is cheap, and without the outputs that nobody reads then. Must not know costs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_

from tvm_stitch.plan.regions.region import Nodes, Region, Value, bits
from tvm_stitch.plan.search.judge import Judge
from tvm_stitch.stages.stage import Refused

Set = tuple[Nodes, tuple[Value, ...]]  # nodes, and what they write


@dataclass(frozen=True)
class Again:
    """Sets to try: all of a writer's values at once, and each alone."""

    together: tuple[Set, ...]
    single: tuple[Set, ...]


def computing_again(region: Region, judge: Judge, sets: Sequence[Nodes], most: int) -> Again:
    """Readers that compute up to so many nodes of a value's, and writers that then need not."""
    together: list[Set] = []
    single: list[Set] = []
    for writer in sets:
        for whole, each in _of_writer(region, judge, writer, sets, most):
            together.append(whole)
            single += each
    return Again(_distinct(together), _distinct(single))


def _distinct(sets: Sequence[Set]) -> tuple[Set, ...]:
    """Each once, without those that write nothing."""
    return tuple(each for each in dict.fromkeys(sets) if each[1])


def _of_writer(
    region: Region, judge: Judge, writer: Nodes, sets: Sequence[Nodes], most: int
) -> Iterator[tuple[Set, list[Set]]]:
    """For each reader, and the writer: by all values, then by each."""
    verdict = judge(writer)
    if isinstance(verdict, Refused):
        return
    spared: list[Value] = []  # what it need not write if its readers compute it
    taking: dict[Nodes, list[Nodes]] = {}  # by reader, what it would compute
    for value in verdict.outputs:
        again = _cheap(region, judge, value, writer, most)
        users, views = _behind_views(region, value, writer)
        readers = [nodes for nodes in sets if nodes & users] if again else []
        for reader in readers:
            taking.setdefault(reader, []).append(again | views & _before(region, reader))
        if readers and not value.needed:
            spared.append(value)
    for reader, several in taking.items():
        outputs = region.leaving(reader)
        single = [(reader | more, outputs) for more in several]
        yield (reader | reduce(or_, several), outputs), single
    if spared:
        without = [
            (writer, tuple(value for value in verdict.outputs if value not in left_out))
            for left_out in (spared, *([value] for value in spared))
        ]
        yield without[0], without[1:]


def _behind_views(region: Region, value: Value, writer: Nodes) -> tuple[Nodes, Nodes]:
    """Who reads a value outside of its writer, also as a view of another shape; the views."""
    users: Nodes = 0
    views: Nodes = 0
    pending = value.users & ~writer
    while pending:
        place = pending.bit_length() - 1
        pending &= ~(1 << place)
        if region.is_view(place):
            views |= 1 << place
            pending |= region.users[place]
        else:
            users |= 1 << place
    return users, views


def _before(region: Region, nodes: Nodes) -> Nodes:
    """All that a set depends on."""
    found: Nodes = 0
    for place in bits(nodes):
        found |= region.ancestors[place]
    return found


def _cheap(region: Region, judge: Judge, value: Value, nodes: Nodes, most: int) -> Nodes:
    """The nodes that compute a value from what is in memory, if few and element-wise."""
    again = judge.behind(value, nodes)
    return again if again.bit_count() <= most and not judge.reduces(again) else 0
