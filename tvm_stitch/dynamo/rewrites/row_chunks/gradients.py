"""Gradients of a number that backward is told: they are as many times those of one.

In: a joint graph, and nodes of it that depend on what backward is told. Out: the same graph, in
which they depend on one instead, and the number that their results are to be multiplied by. So they
can be computed in forward. Must not know what is computed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import torch
from torch import fx

from tvm_stitch.dynamo.rewrites.row_chunks.pieces import VIEWS, NotByRows

_aten = torch.ops.aten
_TANGENTS = "tangents"  # as AOTAutograd names them
OF_PASS = "partitioner_tag"
"""What a node's meta has of the pass that it was traced in."""
_FIRST = frozenset({  # linear in the first operand
    *VIEWS, _aten._to_copy.default, _aten.clone.default, _aten.expand.default,
    _aten.permute.default, _aten.neg.default, _aten.sum.dim_IntList, _aten.mul.Scalar,
    _aten.div.Tensor, _aten.div.Scalar,
})  # fmt: skip
_EITHER = frozenset({_aten.mul.Tensor, _aten.mm.default})
_ALL = frozenset({_aten.add.Tensor, _aten.sub.Tensor})
_ZEROS = frozenset({_aten.full.default, _aten.full_like.default, _aten.scalar_tensor.default})


def number_told(graph: fx.Graph, nodes: Iterable[fx.Node]) -> tuple[fx.Node | None, list[fx.Node]]:
    """The number that nodes are linear in, if they depend on what backward is told.

    With all of their operands, and so on, that depend on it, in the graph's order.
    """
    told, dependent = set[fx.Node](), set[fx.Node]()
    for node in graph.nodes:
        if node.op == "placeholder" and _TANGENTS in str(node.target):
            told.add(node)
        if node in told or not dependent.isdisjoint(node.all_input_nodes):
            dependent.add(node)
    waiting, before = [node for node in nodes if node in dependent], set[fx.Node]()
    while waiting:
        node = waiting.pop()
        if node not in before:
            before.add(node)
            waiting += [each for each in node.all_input_nodes if each in dependent]
    if not before:
        return None, []
    numbers = told & before
    if len(numbers) > 1 or any(each.meta["val"].dim() for each in numbers):
        raise NotByRows("its gradients are of more than one number")
    for node in before - numbers:
        if not _is_linear(node, before):
            raise NotByRows(f"its gradients are not linear, by {node.target}")
        if node.meta["val"].dtype is torch.float16:
            raise NotByRows("gradients of float16 may need the scale that backward is told")
    return numbers.pop(), [node for node in graph.nodes if node in before]


def of_one(factor: fx.Node, nodes: Iterable[fx.Node]) -> dict[fx.Node, fx.Node]:
    """Copies of nodes, at the place where the graph is written, of the number one."""
    graph, value = factor.graph, factor.meta["val"]
    how = {"dtype": value.dtype, "device": value.device}
    one = graph.call_function(_aten.full.default, ([], 1.0), how)
    one.meta["val"] = value
    found = {factor: one}
    for node in nodes:
        if node is not factor:
            found[node] = graph.node_copy(node, lambda each: found.get(each, each))
            found[node].meta.pop(OF_PASS, None)
    return found


def _is_linear(node: fx.Node, dependent: Collection[fx.Node]) -> bool:
    """Whether a node is linear in those of its operands that depend on a number."""
    is_dependent = [each in dependent for each in node.args]
    if any(each in dependent for each in node.kwargs.values()):
        return False
    if node.target in _FIRST:
        return is_dependent[0] and not any(is_dependent[1:])
    if node.target in _EITHER:
        return sum(is_dependent) == 1
    if node.target in _ALL:
        return all(is_dependent[:2])
    if node.target is _aten.where.self:
        sides = zip(node.args[1:], is_dependent[1:], strict=True)
        return not is_dependent[0] and all(known or _is_zero(side) for side, known in sides)
    return False


def _is_zero(node: Any) -> bool:
    """Whether a node is zeros."""
    if node.target not in _ZEROS:
        return False
    return bool(node.args[node.target is not _aten.scalar_tensor.default] == 0)
