"""Interpolations that dynamo wrote out: one operator again, rounded once as in eager PyTorch.

In: a functional graph, lists taken apart. Out: the same graph with fewer calls. Dynamo writes
`_foreach_lerp_`, by which optimizers update their averages, as a difference, a tensor full of the
weight and a fused multiply-add, each in the tensors' own type. In halves the weight is then
another number: 0.1 becomes 0.10009766 in bfloat16, and an average is off by a thousandth. Must not
know what becomes of the graph.
"""

from __future__ import annotations

import torch
from torch import fx

_aten = torch.ops.aten
# From here on PyTorch's own kernels start at the other end, and dynamo writes something else.
_NEARER_END = 0.5


def with_interpolations(graph: fx.Graph) -> None:
    """Put lerp where its parts are."""
    for update in graph.find_nodes(op="call_function", target=_aten.addcmul.default):
        found = _interpolated(update)
        if found is None:
            continue
        with graph.inserting_before(update):
            call = graph.call_function(_aten.lerp.Scalar, found)
        call.meta = dict(update.meta)
        update.replace_all_uses_with(call)
        graph.erase_node(update)
    for target in (_aten.full_like.default, _aten.sub.Tensor):  # a weight reads a difference
        for part in graph.find_nodes(op="call_function", target=target):
            if not part.users:
                graph.erase_node(part)


def _interpolated(update: fx.Node) -> tuple[fx.Node, fx.Node, float] | None:
    """Start, end and weight of start + weight * (end - start); None of other sums."""
    start, weights, difference = update.args
    if update.kwargs.get("value", 1) != 1 or not _calls(weights, _aten.full_like.default):
        return None
    if not _calls(difference, _aten.sub.Tensor) or difference.kwargs.get("alpha", 1) != 1:
        return None
    end, taken = difference.args
    weight = weights.args[1]
    if taken is not start or not isinstance(weight, (int, float)) or abs(weight) >= _NEARER_END:
        return None
    return (start, end, weight) if _alike(update, start, end, weights, difference) else None


def _calls(node: object, target: torch._ops.OpOverload) -> bool:
    return isinstance(node, fx.Node) and node.target is target


def _alike(*nodes: object) -> bool:
    """Whether all are tensors of one shape and one type."""
    values = [node.meta.get("val") if isinstance(node, fx.Node) else None for node in nodes]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    kinds = {(tensor.dtype, str(tensor.shape)) for tensor in tensors}
    return len(tensors) == len(nodes) and len(kinds) == 1
