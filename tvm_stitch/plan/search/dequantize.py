"""Products of few rows whose weights are kept in fewer bits: what makes halves of them becomes a
part of the product, which then reads what memory has.

In: a StitchGraph before it is planned. Out: the same graph, in which such a product and the
element-wise nodes that nothing but its weights come from are one node. Kernels decide what pays.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from tvm_stitch.device import Device
from tvm_stitch.graph.front.read import Node, StitchGraph
from tvm_stitch.kernel.build import choose_kernel
from tvm_stitch.kernel.choose import Bounds
from tvm_stitch.kernel.implementations import PRODUCTS
from tvm_stitch.options import Options
from tvm_stitch.plan.regions.structure import Described
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.op_pattern import Pattern
from tvm_stitch.stages.stage import Refused

_ELEMENT_WISE = (Pattern.ELEMENTWISE, Pattern.BROADCAST, Pattern.INJECTIVE, Pattern.RESHAPE)


def with_dequantized_weights(
    graph: StitchGraph, device: Device, bounds: Bounds, options: Options
) -> StitchGraph:
    """The graph with products that compute their weights, where that is faster."""
    described, known = Described(graph), dict[Hashable, bool]()
    whole, gone = dict[int, Node](), set[int]()
    for node in graph.nodes:
        before = _before(graph, node)
        if not before:
            continue
        members = (*before, node)
        key = described.structure(members, map(graph.buffer, node.results))
        if key not in known:
            known[key] = _pays(graph, members, device, bounds, options)
        if known[key]:
            whole[node.index] = _together(members, hash(key))
            gone.update(each.index for each in before)
    if not whole:
        return graph
    left = (whole.get(node.index, node) for node in graph.nodes if node.index not in gone)
    nodes = tuple(replace(node, index=number) for number, node in enumerate(left))
    return replace(graph, nodes=nodes)


def _before(graph: StitchGraph, node: Node) -> list[Node]:
    """The nodes that only a product's larger operand comes from, if they read fewer bytes."""
    if node.pattern is not Pattern.PRODUCT or not (node.stages and node.is_static):
        return []
    weights = max(node.operands, key=lambda each: NOMINAL.bytes(graph.buffer(each)))
    last, found = graph.producer.get(weights), dict[int, Node]()
    pending = set[int]() if last is None else {last}
    while pending:  # the last first: whoever uses it is known by then
        index = max(pending)
        pending.remove(index)
        if graph.users[index] <= {node.index, *found} and _is_part(graph, graph.nodes[index]):
            found[index] = graph.nodes[index]
            pending |= graph.sources[index]
    made = {var for each in found.values() for var in each.results}
    read = {var for each in found.values() for var in each.operands} - made
    if weights not in made:
        return []
    before, after = sum(NOMINAL.bytes(graph.buffer(v)) for v in read), graph.buffer(weights)
    return [found[index] for index in sorted(found)] if before < NOMINAL.bytes(after) else []


def _is_part(graph: StitchGraph, node: Node) -> bool:
    is_needed = any(var in graph.used_outside for var in node.results)
    return (
        node.pattern in _ELEMENT_WISE
        and bool(node.stages)
        and node.is_static
        and not (node.reason or is_needed)
    )


def _pays(
    graph: StitchGraph, members: Sequence[Node], device: Device, bounds: Bounds, options: Options
) -> bool:
    """Whether one kernel takes less than the product's and one that writes its weights."""
    node = members[-1]
    result = (graph.buffer(node.results[0]),)
    stages = tuple(stage for each in members for stage in each.stages)
    found = choose_kernel(stages, result, device, bounds, options.ways, PRODUCTS)
    if isinstance(found, Refused):
        return False
    alone = choose_kernel(node.stages, result, device, bounds, options.ways, PRODUCTS)
    written = NOMINAL.bytes(graph.buffer(members[-2].results[0]))
    before_us = device.timing.launch_us + options.launch_us + written / device.bandwidth * 1e6
    return isinstance(alone, Refused) or found.cost_us < alone.cost_us + before_us


def _together(members: Sequence[Node], function: int) -> Node:
    """A product and what its weights come from as one node, in the product's place."""
    node = members[-1]
    made = {var for each in members for var in each.results}
    operands = dict.fromkeys(
        operand for each in members for operand in each.operands if operand not in made
    )
    return replace(
        node,
        bindings=tuple(binding for each in members for binding in each.bindings),
        name="_".join(dict.fromkeys((node.name, *(each.name for each in members)))),
        operands=tuple(operands),
        stages=tuple(stage for each in members for stage in each.stages),
        function=function,
        is_composite=True,
    )
