"""Indices that are the same for all of a row name rows.

In: a functional graph with FakeTensors. Out: the same graph; where `scatter_add` and
`scatter_reduce` get an index that is spread along the other dimensions without memory of its own,
as networks over graphs call them, they add or compare whole rows (`index_put`, `index_reduce`).
That has a kernel; elements that each go somewhere else are PyTorch's atomics, whose largest of
40,000 rows of four takes 33 us on an H200. Must not know what becomes of the graph.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import fx
from torch.fx.experimental.symbolic_shapes import statically_known_true

from tvm_stitch.frontend.torch.rewrites.calls import Calls

_aten = torch.ops.aten
# What leaves the elements of an index in their order.
_SPREAD = frozenset({
    _aten.alias.default, _aten.expand.default, _aten.reshape.default, _aten.unsqueeze.default,
    _aten.view.default,
})  # fmt: skip


def with_same_rows(graph: fx.Graph, accepts: Callable[[fx.Node], bool]) -> None:
    """Put calls of rows where elements are sent to the same places along all of a row."""
    for target in (_aten.scatter_add.default, _aten.scatter_reduce.two):
        for node in graph.find_nodes(op="call_function", target=target):
            _replace(node, accepts)


def _replace(node: fx.Node, accepts: Callable[[fx.Node], bool]) -> None:
    x, dim, index, source, *reduce = node.args
    rank = x.meta["val"].dim()  # type: ignore[union-attr]
    if not rank or not _names_rows(x, dim % rank, index, source):  # type: ignore[operator]
        return
    include_self = node.kwargs.get("include_self", True)
    is_sum = reduce in ([], ["sum"])
    if is_sum and not include_self:  # PyTorch has no such call of rows
        return
    axis, calls = dim % rank, Calls(node)  # type: ignore[operator]
    index = _of_rows(calls, index, axis)  # type: ignore[arg-type]
    if is_sum:
        found = calls(_aten.index_put.default, x, [*[None] * axis, index], source, True)
    else:
        how = {"include_self": include_self}
        found = calls(_aten.index_reduce.default, x, axis, index, source, *reduce, **how)
    if accepts(found):
        calls.replace_by(found)
    else:
        calls.erase()


def _of_rows(calls: Calls, index: fx.Node, axis: int) -> fx.Node:
    """An index for each row: where it can be, what was spread, which others may name, too."""
    places = index.meta["val"]
    count, found = places.shape[axis], index
    while found.target in _SPREAD and _has(found.args[0], count):
        found = found.args[0]  # type: ignore[assignment]
    if found is not index:
        is_list = found.meta["val"].dim() == 1
        return found if is_list else calls(_aten.view.default, found, [count])
    for other in reversed(range(places.dim())):
        if other != axis:
            found = calls(_aten.select.int, found, other, 0)
    return found


def _has(node: object, count: int) -> bool:
    """Whether a tensor has so many elements."""
    return isinstance(node, fx.Node) and statically_known_true(node.meta["val"].numel() == count)


def _names_rows(x: fx.Node, axis: int, index: fx.Node, source: object) -> bool:
    """Whether an index is the same along all other dimensions, of which all elements are meant."""
    if not isinstance(source, fx.Node):
        return False
    table, places, values = (each.meta["val"] for each in (x, index, source))
    others = [dim for dim in range(table.dim()) if dim != axis]
    if places.dim() != table.dim() or not others:
        return False
    same = zip(places.shape, values.shape, strict=True)
    if not all(statically_known_true(a == b) for a, b in same):
        return False
    return all(
        statically_known_true(places.shape[dim] == table.shape[dim])
        and not statically_known_true(places.shape[dim] == 0)
        and (places.stride(dim) == 0 or places.shape[dim] == 1)
        for dim in others
    )
