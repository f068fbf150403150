"""Operators on lists of tensors (`_foreach_*`), tensor by tensor.

In: a functional graph with one call for all parameters, as optimizers leave it on a GPU. Out: the
same graph with a call for each tensor, so that a tensor's whole update can share a kernel. Must not
know what becomes of the calls.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import fx

from tvm_stitch.frontend.torch.writer import arguments

_PREFIX = "_foreach_"
_NUMBERS = ("Scalar", "ScalarList")
_OF_TWO = ("add", "sub", "mul", "div")
_EXTREMES = {"maximum": "clamp_min", "minimum": "clamp_max"}

# What is done to each tensor, where it is called otherwise than behind the prefix.
_RENAMED = {
    **{f"{name}.{given}": f"{name}.Tensor" for name in _OF_TWO for given in ("List", "Tensor")},
    **{f"{name}.{given}": f"{name}.Scalar" for name in _OF_TWO for given in _NUMBERS},
    **{f"{name}.{given}": name for name in ("addcdiv", "addcmul") for given in _NUMBERS},
    **{f"{name}.List": most for most, limit in _EXTREMES.items() for name in (most, limit)},
    **{
        f"{name}.{given}": limit
        for most, limit in _EXTREMES.items()
        for name in (most, limit)
        for given in _NUMBERS
    },
    **{f"lerp.{given}": "lerp.Scalar" for given in _NUMBERS},
    "lerp.List": "lerp.Tensor",
    **{f"pow.{given}": "pow.Tensor_Scalar" for given in _NUMBERS},
    "pow.List": "pow.Tensor_Tensor",
    "pow.ScalarAndTensor": "pow.Scalar",
}  # fmt: skip


def by_tensor(graph: fx.Graph, accepted: Callable[[fx.Node], bool]) -> None:
    """Put a call for each tensor where a call of lists is, if all of them are accepted."""
    for node in list(graph.nodes):
        element = element_of(node)
        if element is None or not all(user.target is operator.getitem for user in node.users):
            continue
        with graph.inserting_before(node):
            calls = [_call(graph, node, element, n) for n in range(len(node.meta["val"]))]
        if all(map(accepted, calls)):
            for user in list(node.users):
                user.replace_all_uses_with(calls[user.args[1]])
                graph.erase_node(user)
            graph.erase_node(node)
        else:
            for call in calls:
                graph.erase_node(call)


def element_of(node: fx.Node) -> torch._ops.OpOverload | None:
    """What a call of lists does to each tensor; None of other calls."""
    target = node.target
    if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
        return None
    list_name, overload = target._schema.name.removeprefix("aten::"), target._overloadname
    if not list_name.startswith(_PREFIX) or not isinstance(node.meta.get("val"), (list, tuple)):
        return None
    name = list_name.removeprefix(_PREFIX)
    if overload != "default":
        name = _RENAMED.get(f"{name}.{overload}", "")
    packet, _, variant = name.partition(".")
    found = getattr(torch.ops.aten, packet, None) if packet else None
    return getattr(found, variant or "default", None)


def _call(graph: fx.Graph, node: fx.Node, element: torch._ops.OpOverload, number: int) -> fx.Node:
    """The call for one tensor of the lists."""
    given = [
        value[number] if isinstance(value, (list, tuple)) else value
        for _argument, value in arguments(node)
    ]
    return called(graph, node, element, given, node.meta["val"][number])


def called(
    graph: fx.Graph,
    node: fx.Node,
    element: torch._ops.OpOverload,
    given: Sequence[Any],
    result: torch.Tensor,
) -> fx.Node:
    """A call with what a call of lists is given, in the schemas' order, for a part of it."""
    taken = element._schema.arguments
    positional = [value for value, each in zip(given, taken, strict=False) if not each.kwarg_only]
    named = {each.name: value for value, each in zip(given, taken, strict=False) if each.kwarg_only}
    call = graph.call_function(element, tuple(positional), named)
    call.meta = {**node.meta, "val": result}
    return call
