"""What matrix products or convolutions compute at the end of their own kernel.

In: a Region and its Judge. Out: Epilogues: sets of element-wise nodes that follow a product, or
several of one input that are needed together, as of a gated unit. Those on tensor cores take what
their kernel can hold, and the library what it has; of others TVM's FuseOps puts the nodes into the
product's kernel if they are left alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from itertools import combinations
from operator import or_

import tvm_ffi

from tvm_stitch.plan.regions.region import Nodes, Region, Value, bits, own_products
from tvm_stitch.plan.search.judge import Judge, Products, Verdict
from tvm_stitch.plan.search.price import epilogue_us
from tvm_stitch.stages.op_pattern import Pattern
from tvm_stitch.stages.stage import Refused

_FREE = (Pattern.ELEMENTWISE, Pattern.BROADCAST)
_AT_ONCE = (*_FREE, Pattern.INJECTIVE)  # of what a kernel may have to take together
MOST_TOGETHER = 3  # products of one kernel that are needed together
MOST_ALIKE = 8  # of one input and size among which those are looked for


@dataclass(frozen=True)
class Epilogue:
    """Nodes after products, and the values that their kernel then writes."""

    product: str
    numbers: tuple[int, ...]  # of the products among the region's own
    nodes: Nodes
    outputs: tuple[Value, ...]
    cost_us: float  # more than the products' kernels take without
    verdict: Verdict | None  # None: TVM's kernel


def epilogues(region: Region, judge: Judge) -> Iterator[Epilogue]:
    """Every set that the kernel of a product could end with, from the shortest to the longest.

    Then those of several products.
    """
    for number, index in enumerate(own_products(region)):
        product = region.graph.nodes[index]
        result = region.graph.buffer(product.results[0])
        readers = region.readers[result]
        if not isinstance(judge.product(index), Refused):
            yield from _of_products(region, judge, (number,), readers)
            continue
        for nodes, output in _meeting_points(region, readers):
            cost = epilogue_us(region, nodes, output, result, judge.device, judge.bounds)
            yield Epilogue(product.name, (number,), nodes, (output,), cost, None)
    for numbers in _alike(region, judge):
        meeting = _first_of_all(region, numbers)
        if meeting:
            yield from _of_products(region, judge, numbers, meeting)


def _alike(region: Region, judge: Judge) -> Iterator[tuple[int, ...]]:
    """Products of one input, with results that are as large."""
    graph, found = region.graph, defaultdict[object, list[int]](list)
    for number, index in enumerate(own_products(region)):
        node = graph.nodes[index]
        if not isinstance(judge.product(index), Refused):
            size = tvm_ffi.StructuralKey(node.results[0].ty)
            for operand in map(graph.buffer, node.operands):
                found[operand, size].append(number)
    for numbers in found.values():
        for count in range(2, MOST_TOGETHER + 1):
            yield from combinations(numbers[:MOST_ALIKE], count)


def _first_of_all(region: Region, numbers: tuple[int, ...]) -> Nodes:
    """The readers of products, and what is between them and the first that needs all; 0: none."""
    graph, own = region.graph, own_products(region)
    of_each = [
        region.readers[graph.buffer(graph.nodes[own[number]].results[0])] for number in numbers
    ]
    reached = [reduce(or_, map(region.descendants.__getitem__, bits(e)), e) for e in of_each]
    shared = reduce(lambda one, other: one & other, reached)
    return _between(region, reduce(or_, of_each) | shared & -shared) if shared else 0


def _of_products(
    region: Region, judge: Judge, numbers: tuple[int, ...], first: Nodes
) -> Iterator[Epilogue]:
    """What products can end with from the first nodes on."""
    own, graph = own_products(region), region.graph
    indices = tuple(own[number] for number in numbers)
    alone = [judge.product(index) for index in indices]
    before = sum(kernel.cost_us for kernel in alone if not isinstance(kernel, Refused))
    name = " and ".join(graph.nodes[index].name for index in indices)
    for nodes, found in _ends(region, judge, indices, first):
        more = found.cost_us - before
        yield Epilogue(name, numbers, nodes, found.outputs, more, found)


def _ends(
    region: Region, judge: Judge, products: Products, first: Nodes
) -> Iterator[tuple[Nodes, Verdict]]:
    """The readers of products, with as much behind them as their kernel can hold, node by node.

    All readers are inside: a result itself need not be written then, and nothing that the kernel
    waits for can wait for it.
    """
    inside, given = _between(region, first), 0
    if isinstance(judge.ending(products, inside), Refused):
        inside = _beyond(region, judge, products, inside)
    tried = inside
    while inside:
        nodes = region.without_views(inside)
        nodes = nodes if first & ~nodes == 0 else inside
        verdict = judge.ending(products, nodes)
        if isinstance(verdict, Refused):
            return
        if nodes != given:
            yield nodes, verdict
        given = nodes
        inside, tried = _next(region, judge, products, inside, tried)


def _next(
    region: Region, judge: Judge, products: Products, inside: Nodes, tried: Nodes
) -> tuple[Nodes, Nodes]:
    """The set with one of its users more, or with several; none if there is no such set.

    And which users have been tried.
    """
    while users := region.around(inside, region.users) & ~tried:
        tried |= users & -users
        larger = _between(region, inside | users & -users)
        if not isinstance(judge.ending(products, larger), Refused):
            return larger, tried | larger
    larger = _beyond(region, judge, products, inside)
    return larger, tried | larger


def _beyond(region: Region, judge: Judge, products: Products, inside: Nodes) -> Nodes:
    """The set with the fewest users more that the kernel has an end for; 0 if there is none."""
    kernels = map(judge.product, products)
    most = min(0 if isinstance(kernel, Refused) else kernel.most_at_once for kernel in kernels)
    for _ in range(most):
        users = region.around(inside, region.users)
        free = [p for p in bits(users) if region.nodes[p].pattern in _AT_ONCE]
        if not free:
            return 0
        inside = _between(region, inside | 1 << free[0])
        if inside.bit_count() > most:
            return 0
        if not isinstance(judge.ending(products, inside), Refused):
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
