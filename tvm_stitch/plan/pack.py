"""Unrelated kernels that are too short for a launch of their own share one.

In: groups that are kernels already, each with its verdict. Out: packs of them. A pack costs one
launch instead of many; its parts share the size of a block and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm_stitch.graph.read import StitchGraph
from tvm_stitch.kernel.choose import side_by_side
from tvm_stitch.kernel.cost import predicted_us
from tvm_stitch.kernel.stage import Refused, buffer_shape, constant, product
from tvm_stitch.plan.judge import Judge, Verdict

# A launch is a small share of a longer kernel, which is better left to its own block size.
LONGEST_US = 60.0
# CUDA passes 4 KB of parameters to a kernel; a pointer takes 8.
MOST_TENSORS = 480


def pack(
    graph: StitchGraph,
    judge: Judge,
    groups: list[frozenset[int]],
    merge: Callable[[frozenset[int]], bool],
) -> list[frozenset[int]]:
    """Put groups together, first come, first served; `merge` says whether no cycle comes of it."""
    packs: list[frozenset[int]] = []
    parts: dict[frozenset[int], list[Verdict]] = {}
    for group in groups:
        verdict = judge(group)
        if isinstance(verdict, Refused) or not _is_short(verdict, judge):
            packs.append(group)
            continue
        for number, found in enumerate(packs):
            together = parts.get(found, [])
            if together and _compatible([*together, verdict]) and not _related(graph, found, group):
                union = found | group
                if merge(union):
                    packs[number] = union
                    parts[union] = [*together, verdict]
                    break
        else:
            packs.append(group)
            parts[group] = [verdict]
    return packs


def _is_short(verdict: Verdict, judge: Judge) -> bool:
    expected = predicted_us(verdict.programs, verdict.schedule, judge.device)
    return expected is not None and expected <= LONGEST_US and not verdict.spare


def _compatible(verdicts: list[Verdict]) -> bool:
    programs = tuple(program for verdict in verdicts for program in verdict.programs)
    mappings = [mapping for verdict in verdicts for mapping in verdict.schedule.parts]
    tensors = sum(len(program.inputs) + len(program.outputs) for program in programs)
    if tensors > MOST_TENSORS:
        return False
    return not isinstance(side_by_side(programs, mappings), Refused)


def _related(graph: StitchGraph, left: frozenset[int], right: frozenset[int]) -> bool:
    """Whether one group uses what the other computes, or both read more than a common scalar."""

    def read(nodes: frozenset[int]) -> set[object]:
        return {graph.buffer(value) for n in nodes for value in graph.nodes[n].operands}

    def computed(nodes: frozenset[int]) -> set[object]:
        return {graph.buffer(value) for n in nodes for value in graph.nodes[n].results}

    common = {b for b in read(left) & read(right) if constant(product(buffer_shape(b))) != 1}
    return bool(common or read(left) & computed(right) or computed(left) & read(right))
