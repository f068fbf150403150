"""Gradients of images enlarged by whole factors: sums of what was repeated.

In: the functional graph of a forward and a backward pass. Out: the same graph. PyTorch writes the
nearest neighbours of an enlarged image as an index, and their gradient as rows added up wherever
the index says, in no order; the index is arithmetic of constants and says that every element was
repeated as often, side by side. Must not know what becomes of the graph.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from tvm_stitch.dynamo.rewrites.counted import counted

_aten = torch.ops.aten


def with_repeats_summed(graph: fx.Graph) -> None:
    """Put a sum where elements are added at positions each of which is repeated as often."""
    puts = graph.find_nodes(op="call_function", target=_aten.index_put.default)
    with unset_fake_temporarily():  # indices are worked out
        summed = {put: factors for put in puts if (factors := _factors(put)) is not None}
    for put, factors in summed.items():
        base, values = put.args[0], put.args[2]
        split = list(base.meta["val"].shape)
        for axis in sorted(factors, reverse=True):
            split.insert(axis + 1, factors[axis])
        repeated = [axis + 1 + place for place, axis in enumerate(sorted(factors))]
        with graph.inserting_before(put):
            apart = _called(graph, _aten.view.default, values, split)
            total = _called(graph, _aten.sum.dim_IntList, apart, repeated)
        put.replace_all_uses_with(total)
        graph.erase_node(put)


def _called(graph: fx.Graph, target: Any, source: fx.Node, how: object) -> fx.Node:
    node = graph.call_function(target, (source, how))
    value = source.meta["val"]
    with value.fake_mode:
        node.meta["val"] = target(value, how)
    return node


def _factors(put: fx.Node) -> dict[int, int] | None:
    """How often elements were repeated along each of the last dimensions; None of other sums."""
    base, indices, values, *accumulate = put.args
    if accumulate != [True] or base.target is not _aten.full.default or base.args[1] != 0:
        return None
    if not values.meta["val"].is_contiguous():  # a view takes it apart
        return None
    extents = base.meta["val"].shape
    indexed = [axis for axis, index in enumerate(indices) if index is not None]
    if indexed != list(range(len(extents) - len(indexed), len(extents))):
        return None
    found = {axis: _factor(indices[axis], extents[axis], len(extents) - axis) for axis in indexed}
    known = {axis: factor for axis, factor in found.items() if factor is not None}
    return known if len(known) == len(found) else None


def _factor(index: fx.Node, extent: Any, dims: int) -> int | None:
    """How often an index has each position, in order, along the first of its dimensions."""
    count = index.meta["val"].numel()
    if not isinstance(extent, int) or not isinstance(count, int) or not count:
        return None
    if index.meta["val"].shape != (count, *[1] * (dims - 1)) or count % extent:
        return None
    value = counted(index)
    if value is None:
        return None
    factor = count // extent
    return factor if value.flatten().equal(torch.arange(count) // factor) else None
