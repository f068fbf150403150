"""What a matrix product or convolution computes at the end of its own kernel.

In: a Region and its Judge. Out: Epilogues: sets of element-wise nodes that follow a product. One on
tensor cores takes what its kernel can hold, and the library what it has; of others TVM's FuseOps
puts the nodes into the product's kernel if they are left alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tvm_stitch.plan.regions.region import Nodes, Region, Value, bits, own_products
from tvm_stitch.plan.search.judge import Judge, Verdict
from tvm_stitch.plan.search.price import epilogue_us
from tvm_stitch.stages.op_pattern import Pattern
from tvm_stitch.stages.stage import Refused

_FREE = (Pattern.ELEMENTWISE, Pattern.BROADCAST)


@dataclass(frozen=True)
class Epilogue:
    """Nodes after a product, and the values that its kernel then writes."""

    product: str
    number: int  # of the product among the region's own
    nodes: Nodes
    outputs: tuple[Value, ...]
    cost_us: float  # more than the product's kernel takes without
    verdict: Verdict | None  # None: TVM's kernel


def epilogues(region: Region, judge: Judge) -> Iterator[Epilogue]:
    """Every set that the kernel of a product could end with, from the shortest to the longest."""
    for number, index in enumerate(own_products(region)):
        product = region.graph.nodes[index]
        result = region.graph.buffer(product.results[0])
        readers = region.readers[result]
        alone = judge.product(index)
        if not isinstance(alone, Refused):
            for nodes, found in _of_product(region, judge, index, readers):
                more = found.cost_us - alone.cost_us
                yield Epilogue(product.name, number, nodes, found.outputs, more, found)
            continue
        for nodes, output in _meeting_points(region, readers):
            cost = epilogue_us(region, nodes, output, result, judge.device, judge.bounds)
            yield Epilogue(product.name, number, nodes, (output,), cost, None)


def _of_product(
    region: Region, judge: Judge, index: int, readers: Nodes
) -> Iterator[tuple[Nodes, Verdict]]:
    """The readers of a product, with as much behind them as its kernel can hold, node by node.

    All readers are inside: the result itself need not be written then, and nothing that the kernel
    waits for can wait for it.
    """
    inside, given = _between(region, readers), 0
    if isinstance(judge.ending(index, inside), Refused):
        inside = _beyond(region, judge, index, inside)
    tried = inside
    while inside:
        nodes = region.without_views(inside)
        nodes = nodes if readers & ~nodes == 0 else inside
        verdict = judge.ending(index, nodes)
        if isinstance(verdict, Refused):
            return
        if nodes != given:
            yield nodes, verdict
        given = nodes
        inside, tried = _next(region, judge, index, inside, tried)


def _next(
    region: Region, judge: Judge, index: int, inside: Nodes, tried: Nodes
) -> tuple[Nodes, Nodes]:
    """The set with one of its users more, or with several; none if there is no such set.

    And which users have been tried.
    """
    while users := region.around(inside, region.users) & ~tried:
        tried |= users & -users
        larger = _between(region, inside | users & -users)
        if not isinstance(judge.ending(index, larger), Refused):
            return larger, tried | larger
    larger = _beyond(region, judge, index, inside)
    return larger, tried | larger


def _beyond(region: Region, judge: Judge, index: int, inside: Nodes) -> Nodes:
    """The set with the fewest users more that the kernel has an end for; 0 if there is none."""
    kernel = judge.product(index)
    most = 0 if isinstance(kernel, Refused) else kernel.most_at_once
    for _ in range(most):
        users = region.around(inside, region.users)
        free = [p for p in bits(users) if region.nodes[p].pattern in _FREE]
        if not free:
            return 0
        inside = _between(region, inside | 1 << free[0])
        if inside.bit_count() > most:
            return 0
        if not isinstance(judge.ending(index, inside), Refused):
            return inside
    return 0


def _between(region: Region, nodes: Nodes) -> Nodes:
    """A set with all that lies on a way from it back into it."""
    before: Nodes = 0
    after: Nodes = 0
    for place in bits(nodes):
        before |= region.ancestors[place]
        after |= region.descendants[place]
    return nodes | before & after


def _meeting_points(region: Region, readers: Nodes) -> Iterator[tuple[Nodes, Value]]:
    """The nodes through which everything behind a product goes, each with all before it."""
    inside, waiting = 0, readers
    while waiting:
        place = (waiting & -waiting).bit_length() - 1
        inside, waiting = inside | 1 << place, waiting & ~(1 << place)
        values = region.values_of[place]
        if region.nodes[place].pattern not in _FREE or len(values) != 1:
            return
        if not waiting:
            yield inside, values[0]
        if values[0].needed:
            return
        waiting |= values[0].users
