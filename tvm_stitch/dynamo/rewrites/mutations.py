"""What a graph writes into its inputs, at once and at its end.

In: a functional graph whose last nodes copy new values into inputs (an optimizer's step has one for
every parameter and every moment). Out: the graph without them, and what puts them back as one call.
Must not know who computes the values.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable

import torch
from torch import fx

_COPY = torch.ops.aten.copy_.default


def without_copies(graph: fx.Graph) -> Callable[[fx.Graph], None]:
    """Take the copies into inputs out of a graph; the returned function appends them.

    Between the two the graph may be cut into parts, in any order that its data allow, and become
    another graph with the same inputs.
    """
    copies = [node for node in graph.nodes if _is_copy_into_input(node)]
    targets = [node.args[0] for node in copies]
    (output,) = graph.find_nodes(op="output")
    results = tuple(output.args[0])
    values = []
    for node in copies:
        value = node.args[1]
        if value in targets:  # what it holds may be overwritten by then
            with graph.inserting_before(node):
                clone = graph.call_function(torch.ops.aten.clone.default, (value,))
            clone.meta["val"], value = value.meta["val"], clone
        values.append(value)
        results = tuple(node.args[0] if each is node else each for each in results)
    # As results, they are there whatever becomes of the nodes between.
    output.args = ((*results, *values),)
    for node in copies:
        graph.erase_node(node)
    kinds = [(_kind(target), _kind(value)) for target, value in zip(targets, values, strict=True)]
    names = [target.name for target in targets]

    def append(graph: fx.Graph) -> None:
        inputs = {node.name: node for node in graph.find_nodes(op="placeholder")}
        (output,) = graph.find_nodes(op="output")
        returned = output.args[0]
        kept = len(returned) - len(names)
        grouped = defaultdict(list)
        for kind, name, value in zip(kinds, names, returned[kept:], strict=True):
            grouped[kind].append((inputs[name], value))
        with graph.inserting_before(output):
            for group in grouped.values():
                graph.call_function(
                    torch._foreach_copy_, tuple(map(list, zip(*group, strict=True)))
                )
        output.args = (tuple(returned[:kept]),)

    return append


def _kind(node: fx.Node) -> tuple[torch.dtype, torch.device]:
    return node.meta["val"].dtype, node.meta["val"].device


def _is_copy_into_input(node: fx.Node) -> bool:
    """Whether a node copies into an input, and nothing but the result reads it afterwards."""
    if node.target is not _COPY or node.args[0].op != "placeholder":
        return False
    return all(user.op == "output" for user in node.users)
