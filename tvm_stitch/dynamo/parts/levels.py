"""Which operators of ours could be one part: those between the same operators of PyTorch's.

In: a functional graph and who owns which node. Out: sets of nodes in the order in which they can
run, as few as there can be. Must not know what becomes of them.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from torch import fx

_APART = ("placeholder", "get_attr", "output")


def levels(
    graph: fx.Graph, is_ours: Callable[[fx.Node], bool], returned_last: bool = False
) -> list[list[fx.Node]]:
    """What is ours, by how many of PyTorch's operators stand before it in turn.

    A node is put as late as those allow that want it, so that it is not kept for long: casts of
    weights, masks, what a backward pass computes again. What is only returned stays with its
    operands or, `returned_last`, comes at the end: gradients of weights then share launches. What
    is taken of several results stays with them: no tuple passes between parts.
    """
    nodes = [node for node in graph.nodes if node.op not in _APART]
    ours = {node for node in nodes if is_ours(node)}
    earliest: dict[fx.Node, int] = {}
    for node in nodes:
        before = (
            earliest[each] + (each in ours and node not in ours)
            for each in node.all_input_nodes
            if each in earliest
        )
        earliest[node] = max(before, default=0)
    last = max(earliest.values(), default=0)
    latest: dict[fx.Node, int] = {}
    for node in reversed(nodes):
        behind = (
            latest[user] - (node in ours and user not in ours)
            for user in node.users
            if user in latest
        )
        latest[node] = min(behind, default=last if returned_last else earliest[node])
    found: dict[int, list[fx.Node]] = {}
    for node in nodes:
        whole = node.args[0] if node.target is operator.getitem else None
        if isinstance(whole, fx.Node) and whole in ours:
            latest[node] = latest[whole]
        if node in ours:
            found.setdefault(latest[node], []).append(node)
    return [found[level] for level in sorted(found)]
