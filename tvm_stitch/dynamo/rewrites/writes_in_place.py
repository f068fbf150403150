"""Writes of PyTorch's into a tensor that is filled with a number are made in its memory.

In: a functional graph with FakeTensors, and which nodes are PyTorch's. Out: the same graph; what is
filled for a write is PyTorch's as well. A functional write copies first what it is to write into:
of the gradient of a `gather`, zeros. Must not know what becomes of the graph.
"""

from __future__ import annotations

import torch
from torch import fx

_aten = torch.ops.aten
_IN_PLACE = {
    _aten.index_add.default: _aten.index_add_.default,
    _aten.index_put.default: _aten.index_put_.default,
    _aten.scatter.src: _aten.scatter_.src,
    _aten.scatter.value: _aten.scatter_.value,
    _aten.scatter_add.default: _aten.scatter_add_.default,
    _aten.scatter_reduce.two: _aten.scatter_reduce_.two,
}


def with_writes_in_place(graph: fx.Graph, ours: dict[fx.Node, bool]) -> None:
    """Give each write a tensor of its own to write into; `ours` knows of that."""
    for write in list(graph.nodes):
        if ours.get(write, False) or write.target not in _IN_PLACE:
            continue
        filled = write.args[0]
        if not isinstance(filled, fx.Node) or filled.target is not _aten.full.default:
            continue
        with graph.inserting_before(write):
            own = graph.node_copy(filled)
        write.args = (own, *write.args[1:])
        write.target = _IN_PLACE[write.target]
        ours[own] = False
        if not filled.users:
            graph.erase_node(filled)
