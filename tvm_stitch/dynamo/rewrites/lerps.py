"""Steps between two tensors (`lerp`) that dynamo wrote out for an optimizer, as one operator again.

In: a functional graph, tensor by tensor. Out: the same graph. Dynamo writes `_foreach_lerp_` out as
a difference, a product and a sum; in halves each of them would be rounded, where PyTorch's own
kernel rounds once: moments of Adam would be half as exact as eager's.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import fx

_aten = torch.ops.aten
_HALVES = (torch.float16, torch.bfloat16)
_PRODUCTS = (_aten.mul.Scalar, _aten.mul.Tensor)
_FILLED = (_aten.full_like.default, _aten.full.default)


class _Step(NamedTuple):
    """start + weight * (end - start)."""

    start: fx.Node
    end: fx.Node
    weight: float
    parts: tuple[fx.Node, ...]  # what else is of it, readers first


def with_lerps(graph: fx.Graph) -> None:
    """Put start + weight * (end - start) of halves, and a known weight, into one operator."""
    for target in (_aten.add.Tensor, _aten.addcmul.default):
        for node in graph.find_nodes(op="call_function", target=target):
            step = _step(node)
            if step is None:
                continue
            with graph.inserting_before(node):
                call = graph.call_function(_aten.lerp.Scalar, tuple(step[:3]))
            call.meta = dict(node.meta)
            node.replace_all_uses_with(call)
            for each in (node, *step.parts):
                if not each.users:
                    graph.erase_node(each)


def _step(node: fx.Node) -> _Step | None:
    """The step that a sum is, if it is one and nobody reads its parts."""
    start, *factors = node.args
    products: tuple[fx.Node, ...] = ()
    if node.target == _aten.add.Tensor and _calls(factors[0], *_PRODUCTS):
        products = (factors[0],)
        factors = products[0].args
    differences = [each for each in factors if _calls(each, _aten.sub.Tensor)]
    weights = [number for each in factors if (number := _number(each)) is not None]
    if len(factors) != 2 or len(differences) != 1 or len(weights) != 1:
        return None
    (difference,) = differences
    end, subtracted = difference.args
    if subtracted is not start or not _is_half(start) or not _is_half(end):
        return None
    parts = (*products, *(each for each in factors if _calls(each, *_FILLED)), difference)
    if not all(map(_is_plain, (node, *products, difference))):
        return None
    if any(user not in (node, *parts) for each in (*products, difference) for user in each.users):
        return None
    return _Step(start, end, weights[0], parts)


def _is_plain(node: fx.Node) -> bool:
    """Whether a sum or a difference scales nothing."""
    return all(value == 1 for value in node.kwargs.values())


def _is_half(value: object) -> bool:
    found = value.meta.get("val") if isinstance(value, fx.Node) else None
    return isinstance(found, torch.Tensor) and found.dtype in _HALVES


def _calls(value: object, *targets: object) -> bool:
    return isinstance(value, fx.Node) and value.target in targets


def _number(value: object) -> float | None:
    """A factor that is one number, be it as a tensor."""
    if isinstance(value, fx.Node) and value.target in _FILLED:
        value = value.args[1]
    return float(value) if isinstance(value, (int, float)) else None
