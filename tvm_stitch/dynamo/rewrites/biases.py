"""Biases of convolutions that stay PyTorch's, as additions of what reads these.

In: a functional graph with FakeTensors, and which nodes are ours. Out: the same graph. cuDNN's
convolutions end with nothing where PyTorch calls them: it rounds their results, and adds a bias by
a kernel that reads and writes all of them once more, 250 of the 1370 us of a PointNet's step on an
H200. Behind a convolution whose readers are ours the addition is theirs. Must not know what becomes
of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import fx

from tvm_stitch.dynamo.parts.nodes import computes

_aten = torch.ops.aten
CONVOLUTION = _aten.convolution.default
_BIAS = 2
_GROUPS = 8


def with_biases_apart(graph: fx.Graph, is_ours: Callable[[fx.Node], bool]) -> None:
    """Take biases off PyTorch's convolutions where something of ours reads the result."""
    for node in graph.find_nodes(op="call_function", target=CONVOLUTION):
        bias = node.args[_BIAS]
        if bias is None or is_ours(node) or _is_by_channel(node):
            continue
        if any(is_ours(reader) for reader in _readers(node)):
            _apart(graph, node, bias, is_ours)


def _is_by_channel(node: fx.Node) -> bool:
    """Whether each filter has a single channel of several: PyTorch's own kernels add the bias."""
    return node.args[_GROUPS] != 1 and node.args[1].meta["val"].shape[1] == 1  # type: ignore[union-attr]


def _readers(node: fx.Node) -> Iterator[fx.Node]:
    """What computes something of a node, or of views of it."""
    for user in node.users:
        if computes(user):
            yield user
        else:
            yield from _readers(user)


def _apart(
    graph: fx.Graph, node: fx.Node, bias: fx.Node, is_ours: Callable[[fx.Node], bool]
) -> None:
    """The bias as an addition, if that is ours and its result lies as the convolution's does."""
    value, behind = node.meta["val"], [1] * (node.meta["val"].dim() - 2)
    with graph.inserting_after(node):
        view = graph.call_function(_aten.view.default, (bias, [-1, *behind]))
    with graph.inserting_after(view):
        added = graph.call_function(_aten.add.Tensor, (node, view))
    with value.fake_mode:
        view.meta["val"] = bias.meta["val"].view(-1, *behind)
        added.meta["val"] = value + view.meta["val"]
    if not is_ours(added) or added.meta["val"].stride() != value.stride():
        graph.erase_node(added)
        graph.erase_node(view)
        return
    node.replace_all_uses_with(added, lambda user: user is not added)
    node.update_arg(_BIAS, None)


__all__ = ["with_biases_apart"]
