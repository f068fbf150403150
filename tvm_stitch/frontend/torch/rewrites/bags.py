"""Sums and means of bags of rows of a table, and their gradients, as core operators.

In: a functional graph with FakeTensors, of inference or of both passes. Out: the same graph, in
which `_embedding_bag` is rows that are read and summed. Bags of one length are a dimension of
these; of others the offsets say which bag a row goes to, for which they have to be searched: where
PyTorch is there, its one kernel sums them and says so on the way. A gradient sends to each row of
the table what its bag has got: PyTorch's own sorts the indices, in eight kernels a table. Must not
know what becomes of the graph.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tvm_stitch.frontend.torch.rewrites.bag_parts import SEARCH, Bags, Written
from tvm_stitch.frontend.torch.writer import arguments

_aten = torch.ops.aten
_BAGS = (_aten._embedding_bag.default, _aten._embedding_bag_forward_only.default)
_SUM, _MEAN = 0, 1


def with_bags_written_out(graph: fx.Graph, accepted: Callable[[fx.Node], bool]) -> None:
    """Write out the bags of which all is accepted that they become.

    Who reads more of a call than its sums keeps it whole, as a gradient does that stays.
    """
    for target in _BAGS:
        for call in graph.find_nodes(op="call_function", target=target):
            given = _given(call)
            if _is_known(call, given):
                _write_out(call, given, accepted)


def _given(call: fx.Node) -> dict[str, Any]:
    return {argument.name: value for argument, value in arguments(call)}


def _is_known(call: fx.Node, given: dict[str, Any]) -> bool:
    """Whether a call sums up bags, or takes their means, of which there are any."""
    if given["mode"] not in (_SUM, _MEAN) or given["indices"].meta["val"].dim() != 1:
        return False
    if not all(user.target is operator.getitem for user in call.users):
        return False
    sizes = (*call.meta["val"][0].shape, *given["indices"].meta["val"].shape)
    return not any(isinstance(size, int) and size == 0 for size in sizes)


def _write_out(call: fx.Node, given: dict[str, Any], accepted: Callable[[fx.Node], bool]) -> None:
    results = {user.args[1]: user for user in call.users}
    forward = Written(call)
    sums = _sums(forward, Bags.of(forward, call, given))
    is_ours = forward.is_accepted(accepted)
    # Where the call stays, what it says of bags costs nothing; of sums it may not on the CPU.
    is_told = given["mode"] == _MEAN or call.meta["val"][0].device.type != "cpu"
    told = results if is_told and not is_ours else {}
    readers = [user for place in (1, 2, 3) if place in results for user in results[place].users]
    for gradient in dict.fromkeys(readers):
        if _is_dense(gradient):
            instead = Written(gradient)
            bags = Bags.of(instead, call, given, told.get(1), told.get(2))
            made = _GRADIENTS[gradient.target](instead, bags, _given(gradient))
            instead.put(made, lambda each: each.target is SEARCH or accepted(each))
    read = {user.args[1] for user in call.users if user.users}
    if 0 in results and not read - {0}:
        forward.put(sums, accepted, results[0])
    else:
        forward.erase()


def _is_dense(gradient: fx.Node) -> bool:
    """Whether a reader of a call is a gradient that is neither sparse nor scaled."""
    if gradient.target not in _GRADIENTS:
        return False
    given = _given(gradient)
    return not given.get("sparse") and not given.get("scale_grad_by_freq")


def _sums(emit: Written, bags: Bags) -> fx.Node:
    """What is in each bag, as one row; halves are summed and divided in float32."""
    weight = bags.given["weight"]
    rows = emit.wide(emit(_aten.embedding.default, weight, bags.indices))
    sums = bags.summed(emit, bags.without_padding(emit, bags.weighted(emit, rows)))
    if bags.given["mode"] == _MEAN:
        sums = bags.divided(emit, sums)
    return emit.cast(sums, weight.meta["val"].dtype)


def _of_table(emit: Written, bags: Bags, given: dict[str, Any]) -> fx.Node:
    """A table's gradient: to each row what the bags have got that it is in."""
    gradient = given["grad"]
    if bags.given["mode"] == _MEAN:
        gradient = bags.divided(emit, emit.wide(gradient))
    updates = bags.weighted(emit, bags.spread(emit, gradient))
    padding, rows = bags.given["padding_idx"], given["num_weights"]
    how = (bags.indices, rows, padding, False)
    table = emit(_aten.embedding_dense_backward.default, updates, *how)
    return emit.cast(table, given["grad"].meta["val"].dtype)


def _of_weights(emit: Written, bags: Bags, given: dict[str, Any]) -> fx.Node:
    """The gradient of each row's weight: the product of the row and what its bag has got."""
    rows = emit.wide(emit(_aten.embedding.default, given["weight"], bags.indices))
    gradients = bags.spread(emit, emit.wide(given["grad"]))
    product = bags.without_padding(emit, emit(_aten.mul.Tensor, rows, gradients))
    sums = emit(_aten.sum.dim_IntList, product, [-1])
    if bags.length is not None:
        sums = emit(_aten.view.default, sums, [-1])
    return emit.cast(sums, given["grad"].meta["val"].dtype)


_GRADIENTS: dict[Any, Callable[[Written, Bags, dict[str, Any]], fx.Node]] = {
    _aten._embedding_bag_backward.default: _of_table,
    _aten._embedding_bag_dense_backward.default: _of_table,
    _aten._embedding_bag_per_sample_weights_backward.default: _of_weights,
}
