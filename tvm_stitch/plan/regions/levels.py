"""A graph falls into regions that can be planned one by one.

In: a StitchGraph. Out: Regions, each of operators that could share kernels. Must not know kernels
or their costs.

Matrix products, convolutions and opaque operators divide a graph into levels: what every operator
of a level needs lies in that level or an earlier one. Kernels stay within a level, so no choice
made in one region can close a cycle through another. An operator is placed as late as its users
allow, with the first that wants its result; one that only dividers wait for, as for the values of
an attention, cut out of what one product gives, with the last that it is computed from. What only
outputs wait for goes with what it is computed from, or to the last level if that is nothing but
products and parameters: the updates of an optimizer then meet in one place.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from tvm_stitch.graph.front.read import Node, StitchGraph
from tvm_stitch.plan.regions.parts import in_parts
from tvm_stitch.plan.regions.region import Region
from tvm_stitch.stages.op_pattern import Pattern
from tvm_stitch.stages.stage import Var, elements_of


def find_regions(graph: StitchGraph) -> tuple[Region, ...]:
    """Every operator that could be stitched, in exactly one region; in an order of running."""
    levels = find_levels(graph)
    groups = _Groups(len(graph.nodes))
    readers: dict[tuple[int, Var], int] = {}
    for node in graph.nodes:
        if node.reason:
            continue
        level = levels[node.index]
        for source in graph.sources[node.index]:
            if not graph.nodes[source].reason and levels[source] == level:
                groups.join(source, node.index)
        for buffer in _shared_operands(graph, node):
            groups.join(readers.setdefault((level, buffer), node.index), node.index)
    members = groups.members(node.index for node in graph.nodes if not node.reason)
    regions = (part for nodes in members for part in in_parts(graph, nodes, levels[nodes[0]]))
    return tuple(sorted(regions, key=lambda region: (region.rank, region.indices)))


def find_levels(graph: StitchGraph) -> list[int]:
    """The level of every node; a divider belongs to the level after which it runs."""
    earliest = _earliest(graph)
    ends = _ends(graph)
    levels = list(earliest)
    for node in reversed(graph.nodes):
        if not node.reason and node.index not in ends:
            users = [user for user in graph.users[node.index] if graph.nodes[user].is_operator]
            levels[node.index] = min(levels[user] for user in users)
    _with_sources(graph, levels, ends)
    last = max(levels, default=0)
    for component in _components(graph, ends):
        level = _level_of_ends(graph, component, ends, levels, last)
        for index in component:
            levels[index] = level
    return levels


def _earliest(graph: StitchGraph) -> list[int]:
    """The number of dividers on the longest way to each node."""
    found: list[int] = []
    for node in graph.nodes:
        before = (found[s] + bool(graph.nodes[s].reason) for s in graph.sources[node.index])
        found.append(max(before, default=0))
    return found


def _ends(graph: StitchGraph) -> set[int]:
    """Nodes that no divider waits for, not even through others."""
    found: set[int] = set()
    for node in reversed(graph.nodes):
        users = (user for user in graph.users[node.index] if graph.nodes[user].is_operator)
        if not node.reason and all(user in found for user in users):
            found.add(node.index)
    return found


def _with_sources(graph: StitchGraph, levels: list[int], ends: set[int]) -> None:
    """Bring what only dividers wait for, views aside, to the level of its last source.

    No kernel of a later level could hold it together with a user of its own.
    """
    waited_for: set[int] = set()
    for node in reversed(graph.nodes):
        users = [user for user in graph.users[node.index] if graph.nodes[user].is_operator]
        if node.reason or node.index in ends:
            continue
        views = (user for user in users if not graph.nodes[user].reason)
        if all(u in waited_for and graph.nodes[u].pattern is Pattern.RESHAPE for u in views):
            waited_for.add(node.index)
    for index in sorted(waited_for):
        sources = graph.sources[index]
        level = max((levels[s] + bool(graph.nodes[s].reason) for s in sources), default=-1)
        if any(levels[s] == level and not graph.nodes[s].reason for s in sources):
            levels[index] = level


def _components(graph: StitchGraph, nodes: set[int]) -> list[list[int]]:
    """Nodes connected by values among themselves."""
    groups = _Groups(len(graph.nodes))
    for index in nodes:
        for source in graph.sources[index] & nodes:
            groups.join(source, index)
    return groups.members(sorted(nodes))


def _level_of_ends(
    graph: StitchGraph, component: list[int], ends: set[int], levels: list[int], last: int
) -> int:
    """With the last of what they are computed from; at the end if they share nothing with it."""
    sources = {source for index in component for source in graph.sources[index]} - ends
    level = max((levels[s] + bool(graph.nodes[s].reason) for s in sources), default=0)
    if any(not graph.nodes[source].reason for source in sources):
        return level
    others: set[int] = set()
    for index in component:
        for var in graph.nodes[index].operands:
            if _is_large(graph.buffer(var)):
                others |= graph.users_of.get(var, frozenset())
    converges = any(
        levels[other] >= level and not graph.nodes[other].reason for other in others - ends
    )
    return level if converges else max(last, level)


def _shared_operands(graph: StitchGraph, node: Node) -> Iterable[Var]:
    return (buffer for buffer in map(graph.buffer, node.operands) if _is_large(buffer))


def _is_large(buffer: Var) -> bool:
    """Whether reading it twice costs anything: scalars are read by everybody."""
    return elements_of(buffer) != 1


class _Groups:
    """Disjoint sets of numbers."""

    def __init__(self, count: int) -> None:
        self.leader = list(range(count))

    def find(self, number: int) -> int:
        while self.leader[number] != number:
            self.leader[number] = self.leader[self.leader[number]]
            number = self.leader[number]
        return number

    def join(self, left: int, right: int) -> None:
        self.leader[self.find(left)] = self.find(right)

    def members(self, numbers: Iterable[int]) -> list[list[int]]:
        """The sets of these numbers, each in the order given."""
        found: dict[int, list[int]] = defaultdict(list)
        for number in numbers:
            found[self.find(number)].append(number)
        return list(found.values())
