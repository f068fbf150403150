"""Attention as PyTorch's fused kernels take it, before it chooses one; what they are not for.

In: a graph as dynamo gives it, where attention is still one call. Out: the same graph; a mask that
hides nothing is left out (traced models make masks that they leave out when they run eagerly), one
that depends on no input and hides what comes later is said by `is_causal` (on an H200, attention of
8 x 12 heads of 128 x 64 halves takes 41 us with a mask and 18 without), and one that is broadcast
along the keys is written out: PyTorch's fused kernels take no other, and without them attention is
two products in float32. A single query of float32 is written out: the fused kernel has a block for
each head (58 us for a layer of a Llama on an H200). Must not know what becomes of the graph.
"""

from __future__ import annotations

import operator
from math import inf
from typing import Any

import torch
from torch import fx

from tvm_stitch.dynamo.rewrites.untraced.known_ranges import Ranges
from tvm_stitch.dynamo.rewrites.untraced.known_values import Values, hides_nothing, is_causal

_ATTENTION = torch.nn.functional.scaled_dot_product_attention
_MASK = "attn_mask"
_PLACE = 3  # behind query, key and value
_DROPOUT, _DROPOUT_PLACE = "dropout_p", 4
_CAUSAL, _CAUSAL_PLACE = "is_causal", 5
_WRITTEN_OUT = torch.ops.aten._scaled_dot_product_attention_math.default


def with_fused_masks(graph: fx.Graph) -> None:
    """Drop the masks that need not be tensors; make the others contiguous along the keys."""
    ranges, values = Ranges(), Values()
    written: dict[fx.Node, fx.Node] = {}
    for call in graph.find_nodes(op="call_function", target=_ATTENTION):
        mask = _argument(call, _PLACE, _MASK)
        if mask is None:
            continue
        is_spare = _keeps_shape(call, mask)
        known = values.of(mask) if is_spare else None
        if is_spare and (
            _hides_nothing(mask, ranges) or (known is not None and hides_nothing(known))
        ):
            _set_mask(call, None)
        elif known is not None and _hides_what_is_later(call, known):
            _set_mask(call, None)
            _set(call, _CAUSAL_PLACE, _CAUSAL, True)
        elif _is_broadcast_along_keys(_value(mask)):
            if mask not in written:
                with graph.inserting_after(mask):
                    written[mask] = graph.call_method("contiguous", (mask,))
                written[mask].meta = {**mask.meta, "example_value": _value(mask).contiguous()}
            _set_mask(call, written[mask])
    for node in reversed(graph.nodes):  # nobody else may read what is left of a mask
        if not node.users and (ranges.is_known(node) or values.is_source(node)):
            graph.erase_node(node)


def with_single_queries_written_out(graph: fx.Graph) -> None:
    """Attention of one query, as where a word is added to a text, as products and a softmax."""
    for call in graph.find_nodes(op="call_function", target=_ATTENTION):
        query, mask = _argument(call, 0, "query"), _argument(call, _PLACE, _MASK)
        others = [_argument(call, place, name) for place, name in ((1, "key"), (2, "value"))]
        if query is None or None in others:
            continue
        is_single = _value(query).dtype is torch.float32 and _is(_value(query).shape[-2], 1)
        if not is_single or any(
            _given(call, place, name)
            for place, name in ((_DROPOUT_PLACE, _DROPOUT), (_CAUSAL_PLACE, _CAUSAL))
        ):
            continue
        how = {name: call.kwargs[name] for name in ("scale", "enable_gqa") if name in call.kwargs}
        with graph.inserting_before(call):
            if mask is not None and _value(mask).dtype is torch.bool:
                mask = graph.call_function(torch.where, (mask, 0.0, -inf))
            both = graph.call_function(_WRITTEN_OUT, (query, *others, mask), how)
            attended = graph.call_function(operator.getitem, (both, 0))
        attended.meta = dict(call.meta)
        call.replace_all_uses_with(attended)
        graph.erase_node(call)


def _given(call: fx.Node, place: int, name: str) -> Any:
    return call.args[place] if len(call.args) > place else call.kwargs.get(name)


def _argument(call: fx.Node, place: int, name: str) -> fx.Node | None:
    """A tensor that a call is given."""
    given = _given(call, place, name)
    is_tensor = isinstance(given, fx.Node) and isinstance(_value(given), torch.Tensor)
    return given if is_tensor else None  # type: ignore[return-value]


def _value(node: fx.Node) -> Any:
    return node.meta.get("example_value")


def _hides_nothing(mask: fx.Node, ranges: Ranges) -> bool:
    wanted = 1 if _value(mask).dtype is torch.bool else 0  # what is added to the scores
    return ranges.of(mask) == (wanted, wanted)


def _keeps_shape(call: fx.Node, mask: fx.Node) -> bool:
    """Whether the result has its shape without the mask too."""
    query = _argument(call, 0, "query")
    if query is None:
        return False
    batch, of_mask = _value(query).shape[:-2], _value(mask).shape[:-2]
    return len(of_mask) <= len(batch) and all(
        _is(extent, 1) or _is(extent, mine)
        for extent, mine in zip(reversed(of_mask), reversed(batch), strict=False)
    )


def _is(extent: int | torch.SymInt, other: int | torch.SymInt) -> bool:
    """Whether two sizes are the same, without a guard on symbolic ones."""
    return str(extent) == str(other)


def _is_broadcast_along_keys(mask: torch.Tensor) -> bool:
    return mask.dim() > 0 and not _is(mask.shape[-1], 1) and _is(mask.stride(-1), 0)


def _hides_what_is_later(call: fx.Node, mask: torch.Tensor) -> bool:
    """Whether a mask does what `is_causal` does."""
    query, key = _argument(call, 0, "query"), _argument(call, 1, "key")
    if query is None or key is None or _given(call, _CAUSAL_PLACE, _CAUSAL):
        return False
    extents = [_value(each).shape[-2] for each in (query, key)]
    return all(isinstance(each, int) for each in extents) and is_causal(mask, *extents)


def _set_mask(call: fx.Node, mask: fx.Node | None) -> None:
    _set(call, _PLACE, _MASK, mask)


def _set(call: fx.Node, place: int, name: str, value: Any) -> None:
    if len(call.args) > place:
        call.update_arg(place, value)
    else:
        call.update_kwarg(name, value)
