"""Matrix products that no region's kernel computes: they may share a launch with other products.

In: a StitchGraph and the plans of its regions. Out: Items for pack. By itself, such a product stays
what it is: TVM's pipeline hands it to kernel/ later.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tvm_stitch.device import Device
from tvm_stitch.graph.front.read import Node, StitchGraph
from tvm_stitch.kernel.choose import Bounds
from tvm_stitch.options import Options
from tvm_stitch.plan.deadline import NEVER, Deadline
from tvm_stitch.plan.pack import Item
from tvm_stitch.plan.regions.levels import find_levels
from tvm_stitch.plan.regions.region import Region
from tvm_stitch.plan.search.judge import Answers, Judge, Verdict
from tvm_stitch.stages.op_pattern import Pattern
from tvm_stitch.stages.stage import Refused

# A product of a level runs after the kernels of all of its regions, and before those of the next.
AFTER_ALL_PARTS = 1 << 30


def lone_products(
    graph: StitchGraph,
    computed: Iterable[int],
    device: Device,
    bounds: Bounds,
    options: Options,
    answers: Answers,
    deadline: Deadline = NEVER,
) -> Iterator[Item]:
    """The products that are not among the nodes that regions' kernels compute, while time is left.

    Of the others each has a launch of its own.
    """
    ended, levels = frozenset(computed), find_levels(graph)
    for node in graph.nodes:
        if node.index in ended or not _is_product(node):
            continue
        if deadline.is_over:
            return
        region = Region(graph, (node.index,), levels[node.index], AFTER_ALL_PARTS)
        judge = Judge(region, device, bounds, options.ways, answers)
        if isinstance(judge.product(node.index), Refused):  # its reader's region has asked, mostly
            continue
        everything = region.everything
        verdict = judge(everything)
        if isinstance(verdict, Verdict) and verdict.kernel.is_product and not verdict.spare:
            cost = verdict.cost_us + options.launch_us
            rank = *region.rank, 0
            yield Item(
                region, rank, everything, verdict.outputs, cost, cost, verdict,
                is_lone=not node.is_composite,
            )  # fmt: skip


def _is_product(node: Node) -> bool:
    return bool(node.pattern is Pattern.PRODUCT and node.reason and node.stages)
