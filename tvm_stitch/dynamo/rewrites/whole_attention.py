"""Attention of an inference as one operator with one result, which a part may have.

In: a functional graph, in which PyTorch has chosen a kernel for attention, and what is ours of it.
Out: the same graph; where nothing but the attended values is read and the operator is ours, it is
the one that PyTorch chose from. Must not know what becomes of it.

A call of PyTorch's between two parts costs the host as much as a part: of a BERT's inference on an
H200, 649 us of kernels, 25 calls took 2248 us.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

import torch
from torch import fx
from torch.fx.operator_schemas import normalize_function

_aten = torch.ops.aten
_WHOLE = _aten.scaled_dot_product_attention.default
_CHOSEN = (
    _aten._scaled_dot_product_cudnn_attention.default,
    _aten._scaled_dot_product_flash_attention.default,
    _aten._scaled_dot_product_efficient_attention.default,
    _aten._scaled_dot_product_flash_attention_for_cpu.default,
)


def with_whole_attention(graph: fx.Graph, accepted: Callable[[fx.Node], bool]) -> None:
    """Replace the chosen kernels that are ours."""
    for target in _CHOSEN:
        for chosen in graph.find_nodes(op="call_function", target=target):
            attended = _only_attended(chosen)
            if attended is not None:
                _replace(graph, chosen, attended, accepted)


def _only_attended(chosen: fx.Node) -> fx.Node | None:
    """The node that takes the attended values, if nobody reads what a gradient would."""
    read = [user for user in chosen.users if user.users]
    if len(read) != 1 or read[0].target is not operator.getitem or read[0].args[1] != 0:
        return None
    return read[0]


def _replace(
    graph: fx.Graph, chosen: fx.Node, attended: fx.Node, accepted: Callable[[fx.Node], bool]
) -> None:
    assert callable(chosen.target), "it is an operator"
    normalized = normalize_function(
        chosen.target, chosen.args, chosen.kwargs, normalize_to_only_use_kwargs=True
    )
    assert normalized is not None, "it has one schema"
    given = normalized.kwargs
    query, key, value = (given[name] for name in ("query", "key", "value"))
    heads = [each.meta["val"].shape[-3] for each in (query, key)]
    mask = given.get("attn_bias", given.get("attn_mask"))
    arguments = (query, key, value, mask, given["dropout_p"], given["is_causal"])
    how = {"scale": given.get("scale"), "enable_gqa": str(heads[0]) != str(heads[1])}
    with graph.inserting_before(attended):
        whole = graph.call_function(_WHOLE, arguments, how)
    whole.meta = {**chosen.meta, "val": attended.meta["val"]}
    if not accepted(whole):
        graph.erase_node(whole)
        return
    attended.replace_all_uses_with(whole)
    for user in list(chosen.users):
        graph.erase_node(user)
    graph.erase_node(chosen)
