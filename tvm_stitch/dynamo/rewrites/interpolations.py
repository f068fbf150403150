"""Interpolations that dynamo wrote out: one operator again, rounded once as in eager PyTorch.

In: a functional graph, lists taken apart. Out: the same graph with fewer calls. Dynamo writes
`_foreach_lerp_`, by which optimizers update their averages, as a difference, a tensor full of the
weight and a fused multiply-add, each in the tensors' own type. In halves the weight is then
another number: 0.1 becomes 0.10009766 in bfloat16, and an average is off by a thousandth. PyTorch
2.11's writes a difference, a product and a sum, each of which is rounded: moments of Adam in halves
are then half as exact as eager's. Must not know what becomes of the graph.
"""

from __future__ import annotations

from typing import TypeGuard

import torch
from torch import fx

_aten = torch.ops.aten
_HALVES = (torch.float16, torch.bfloat16)
_PRODUCTS = (_aten.mul.Scalar, _aten.mul.Tensor)
# From here on PyTorch's own kernels start at the other end, and dynamo writes something else.
_NEARER_END = 0.5

_Step = tuple[fx.Node, fx.Node, float]
"""Start, end and weight of start + weight * (end - start)."""


def with_interpolations(graph: fx.Graph) -> None:
    """Put lerp where its parts are."""
    spelled = {_aten.addcmul.default: _of_multiply_add, _aten.add.Tensor: _of_sum}
    for target, read in spelled.items():
        for update in graph.find_nodes(op="call_function", target=target):
            found = read(update)
            if found is None:
                continue
            with graph.inserting_before(update):
                call = graph.call_function(_aten.lerp.Scalar, found)
            call.meta = dict(update.meta)
            update.replace_all_uses_with(call)
            graph.erase_node(update)
    # A product and a weight read a difference.
    for target in (*_PRODUCTS, _aten.full_like.default, _aten.sub.Tensor):
        for part in graph.find_nodes(op="call_function", target=target):
            if not part.users:
                graph.erase_node(part)


def _of_multiply_add(update: fx.Node) -> _Step | None:
    """The step that a multiply-add is; None of others."""
    start, weights, difference = update.args
    if update.kwargs.get("value", 1) != 1 or not _calls(weights, _aten.full_like.default):
        return None
    return _step(update, start, difference, weights.args[1], weights)


def _of_sum(update: fx.Node) -> _Step | None:
    """The step that a sum of halves is, if it alone reads its parts; in float32 it is as exact."""
    start, product = update.args
    if update.kwargs.get("alpha", 1) != 1 or not _calls(product, *_PRODUCTS):
        return None
    difference, weight = product.args
    if update.meta["val"].dtype not in _HALVES:
        return None
    if any(len(each.users) > 1 for each in (product, *product.all_input_nodes)):
        return None
    return _step(update, start, difference, weight, product)


def _step(
    update: fx.Node, start: object, difference: object, weight: object, *others: object
) -> _Step | None:
    """The step, if a difference is from the start and all tensors are alike."""
    if not _calls(difference, _aten.sub.Tensor) or difference.kwargs.get("alpha", 1) != 1:
        return None
    end, taken = difference.args
    if taken is not start or not isinstance(weight, (int, float)) or abs(weight) >= _NEARER_END:
        return None
    return (start, end, weight) if _alike(update, start, end, difference, *others) else None


def _calls(node: object, *targets: torch._ops.OpOverload) -> TypeGuard[fx.Node]:
    return isinstance(node, fx.Node) and node.target in targets


def _alike(*nodes: object) -> bool:
    """Whether all are tensors of one shape and one type."""
    values = [node.meta.get("val") if isinstance(node, fx.Node) else None for node in nodes]
    tensors = [value for value in values if isinstance(value, torch.Tensor)]
    kinds = {(tensor.dtype, str(tensor.shape)) for tensor in tensors}
    return len(tensors) == len(nodes) and len(kinds) == 1
