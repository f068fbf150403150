"""Lists of single numbers as one vector: counts of an optimizer's steps, what follows from them.

In: a functional graph. Out: the same graph, in which calls of lists (`_foreach_*`) whose tensors
are numbers are calls of vectors. Each number is worked out once so, and not by every thread that
updates a parameter. Must not know what becomes of the calls.
"""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import fx

from tvm_stitch.frontend.torch.rewrites.lists import called, element_of
from tvm_stitch.frontend.torch.writer import arguments

_aten = torch.ops.aten
# Of a whole tensor, not of each of its elements.
_WHOLE = (_aten.max.default, _aten.mm.default)


def as_vectors(graph: fx.Graph) -> None:
    """Compute lists of numbers as vectors; what others need of them are views."""
    vectors: dict[tuple[fx.Node, ...], fx.Node] = {}
    for node in list(graph.nodes):
        element = element_of(node)
        if element is None or element in _WHOLE or not _is_of_numbers(node):
            continue
        with graph.inserting_before(node):
            given = [
                _as_vector(graph, value, vectors) if isinstance(value, (list, tuple)) else value
                for _argument, value in arguments(node)
            ]
            vector = called(graph, node, element, given, _vector_like(node.meta["val"]))
            numbers = _unbound(graph, vector, node.meta["val"])
        vectors[numbers] = vector
        for user in list(node.users):
            user.replace_all_uses_with(numbers[user.args[1]])
            graph.erase_node(user)
        graph.erase_node(node)
    for number in [number for numbers in vectors for number in numbers]:
        _own_result(graph, number)
    for node in reversed(graph.nodes):
        if node.target in (operator.getitem, _aten.unbind.int) and not node.users:
            graph.erase_node(node)


def _is_of_numbers(node: fx.Node) -> bool:
    """Whether all tensors of a call of lists are numbers of one type on one device."""
    if not all(user.target is operator.getitem for user in node.users):
        return False
    tensors = list(node.meta["val"])
    for _argument, value in arguments(node):
        if isinstance(value, (list, tuple)) and not isinstance(value[0], fx.Node):
            if any(each != value[0] for each in value):
                return False
        else:
            tensors += _traced(value)
    first = tensors[0]
    return len(node.meta["val"]) > 1 and all(
        each.dim() == 0 and (each.dtype, each.device) == (first.dtype, first.device)
        for each in tensors
    )


def _traced(value: Any) -> Iterator[torch.Tensor]:
    for each in value if isinstance(value, (list, tuple)) else (value,):
        if isinstance(each, fx.Node) and isinstance(each.meta["val"], torch.Tensor):
            yield each.meta["val"]


def _as_vector(
    graph: fx.Graph, numbers: Sequence[Any], vectors: dict[tuple[fx.Node, ...], fx.Node]
) -> Any:
    if not isinstance(numbers[0], fx.Node):
        return numbers[0]
    key = tuple(numbers)
    if key not in vectors:
        vectors[key] = graph.call_function(_aten.stack.default, (list(numbers),))
        vectors[key].meta["val"] = _vector_like([each.meta["val"] for each in numbers])
    return vectors[key]


def _vector_like(numbers: Sequence[torch.Tensor]) -> torch.Tensor:
    return numbers[0].new_empty([len(numbers)])


def _unbound(
    graph: fx.Graph, vector: fx.Node, traced: Sequence[torch.Tensor]
) -> tuple[fx.Node, ...]:
    """The numbers of a vector, as views."""
    whole = graph.call_function(_aten.unbind.int, (vector,))
    whole.meta["val"] = tuple(traced)
    numbers = []
    for place, value in enumerate(traced):
        number = graph.call_function(operator.getitem, (whole, place))
        number.meta["val"] = value
        numbers.append(number)
    return tuple(numbers)


def _own_result(graph: fx.Graph, number: fx.Node) -> None:
    """What the graph returns is no view of other results."""
    for user in [user for user in number.users if user.op == "output"]:
        with graph.inserting_before(user):
            clone = graph.call_function(_aten.clone.default, (number,))
        clone.meta["val"] = number.meta["val"]
        user.replace_input_with(number, clone)
