"""Calls that stand for a node of a traced graph.

In: a node with FakeTensors. Out: calls in front of it, traced as it was, and the graph with their
result in its place. Must not know what is called.
"""

from __future__ import annotations

from typing import Any

from torch import fx

from tvm_stitch.dynamo.support import tensors_of


class Calls:
    """Calls in front of a node, which replace it or are taken back."""

    def __init__(self, node: fx.Node) -> None:
        self._node = node
        self._made: list[fx.Node] = []

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """A call, of the pass that the node is of: what divides a joint graph is told so."""
        with self._node.graph.inserting_before(self._node):
            made = self._node.graph.call_function(target, args, kwargs)
        self._made.append(made)
        made.meta = {**self._node.meta, "val": value_of(made, self._node)}
        return made

    def replace_by(self, result: fx.Node) -> bool:
        """Put a result in the node's place, if it lies in memory as the node's was traced."""
        wanted, found = self._node.meta["val"], result.meta["val"]
        if _description(wanted) != _description(found):
            for made in reversed(self._made):
                made.graph.erase_node(made)
            return False
        self._node.replace_all_uses_with(result)
        self._node.graph.erase_node(self._node)
        return True


def value_of(node: fx.Node, beside: fx.Node | None = None) -> Any:
    """A node's FakeTensors anew; of what reads no tensor, as `beside` was traced."""
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
    assert callable(node.target)
    known = [*node.all_input_nodes, *([] if beside is None else [beside])]
    mode = next(tensors_of([each.meta["val"] for each in known])).fake_mode  # type: ignore[attr-defined]
    with mode:
        return node.target(*args, **kwargs)


def _description(value: Any) -> str:
    return f"{value.dtype} {value.device} {tuple(value.shape)} {value.stride()}"
