"""Operators that are planned together, as numbers and bit sets.

In: nodes of a StitchGraph. Out: a Region that answers what depends on what, and a key that is equal
for regions that are equal up to renaming. Must not know kernels or their costs.

A set of nodes is an int, its bits the nodes by their place in the region: unions, differences and
reachability are then single operations. Values are numbered as well, in the order of their nodes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from tvm_stitch.graph.front.read import Node, StitchGraph
from tvm_stitch.plan.regions.structure import Described
from tvm_stitch.stages.memoized import cached_property
from tvm_stitch.stages.op_pattern import Pattern
from tvm_stitch.stages.stage import Var

Nodes = int  # a set of a region's nodes, one bit each


def bits(nodes: Nodes) -> Iterator[int]:
    """The places of a set's nodes, in order."""
    while nodes:
        lowest = nodes & -nodes
        yield lowest.bit_length() - 1
        nodes ^= lowest


@dataclass(frozen=True)
class Value:
    """A tensor that a node of the region computes."""

    number: int
    node: int  # place in the region
    result: int  # which of the node's results
    users: Nodes
    needed: bool  # used outside of the region


@dataclass(frozen=True)
class Crossing:
    """What nodes share with others that are planned apart, though a kernel could hold both."""

    bytes: int = 0  # written and read again
    tensors: int = 0


