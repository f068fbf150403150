"""A plan by a simple rule: every node joins the groups of what it uses while a kernel allows it.

In: a StitchGraph and a Judge. Out: a Plan whose groups are convex, form no cycle and are all
accepted by kernel/.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm_stitch.graph.read import StitchGraph
from tvm_stitch.kernel.build import VIEW
from tvm_stitch.kernel.classify import Pattern
from tvm_stitch.kernel.cost import tensor_bytes
from tvm_stitch.kernel.stage import Refused
from tvm_stitch.plan.judge import Judge
from tvm_stitch.plan.pack import pack
from tvm_stitch.plan.plan import Fallback, Group, Plan


def greedy_plan(graph: StitchGraph, judge: Judge) -> Plan:
    """Grow groups in the order of the nodes, then settle what each of them writes."""
    grower = _Grower(graph, judge)
    for node in graph.nodes:
        grower.place(node.index)
    grower.join_readers()
    groups: list[Group] = []
    fallbacks = dict(grower.refused)
    for members in grower.packs():
        nodes = _without_views(graph, members)
        reason = _left_to_default(graph, nodes)
        verdict = judge(nodes) if nodes else VIEW
        if reason or isinstance(verdict, Refused):
            text = reason or getattr(verdict, "reason", "")
            fallbacks.update(dict.fromkeys(members, text))
            continue
        fallbacks.update(dict.fromkeys(members - nodes, VIEW.reason))
        groups.append(Group(tuple(sorted(nodes)), verdict.outputs))
        for var in verdict.spare:
            groups.append(Group(tuple(sorted(judge.ancestors(var, nodes))), (var,)))
    reported = [
        Fallback(graph.nodes[index].name, fallbacks[index])
        for index in sorted(fallbacks)
        if graph.nodes[index].pattern is not Pattern.RESHAPE and graph.nodes[index].is_operator
    ]
    return Plan(tuple(groups), tuple(reported))


class _Grower:
    def __init__(self, graph: StitchGraph, judge: Judge) -> None:
        self.graph, self.judge = graph, judge
        self.of: dict[int, frozenset[int]] = {}  # node -> its group
        self.refused: dict[int, str] = {}

    def groups(self) -> list[frozenset[int]]:
        """The groups, each once, in the order of their first nodes."""
        unique = {min(members): members for members in self.of.values()}
        return [unique[first] for first in sorted(unique)]

    def packs(self) -> list[frozenset[int]]:
        """The groups, those that share a launch as one."""
        own_way = [g for g in self.groups() if _left_to_default(self.graph, g)]
        rest = [g for g in self.groups() if g not in own_way]
        return own_way + pack(self.graph, self.judge, rest, self._merge)

    def _merge(self, nodes: frozenset[int]) -> bool:
        """Make nodes a group, unless that closes a cycle."""
        if self._cyclic(nodes):
            return False
        self._settle(nodes)
        return True

    def place(self, index: int) -> None:
        """Let a node join as many of its sources' groups as one kernel can hold."""
        if self.graph.nodes[index].reason:
            self.refused[index] = self.graph.nodes[index].reason
            return
        sources = {self.of[source] for source in self.graph.sources[index] if source in self.of}
        ordered = sorted(sources, key=lambda members: (-len(members), min(members)))
        joined = self._joined([frozenset({index}), *ordered])
        if joined is not None:
            self._settle(joined)
            return
        verdict = self.judge(frozenset({index}))
        self.refused[index] = verdict.reason if isinstance(verdict, Refused) else "a cycle"

    def _joined(self, sets: list[frozenset[int]]) -> frozenset[int] | None:
        """The first set and as many others as one kernel can hold; None if not even the first."""
        everything = frozenset().union(*sets)
        if self._accepted(everything, sets):
            return everything
        current: frozenset[int] | None = sets[0] if self._accepted(sets[0], sets[:1]) else None
        for members in sets[1:]:
            union = (current or sets[0]) | members
            if self._accepted(union, [current or sets[0], members]):
                current = union
        return current

    def join_readers(self) -> None:
        """Groups that read the same value become one, the largest such value first."""
        for var in sorted(self.graph.users_of, key=self._bytes, reverse=True):
            readers = [self.of[user] for user in self.graph.users_of[var] if user in self.of]
            together: frozenset[int] = frozenset()
            for members in sorted(set(readers), key=min):
                if not together or self._accepted(together | members, [together, members]):
                    together |= members
            self._settle(together)

    def _bytes(self, var: object) -> int:
        """Bytes of a value; 0 where symbolic or not a tensor that is stitched."""
        buffer = self.graph.buffers.get(var)
        return tensor_bytes(buffer) or 0 if buffer is not None else 0

    def _accepted(self, nodes: frozenset[int], of: list[frozenset[int]]) -> bool:
        """Whether nodes can be one kernel with no more unrelated parts than what it is made of.

        Packing unrelated parts comes later, when all groups are known.
        """
        verdict = self.judge(nodes)
        if isinstance(verdict, Refused):
            return False
        parts = [found for found in map(self.judge, of) if not isinstance(found, Refused)]
        most = max((len(found.programs) for found in parts), default=1)
        return len(verdict.programs) <= most and not self._cyclic(nodes)

    def _settle(self, nodes: frozenset[int]) -> None:
        for index in nodes:
            self.of[index] = nodes

    def _cyclic(self, nodes: frozenset[int]) -> bool:
        """Whether a way leads out of a set and, through other groups, back into it."""
        pending = list(self._leaving(nodes, nodes))
        seen: set[int] = set()
        while pending:
            index = pending.pop()
            if index in nodes:
                return True
            if index in seen:
                continue
            together = self.of.get(index, frozenset({index}))
            together = frozenset({index}) if together & nodes else together
            seen |= together
            pending.extend(self._leaving(together, frozenset()))
        return False

    def _leaving(self, nodes: Iterable[int], inside: frozenset[int]) -> set[int]:
        return {user for index in nodes for user in self.graph.users[index]} - inside


def _without_views(graph: StitchGraph, nodes: frozenset[int]) -> frozenset[int]:
    """Leave out reshapes that nothing in the group reads: outside they are free views."""
    while True:
        views = {
            index
            for index in nodes
            if graph.nodes[index].pattern is Pattern.RESHAPE and not graph.users[index] & nodes
        }
        if not views:
            return nodes
        nodes -= views


def _left_to_default(graph: StitchGraph, nodes: frozenset[int]) -> str:
    """Element-wise operators after a matrix product belong to its epilogue."""
    reductions = (Pattern.ROW_REDUCTION, Pattern.COLUMN_REDUCTION)
    if any(graph.nodes[index].pattern in reductions for index in nodes):
        return ""
    for index in nodes:
        for source in graph.sources[index] - nodes:
            if graph.nodes[source].pattern is Pattern.PRODUCT and graph.users[source] <= nodes:
                return f"it ends the kernel of {graph.nodes[source].name}"
    return ""
