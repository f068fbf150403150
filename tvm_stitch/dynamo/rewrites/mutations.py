"""What a graph writes into its inputs, at once and at its end.

In: a functional graph whose last nodes copy new values into inputs (an optimizer's step has one for
every parameter and every moment). Out: the graph without them, and what puts them back as one call.
Must not know who computes the values.
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Mapping, Sequence

import torch
from torch import fx

from tvm_stitch.frontend.torch.layout import is_dense, order_of

_COPY = torch.ops.aten.copy_.default


class Copies:
    """The copies into inputs at the end of a graph, which are taken out of it when this is made.

    Until `append`, the graph may be cut into parts, in any order that its data allow, and become
    another graph with the same inputs.
    """

    def __init__(self, graph: fx.Graph) -> None:
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
        pairs = zip(targets, values, strict=True)
        self._kinds = [(_kind(target), _kind(value)) for target, value in pairs]
        self._names = [target.name for target in targets]

    def from_parts(self, graph: fx.GraphModule) -> dict[str, dict[int, int]]:
        """For each part its results that are copied into what it is given, both by number.

        Nobody reads afterwards what was there: the part may write it.
        """
        found: dict[str, dict[int, int]] = defaultdict(dict)
        inputs, values = self._ends(graph.graph)
        (output,) = graph.graph.find_nodes(op="output")
        place = {node: n for n, node in enumerate(graph.graph.nodes)}
        for name, value in zip(self._names, values, strict=True):
            target = inputs[name]
            if value.target is not operator.getitem or list(value.users) != [output]:
                continue
            call, result = value.args
            if call.op != "call_module" or not _read_before(target, call, place):
                continue
            if output.args[0].count(value) == call.args.count(target) == 1:
                part = graph.get_submodule(str(call.target))
                number = call.args.index(target)
                if isinstance(part, fx.GraphModule) and _fit(part.graph, result, number):
                    found[str(call.target)][result] = number
        return found

    def append(self, graph: fx.GraphModule, written: Mapping[str, Mapping[int, int]]) -> None:
        """Copy what is not written by parts, all at once."""
        inputs, values = self._ends(graph.graph)
        (output,) = graph.graph.find_nodes(op="output")
        grouped = defaultdict(list)
        for kind, name, value in zip(self._kinds, self._names, values, strict=True):
            is_written = value.target is operator.getitem and (
                value.args[1] in written.get(str(value.args[0].target), ())
            )
            if not is_written:
                grouped[kind].append((inputs[name], value))
        with graph.graph.inserting_before(output):
            for group in grouped.values():
                graph.graph.call_function(
                    torch._foreach_copy_, tuple(map(list, zip(*group, strict=True)))
                )
        output.args = (tuple(output.args[0][: len(output.args[0]) - len(self._names)]),)

    def _ends(self, graph: fx.Graph) -> tuple[dict[str, fx.Node], Sequence[fx.Node]]:
        """The graph's inputs, and what is copied into some of them."""
        inputs = {node.name: node for node in graph.find_nodes(op="placeholder")}
        (output,) = graph.find_nodes(op="output")
        return inputs, output.args[0][len(output.args[0]) - len(self._names) :]


def _read_before(target: fx.Node, call: fx.Node, place: Mapping[fx.Node, int]) -> bool:
    """Whether only this call, or what comes before it, reads a tensor or views of it."""
    seen, waiting = set(), [target]
    while waiting:
        node = waiting.pop()
        for user in node.users:
            if user is call:
                if node is not target:
                    return False
            elif place[user] > place[call]:
                return False
            elif user not in seen and _may_alias(user):
                seen.add(user)
                waiting.append(user)
    return True


def _may_alias(node: fx.Node) -> bool:
    """Whether a node's result may be in the memory of what it reads; those of parts never are."""
    if node.op == "call_module":
        return False
    if not isinstance(node.target, torch._ops.OpOverload):
        return True
    return any(each.alias_info is not None for each in node.target._schema.returns)


def _fit(part: fx.Graph, result: int, number: int) -> bool:
    """Whether a result of a part lies in memory as one of its inputs does."""
    (output,) = part.find_nodes(op="output")
    value = output.args[0][result].meta["val"]
    given = part.find_nodes(op="placeholder")[number].meta["val"]
    same = (value.dtype, str(value.shape)) == (given.dtype, str(given.shape))
    return same and is_dense(given) and order_of(given) == order_of(value)


def _kind(node: fx.Node) -> tuple[torch.dtype, torch.device]:
    return node.meta["val"].dtype, node.meta["val"].device


def _is_copy_into_input(node: fx.Node) -> bool:
    """Whether a node copies into an input, and nothing but the result reads it afterwards."""
    if node.target is not _COPY or node.args[0].op != "placeholder":
        return False
    return all(user.op == "output" for user in node.users)
