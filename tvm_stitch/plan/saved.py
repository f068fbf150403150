"""Plans as JSON: saved, loaded, pinned with `Options(plan=...)`, compared.

In: Plans with the graphs that they were made for. Out: a SavedPlan, which holds numbers and names
only: loading one runs no code. A block is named by its function and number; a fingerprint of its
graph keeps a plan from being applied to another model.
"""

from __future__ import annotations

import graphlib
import hashlib
import json
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvm import relax

from tvm_stitch.errors import InputError
from tvm_stitch.graph.front.read import StitchGraph
from tvm_stitch.json_data import checked, count, parsed
from tvm_stitch.plan.plan import Fallback, Group, Plan, SavedBlock, SavedGroup, Solved

VERSION = 2


@dataclass(frozen=True)
class SavedPlan:
    """The plans of a module's dataflow blocks, and the operators that stay out of them.

    Those are numbered as they stand in the module before any pass; they go TVM's way as they came.
    """

    blocks: tuple[SavedBlock, ...]
    left: tuple[tuple[int, str], ...] = ()  # numbers with reasons

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        Path(path).write_text(self.to_json() + "\n", encoding="utf-8")

    def to_json(self) -> str:
        """The plan as a JSON object."""
        blocks = [asdict(block) for block in self.blocks]
        return json.dumps({"version": VERSION, "blocks": blocks, "left": self.left})

    @staticmethod
    def load(path: str | Path) -> SavedPlan:
        """Read what save wrote."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"cannot read the plan {path}: {error}") from None
        return SavedPlan.from_json(text)

    @staticmethod
    def from_json(text: str) -> SavedPlan:
        """Read what to_json wrote; refuse other versions, unknown fields and wrong types."""
        data = parsed(text, "the plan")
        if not isinstance(data, dict) or data.get("version") != VERSION:
            raise InputError(f"not a plan of version {VERSION}, as SavedPlan.save writes it")
        del data["version"]
        readers = {"blocks": lambda found: tuple(map(_block, found)), "left": _left}
        try:
            return checked(SavedPlan, data, "the plan", readers)
        except InputError as error:
            raise InputError(f"the plan is damaged: {error}") from None

    def block(self, name: str, graph: StitchGraph) -> Plan:
        """The plan for a block of the module that is compiled."""
        found = {block.name: block for block in self.blocks}.get(name)
        if found is None:
            known = ", ".join(block.name for block in self.blocks) or "none"
            raise InputError(f"the pinned plan has no block {name}; it has {known}")
        if found.fingerprint != fingerprint(graph):
            raise InputError(
                f"the pinned plan of {name} was made for another graph: plan this module anew"
            )
        plan = _plan(found, graph)
        _check(graph, plan, name)
        return plan

    def compare(self, other: SavedPlan) -> str:
        """What differs, for people: kernels of one plan alone, launches and predicted times."""
        lines = []
        others = {block.name: block for block in other.blocks}
        for block in self.blocks:
            if block.name in others:
                lines += _difference(block, others[block.name])
        only = {block.name for block in self.blocks} ^ set(others)
        lines += [f"{name}: in one of the plans only" for name in sorted(only)]
        return "\n".join(lines) if lines else "no dataflow blocks"


def saved(name: str, graph: StitchGraph, plan: Plan) -> SavedBlock:
    """A plan in terms of numbers and names."""
    place = {var: (n.index, r) for n in graph.nodes for r, var in enumerate(n.results)}
    groups = tuple(
        SavedGroup(
            group.nodes,
            tuple(place[output] for output in group.outputs),
            tuple(graph.nodes[index].name for index in group.nodes),
            group.cost_us,
            group.separate_us,
            group.bytes_saved,
            group.launches_saved,
        )
        for group in plan.groups
    )
    kept = tuple(sorted(plan.kept))
    return SavedBlock(name, fingerprint(graph), groups, kept, plan.fallbacks, plan.solved)


def fingerprint(graph: StitchGraph) -> str:
    """Equal for graphs of the same operators, types and connections."""
    described = [
        (node.name, sorted(graph.sources[node.index]), [str(var.ty) for var in node.results])
        for node in graph.nodes
    ]
    return hashlib.sha256(json.dumps(described).encode()).hexdigest()[:16]


def _plan(block: SavedBlock, graph: StitchGraph) -> Plan:
    try:
        groups = tuple(
            Group(
                group.nodes,
                tuple(graph.nodes[node].results[result] for node, result in group.outputs),
                group.cost_us,
                group.apart_us,
                group.bytes_saved,
                group.launches_saved,
            )
            for group in block.groups
        )
    except IndexError:
        raise InputError(f"the pinned plan of {block.name} names what does not exist") from None
    return Plan(groups, block.fallbacks, kept=frozenset(block.kept), solved=block.solved)


def _check(graph: StitchGraph, plan: Plan, name: str) -> None:
    """Whether a plan that somebody may have edited computes everything, in some order."""
    covered = {index for group in plan.groups for index in group.nodes} - plan.kept
    units = [(set(group.nodes), set(group.outputs)) for group in plan.groups]
    units += [
        ({node.index}, {binding.var for binding in node.bindings})
        for node in graph.nodes
        if node.index not in covered
    ]
    written = [var for _, outputs in units for var in outputs]
    if len(written) != len(set(written)):
        raise InputError(f"the pinned plan of {name} writes a value twice")
    writer = {var: number for number, (_, outputs) in enumerate(units) for var in outputs}
    needs = [_reads(graph, nodes) for nodes, _ in units]
    if any(var not in writer for reads in needs for var in reads):
        raise InputError(f"the pinned plan of {name} has kernels that read what none writes")
    order = graphlib.TopologicalSorter(
        {number: {writer[var] for var in reads} for number, reads in enumerate(needs)}
    )
    try:
        order.prepare()
    except graphlib.CycleError:
        raise InputError(
            f"the pinned plan of {name} has kernels that wait for each other"
        ) from None
    if not graph.used_outside <= set(writer):
        raise InputError(f"the pinned plan of {name} leaves out a result")


def _reads(graph: StitchGraph, nodes: set[int]) -> set[Any]:
    """The variables of the block that nodes use and do not compute."""
    used = {
        var
        for index in nodes
        for binding in graph.nodes[index].bindings
        for var in relax.analysis.free_vars(binding.value)
    }
    return {var for var in used if graph.producer.get(var, -1) not in nodes | {-1}}


def _difference(one: SavedBlock, two: SavedBlock) -> list[str]:
    if one.fingerprint != two.fingerprint:
        return [f"{one.name}: plans of different graphs"]
    mine, theirs = ({g.nodes: g for g in block.groups} for block in (one, two))
    lines = [
        f"{one.name}: {len(mine)} and {len(theirs)} kernels, "
        f"{one.cost_us:.1f} and {two.cost_us:.1f} us predicted"
    ]
    for sign, own, other in (("-", mine, theirs), ("+", theirs, mine)):
        alone = Counter(
            f"{', '.join(group.operators)} ({group.cost_us:.1f} us)"
            for nodes, group in own.items()
            if nodes not in other
        )
        lines += [f"  {sign} {f'{count} x ' if count > 1 else ''}{k}" for k, count in alone.items()]
    return lines


def _left(data: Any) -> tuple[tuple[int, str], ...]:
    return tuple((count(number), str(reason)) for number, reason in data)


def _block(data: Any) -> SavedBlock:
    readers = {
        "groups": lambda found: tuple(map(_group, found)),
        "kept": _counts,
        "fallbacks": lambda found: tuple(checked(Fallback, f, "a fallback") for f in found),
        "solved": lambda found: checked(Solved, found, "what was solved"),
    }
    return checked(SavedBlock, data, "a block", readers)


def _group(data: Any) -> SavedGroup:
    readers = {
        "nodes": _counts,
        "outputs": lambda found: tuple((count(node), count(result)) for node, result in found),
        "bytes_saved": count,
        "launches_saved": count,
    }
    return checked(SavedGroup, data, "a group", readers)


def _counts(data: Any) -> tuple[int, ...]:
    return tuple(map(count, data))
