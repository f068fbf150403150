"""Memory that is only filled with a number is made filled.

In: a functional graph with FakeTensors. Out: the same graph with fewer calls. PyTorch writes a
number beside a tensor, the margin of a loss or a gradient of one, as `full_like` of an `empty`
tensor: memory as large as the tensor's, which PyTorch would allocate for our part to read nothing
of. Must not know what becomes of the graph.
"""

from __future__ import annotations

import torch
from torch import fx

from tvm_stitch.frontend.torch.layout import is_laid

_aten = torch.ops.aten
_EMPTY = (_aten.empty_permuted.default, _aten.empty.memory_format)
_FILLED = (_aten.full_like.default, _aten.fill.Scalar)


def with_filled(graph: fx.Graph) -> None:
    """Put `full` where a tensor without values is filled."""
    for target in _EMPTY:
        for empty in graph.find_nodes(op="call_function", target=target):
            for fill in [user for user in empty.users if _fills(user, empty)]:
                _replace(graph, fill, empty.args[0])
            if not empty.users:
                graph.erase_node(empty)


def _fills(call: fx.Node, empty: fx.Node) -> bool:
    """Whether a call asks nothing of the memory, and its result lies as its dimensions do."""
    if call.target not in _FILLED or call.args[0] is not empty:
        return False
    value = call.meta["val"]
    return isinstance(call.args[1], (bool, int, float)) and is_laid(
        value, tuple(range(value.dim()))
    )


def _replace(graph: fx.Graph, fill: fx.Node, size: object) -> None:
    value = fill.meta["val"]
    with graph.inserting_before(fill):
        full = graph.call_function(
            _aten.full.default,
            (size, fill.args[1]),
            {"dtype": value.dtype, "device": value.device},
        )
    full.meta = dict(fill.meta)
    fill.replace_all_uses_with(full)
    graph.erase_node(fill)
