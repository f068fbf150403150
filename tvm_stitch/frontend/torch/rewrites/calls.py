"""Calls that stand for a node of a traced graph.

In: a node with FakeTensors. Out: calls in front of it, traced as it was, and the graph with their
result in its place. Must not know what is called.
"""

from __future__ import annotations

from typing import Any

from torch import fx


class Calls:
    """Calls in front of a node, which replace it or are taken back."""

    def __init__(self, node: fx.Node) -> None:
        self._node = node
        self._made: list[fx.Node] = []

    def __call__(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """A call, of the pass that the node is of: what divides a joint graph is told so."""
        with self._node.graph.inserting_before(self._node):
            made = self._node.graph.call_function(target, args, kwargs)
        traced = self._node.meta["val"]
        first = traced[0] if isinstance(traced, (list, tuple)) else traced
        values, options = fx.map_arg((args, kwargs), lambda node: node.meta["val"])
        with first.fake_mode:
            made.meta = {**self._node.meta, "val": target(*values, **options)}
        self._made.append(made)
        return made

    def replace_by(self, result: fx.Node) -> bool:
        """Put a result in the node's place, if it lies in memory as the node's was traced."""
        wanted, found = self._node.meta["val"], result.meta["val"]
        if _description(wanted) != _description(found):
            self.erase()
            return False
        self._node.replace_all_uses_with(result)
        self._node.graph.erase_node(self._node)
        return True

    def erase(self) -> None:
        """Take all of them back."""
        for made in reversed(self._made):
            made.graph.erase_node(made)


def _description(value: Any) -> str:
    return f"{value.dtype} {value.device} {tuple(value.shape)} {value.stride()}"
