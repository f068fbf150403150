"""Operators too many to be searched as a whole, in parts that are planned one after the other.

In: connected operators of a level. Out: Regions of at most MOST_OPERATORS, each of which waits for
earlier ones alone. Must not know kernels or their costs.

The operators are put in an order in which each follows closely what it reads, and cut where the
fewest bytes cross that a kernel could have kept. Where a cut comes depends on what is near it and
not on its number: blocks that repeat are cut at the same places, into equal parts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from tvm_stitch.graph.front.read import StitchGraph
from tvm_stitch.plan.regions.region import Crossing, Region
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.stage import Var

# A kernel holds no more (Options.largest_kernel), so a chain loses nothing by its cuts.
MOST_OPERATORS = 256
# A part ends behind this many at the soonest, where least crosses from there to the most.
LEAST_OPERATORS = 128


def in_parts(graph: StitchGraph, indices: Sequence[int], level: int) -> list[Region]:
    """The region of some nodes, or its parts in an order in which they can run."""
    if len(indices) <= MOST_OPERATORS:
        return [Region(graph, tuple(indices), level)]
    order = _close_to_sources(graph, indices)
    touched = _touched(graph, order)
    ends = list(_ends(_bytes_across(touched, len(order))))
    return [
        Region(graph, tuple(sorted(order[start:end])), level, number, crossing)
        for number, ((start, end), crossing) in enumerate(
            zip(pairwise([0, *ends]), _crossings(touched, ends), strict=True)
        )
    ]


def _close_to_sources(graph: StitchGraph, indices: Sequence[int]) -> list[int]:
    """The nodes such that each follows its sources, no sooner than somebody wants it."""
    inside = set(indices)
    order: dict[int, None] = {}
    for last in indices:
        pending = [] if graph.users[last] & inside else [last]
        while pending:
            before = sorted(s for s in graph.sources[pending[-1]] if s in inside and s not in order)
            if before:
                pending += reversed(before)
            else:
                order[pending.pop()] = None
    return list(order)


@dataclass
class _Touched:
    """A tensor, and at which positions it is written and read."""

    bytes: int
    positions: list[int]
    is_computed: bool  # the first position writes it
    is_stored: bool  # whatever is cut: read outside as well


def _touched(graph: StitchGraph, order: Sequence[int]) -> list[_Touched]:
    """What the nodes compute and read, in the order of first use."""
    inside = set(order)
    found: dict[Var, _Touched] = {}
    for position, index in enumerate(order):
        node = graph.nodes[index]
        for buffer in dict.fromkeys(map(graph.buffer, node.operands)):
            if buffer not in found:
                found[buffer] = _Touched(NOMINAL.bytes(buffer), [], False, True)
            found[buffer].positions.append(position)
        for var in node.results:
            stored = var in graph.used_outside or not graph.users_of.get(var, set()) <= inside
            size = NOMINAL.bytes(graph.buffer(var))
            found[graph.buffer(var)] = _Touched(size, [position], True, stored)
    return list(found.values())


def _bytes_across(touched: Sequence[_Touched], count: int) -> list[int]:
    """For every position, the bytes that lie between two uses near enough for one kernel."""
    changes = [0] * (count + 1)
    for each in touched:
        for first, second in pairwise(each.positions):
            if second - first <= MOST_OPERATORS:
                changes[first + 1] += each.bytes
                changes[second + 1] -= each.bytes
    return list(accumulate(changes))


def _ends(across: Sequence[int]) -> Iterator[int]:
    """Where the parts end: where least crosses, and as late as that is so."""
    start, count = 0, len(across) - 1
    while count - start > MOST_OPERATORS:
        places = range(start + LEAST_OPERATORS, start + MOST_OPERATORS + 1)
        start = min(places, key=lambda place: (across[place], -place))
        yield start
    yield count


def _crossings(touched: Sequence[_Touched], ends: Sequence[int]) -> list[Crossing]:
    """For every part, what a kernel could have kept that holds operators of earlier parts too."""
    part_of = [number for number, (a, b) in enumerate(pairwise([0, *ends])) for _ in range(a, b)]
    bytes_, tensors = [0] * len(ends), [0] * len(ends)
    for each in touched:
        parts = sorted({part_of[position] for position in each.positions})
        for number in parts[1:]:
            bytes_[number] += each.bytes
            tensors[number] += 1
        if len(parts) > 1 and not each.is_stored:
            bytes_[parts[1]] += each.bytes
    return list(map(Crossing, bytes_, tensors))
