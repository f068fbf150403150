"""Why operators are not in one kernel: for each value that goes through memory, what speaks
against keeping it on the chip.

In: regions and what was picked for each. Out: Cuts, equal ones counted. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tvm_stitch.graph.front.read import StitchGraph
from tvm_stitch.plan.plan import Cut
from tvm_stitch.plan.region_plan import RegionCut, RegionPlan
from tvm_stitch.plan.regions.region import Nodes, Region, Value, bits
from tvm_stitch.plan.search.candidates import Candidate, Way
from tvm_stitch.plan.search.judge import Judge
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.op_pattern import Pattern
from tvm_stitch.stages.stage import Refused

BETWEEN = "{} runs between them: one kernel would depend on its own result"

TOO_MANY = "they are parts of a region with too many operators to be planned as a whole"


def cuts_within(region: Region, judge: Judge, picks: Sequence[Candidate]) -> tuple[RegionCut, ...]:
    """The cuts between the picks of one region."""
    writer = {value: pick for pick in picks for value in pick.outputs}
    found: dict[tuple[Nodes, Nodes], RegionCut] = {}
    for reader in picks:
        for value in reader.reads if reader.way is not Way.VIEW else ():
            while writer[value].way is Way.VIEW and writer[value].reads:
                value = writer[value].reads[0]
            source = writer[value]
            if source.way is not Way.VIEW and (source.nodes, reader.nodes) not in found:
                reason = _reason(region, judge, source, reader)
                found[source.nodes, reader.nodes] = RegionCut(
                    value, source.nodes, reader.nodes, reason
                )
    return tuple(found.values())


def _reason(region: Region, judge: Judge, writer: Candidate, reader: Candidate) -> str:
    for pick in (writer, reader):
        if pick.why:
            return f"{', '.join(operators(region, pick.nodes))}: {pick.why}"
    union = writer.nodes | reader.nodes
    if not region.is_convex(union):
        between = operators(region, _between(region, union))
        return f"{', '.join(between)} would have to run in the middle of the kernel"
    verdict = judge(union)
    if isinstance(verdict, Refused):
        return verdict.reason
    separate = sum(pick.verdict.cost_us for pick in (writer, reader) if pick.verdict)
    return (
        f"one kernel would take {verdict.cost_us:.1f} us, two take {separate:.1f} us plus a launch"
    )


def _between(region: Region, nodes: Nodes) -> Nodes:
    before, after = 0, 0
    for place in bits(nodes):
        before |= region.ancestors[place]
        after |= region.descendants[place]
    return before & after & ~nodes


def operators(region: Region, nodes: Nodes) -> tuple[str, ...]:
    """The names of a set's operators, views left out where there is something else."""
    names = [
        region.nodes[place].name
        for place in bits(nodes)
        if region.nodes[place].pattern is not Pattern.RESHAPE
    ]
    return tuple(names or (region.nodes[place].name for place in bits(nodes)))


def find_cuts(
    graph: StitchGraph, regions: Sequence[Region], plans: Sequence[RegionPlan]
) -> tuple[Cut, ...]:
    """All cuts of a block, within regions and between them, the most traffic first."""
    counts: dict[Cut, int] = {}
    for region, plan in zip(regions, plans, strict=True):
        for each in plan.cuts:
            cut = _cut(region, each.value, each.writer, region, each.reader, each.reason)
            counts[cut] = counts.get(cut, 0) + 1
    for cut in _between_regions(graph, regions, plans):
        counts[cut] = counts.get(cut, 0) + 1
    found = (replace(cut, count=count) for cut, count in counts.items())
    return tuple(sorted(found, key=lambda cut: (-cut.bytes * cut.count, cut.value, cut.writer)))


def _between_regions(
    graph: StitchGraph, regions: Sequence[Region], plans: Sequence[RegionPlan]
) -> Iterator[Cut]:
    picked = {
        region.indices[place]: (region, pick)
        for region, plan in zip(regions, plans, strict=True)
        for pick in plan.picks
        for place in bits(pick.nodes)
        if pick.way is not Way.VIEW
    }
    for region, plan in zip(regions, plans, strict=True):
        for pick in plan.picks:
            for value in pick.outputs if pick.way is Way.STITCHED else ():
                users = graph.users_of.get(region.var(value), frozenset())
                for user in sorted(users - set(region.indices)):
                    if user in picked:
                        other, reader = picked[user]
                        reason = _why_separate(graph, region, users, other)
                        yield _cut(region, value, pick.nodes, other, reader.nodes, reason)


def _why_separate(graph: StitchGraph, region: Region, users: Iterable[int], other: Region) -> str:
    """What is between regions, if not their size alone."""
    if region.level == other.level:
        return TOO_MANY
    return BETWEEN.format(_divider(graph, users, other))


def _divider(graph: StitchGraph, users: Iterable[int], other: Region) -> str:
    """What waits for a value, if it does so directly."""
    names = [graph.nodes[user].name for user in sorted(users) if graph.nodes[user].reason]
    return names[0] if names else "a matrix product or an opaque operator"


def _cut(
    region: Region, value: Value, writer: Nodes, other: Region, reader: Nodes, reason: str
) -> Cut:
    return Cut(
        value=region.nodes[value.node].name,
        writer=operators(region, writer),
        reader=operators(other, reader),
        bytes=NOMINAL.bytes(region.buffer(value)),
        reason=reason,
    )
