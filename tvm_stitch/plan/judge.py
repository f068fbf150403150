"""Whether a set of nodes could be one kernel: the planner's only question to kernel/.

In: a StitchGraph and a set of its nodes. Out: a Verdict: the outputs that the kernel writes, and
those that must be computed once more elsewhere; or the reason why not.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_stitch.device import Device
from tvm_stitch.graph.read import Node, StitchGraph
from tvm_stitch.kernel.choose import Bounds, choose
from tvm_stitch.kernel.classify import Pattern
from tvm_stitch.kernel.program import Program, make_programs
from tvm_stitch.kernel.schedule import Schedule
from tvm_stitch.kernel.stage import Refused, constant, product

# A result that does not fit the kernel's rows may be computed again in a kernel of its own if it is
# at most this share of the kernel's largest result, and no reduction stands behind it.
SPARE_SHARE = 1 / 8


@dataclass(frozen=True)
class Verdict:
    """A set of nodes that can be one kernel."""

    outputs: tuple[object, ...]
    spare: tuple[object, ...]
    programs: tuple[Program, ...]
    schedule: Schedule


class Judge:
    """Answers from memory where it can: the planner asks about the same sets again."""

    def __init__(
        self, graph: StitchGraph, device: Device, bounds: Bounds, schemes: tuple[str, ...]
    ) -> None:
        self.graph, self.device, self.bounds, self.schemes = graph, device, bounds, schemes
        self.known: dict[frozenset[int], Verdict | Refused] = {}

    def __call__(self, nodes: frozenset[int]) -> Verdict | Refused:
        """The verdict on a set of nodes, convexity aside."""
        if nodes not in self.known:
            self.known[nodes] = self._judge(nodes)
        return self.known[nodes]

    def outputs(self, nodes: frozenset[int]) -> list[object]:
        """The variables of a set that are used outside of it."""
        graph = self.graph
        return [
            var
            for index in sorted(nodes)
            for var in graph.nodes[index].results
            if var in graph.used_outside or graph.users_of.get(var, frozenset()) - nodes
        ]

    def ancestors(self, var: object, nodes: frozenset[int]) -> frozenset[int]:
        """The nodes of a set that a variable depends on."""
        pending, found = [self.graph.producer[var]], set()
        while pending:
            index = pending.pop()
            if index in nodes and index not in found:
                found.add(index)
                pending.extend(self.graph.sources[index])
        return frozenset(found)

    def _judge(self, nodes: frozenset[int]) -> Verdict | Refused:
        members = [self.graph.nodes[index] for index in sorted(nodes)]
        for node in members:
            if node.reason:
                return Refused(node.reason)
        outputs = self.outputs(nodes)
        if not outputs:
            return Refused("nothing of it is used")
        verdict = self._kernel(members, outputs, [])
        if not isinstance(verdict, Refused) or self._reduces(nodes):
            return verdict
        main, spare = self._split(outputs)
        return self._kernel(members, main, spare) if spare else verdict

    def _kernel(
        self, members: list[Node], outputs: list[object], spare: list[object]
    ) -> Verdict | Refused:
        stages = tuple(stage for node in members for stage in node.stages)
        programs = make_programs(stages, tuple(self.graph.buffer(var) for var in outputs))
        if isinstance(programs, Refused):
            return programs
        schedule = choose(programs, self.device, self.bounds, self.schemes)
        if isinstance(schedule, Refused):
            return schedule
        return Verdict(tuple(outputs), tuple(spare), programs, schedule)

    def _split(self, outputs: list[object]) -> tuple[list[object], list[object]]:
        """Outputs of an element-wise kernel's own size, and the small rest."""
        sizes = [constant(product(self.graph.buffer(var).ty.shape)) for var in outputs]
        if None in sizes:
            return outputs, []
        largest = max(size for size in sizes if size is not None)
        main: list[object] = []
        spare: list[object] = []
        for var, size in zip(outputs, sizes, strict=True):
            assert size is not None
            small = size < largest and size <= largest * SPARE_SHARE
            (spare if small else main).append(var)
        return main, spare

    def _reduces(self, nodes: frozenset[int]) -> bool:
        reductions = (Pattern.ROW_REDUCTION, Pattern.COLUMN_REDUCTION)
        return any(self.graph.nodes[index].pattern in reductions for index in nodes)