@dataclass(frozen=True, eq=False)
class Region:
    """Nodes of one level that are connected by values or by what they read, or a part of them."""

    graph: StitchGraph
    indices: tuple[int, ...]  # of the nodes in the graph
    level: int
    part: int = 0  # of the connected nodes, if they are too many for one region
    crossing: Crossing = Crossing()  # with earlier parts

    @property
    def rank(self) -> tuple[int, int]:
        """Regions of later ranks may wait for this one; others of its own rank do not."""
        return self.level, self.part

    @cached_property
    def nodes(self) -> tuple[Node, ...]:
        """The nodes, by their place."""
        return tuple(self.graph.nodes[index] for index in self.indices)

    @property
    def everything(self) -> Nodes:
        """All nodes."""
        return (1 << len(self.indices)) - 1

    @cached_property
    def sources(self) -> tuple[Nodes, ...]:
        """For every node, those of the region whose results it uses."""
        return tuple(self._set(self.graph.sources[index]) for index in self.indices)

    @cached_property
    def users(self) -> tuple[Nodes, ...]:
        """For every node, those of the region that use its results."""
        return tuple(self._set(self.graph.users[index]) for index in self.indices)

    @cached_property
    def ancestors(self) -> tuple[Nodes, ...]:
        """For every node, all that it depends on."""
        found: list[Nodes] = []
        for sources in self.sources:
            found.append(sources | _union(found, sources))
        return tuple(found)

    @cached_property
    def descendants(self) -> tuple[Nodes, ...]:
        """For every node, all that depend on it."""
        found: list[Nodes] = [0] * len(self.indices)
        for place in reversed(range(len(self.indices))):
            found[place] = self.users[place] | _union(found, self.users[place])
        return tuple(found)

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """Everything that the nodes compute, in their order."""
        graph = self.graph
        found: list[Value] = []
        for place, node in enumerate(self.nodes):
            for result, var in enumerate(node.results):
                users = graph.users_of.get(var, frozenset())
                needed = var in graph.used_outside or any(u not in self._places for u in users)
                found.append(Value(len(found), place, result, self._set(users), needed))
        return tuple(found)

    @cached_property
    def values_of(self) -> tuple[tuple[Value, ...], ...]:
        """For every node, what it computes."""
        found: list[list[Value]] = [[] for _ in self.indices]
        for value in self.values:
            found[value.node].append(value)
        return tuple(map(tuple, found))

    @cached_property
    def readers(self) -> dict[Var, Nodes]:
        """For every buffer that comes from outside, the nodes that read it."""
        inside = {self.graph.buffer(self.var(value)) for value in self.values}
        found: dict[Var, Nodes] = {}
        for place, node in enumerate(self.nodes):
            for buffer in map(self.graph.buffer, node.operands):
                if buffer not in inside:
                    found[buffer] = found.get(buffer, 0) | 1 << place
        return found

    def var(self, value: Value) -> Any:
        """The variable that holds a value."""
        return self.nodes[value.node].results[value.result]

    def buffer(self, value: Value) -> Var:
        """The buffer that stands for a value."""
        return self.graph.buffer(self.var(value))

    def is_view(self, place: int) -> bool:
        """Whether a node shows what it reads as a tensor of another shape."""
        return self.nodes[place].pattern is Pattern.RESHAPE

    def leaving(self, nodes: Nodes) -> tuple[Value, ...]:
        """What a set computes and others use."""
        return tuple(
            value
            for place in bits(nodes)
            for value in self.values_of[place]
            if value.needed or value.users & ~nodes
        )

    def entering(self, nodes: Nodes) -> tuple[Value, ...]:
        """What a set uses and others of the region compute."""
        return tuple(
            value
            for place in bits(self.around(nodes, self.sources))
            for value in self.values_of[place]
            if value.users & nodes
        )

    def around(self, nodes: Nodes, of: tuple[Nodes, ...]) -> Nodes:
        """The sources or users of a set, without the set."""
        return _union(of, nodes) & ~nodes

    def is_convex(self, nodes: Nodes, outputs: Iterable[Value] | None = None) -> bool:
        """Whether no way leads out of a set and back into it.

        Of `outputs` if they are given: what else a set computes, others have from elsewhere.
        """
        if outputs is None:
            return not _union(self.ancestors, nodes) & _union(self.descendants, nodes) & ~nodes
        outside: Nodes = 0
        for value in outputs:
            outside |= value.users & ~nodes
        return not _union(self.descendants, outside) & nodes

    def without_views(self, nodes: Nodes) -> Nodes:
        """Leave out reshapes that nothing in the set reads: outside they are free views."""
        while True:
            views = (
                1 << place
                for place in bits(nodes)
                if self.is_view(place) and not self.users[place] & nodes
            )
            ends = sum(views)
            if not ends:
                return nodes
            nodes &= ~ends

    @cached_property
    def key(self) -> Hashable:
        """Equal for regions that differ in names only."""
        graph, products = self.graph, own_products(self)
        needed = [self.buffer(value) for value in self.values if value.needed]
        results = [graph.buffer(graph.nodes[index].results[0]) for index in products]
        # What makes a result for this region alone: its kernel may then do more.
        nodes = (*self.nodes, *(graph.nodes[index] for index in products))
        return len(products), self._described.structure(nodes, (*needed, *results))

    def structure(self, nodes: Nodes, outputs: Iterable[Value]) -> Hashable:
        """Equal for sets that one kernel computes with the same outputs, but for names."""
        members = [self.nodes[place] for place in bits(nodes)]
        return self._described.structure(members, map(self.buffer, outputs))

    def product(self, index: int) -> Hashable:
        """Equal for products of the graph that are the same by themselves, but for names."""
        node = self.graph.nodes[index]
        return self._described.structure([node], [self.graph.buffer(node.results[0])])

    @cached_property
    def _described(self) -> Described:
        return Described(self.graph)

    @cached_property
    def _places(self) -> dict[int, int]:
        return {index: place for place, index in enumerate(self.indices)}

    def _set(self, indices: Iterable[int]) -> Nodes:
        found = 0
        for index in indices:
            if index in self._places:
                found |= 1 << self._places[index]
        return found


def _union(of: tuple[Nodes, ...] | list[Nodes], nodes: Nodes) -> Nodes:
    found = 0
    for place in bits(nodes):
        found |= of[place]
    return found


def own_products(region: Region) -> tuple[int, ...]:
    """The matrix products and convolutions whose result nothing but this region uses."""
    graph, inside = region.graph, set(region.indices)
    sources = {source for index in region.indices for source in graph.sources[index]} - inside
    return tuple(
        source
        for source in sorted(sources)
        if graph.nodes[source].pattern is Pattern.PRODUCT
        and graph.nodes[source].reason
        and graph.users[source] <= inside
        and len(graph.nodes[source].results) == 1
        and graph.nodes[source].results[0] not in graph.used_outside
    )
