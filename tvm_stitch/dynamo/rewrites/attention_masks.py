"""Masks of attention as PyTorch's fused kernels take them, before it chooses among its kernels.

In: a graph as dynamo gives it, where attention is still one call. Out: the same graph; a mask that
hides nothing is left out (traced models make masks that they leave out when they run eagerly), and
one that is broadcast along the keys is written out: PyTorch's fused kernels take no other, and
without them attention is two products in float32. Must not know what becomes of the graph.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from tvm_stitch.dynamo.rewrites.known_ranges import Ranges

_ATTENTION = torch.nn.functional.scaled_dot_product_attention
_MASK = "attn_mask"
_PLACE = 3  # behind query, key and value


def with_fused_masks(graph: fx.Graph) -> None:
    """Drop the masks that hide nothing; make the others contiguous along the keys."""
    ranges = Ranges()
    written: dict[fx.Node, fx.Node] = {}
    for call in graph.find_nodes(op="call_function", target=_ATTENTION):
        mask = _argument(call, _PLACE, _MASK)
        if mask is None:
            continue
        if _hides_nothing(mask, ranges) and _keeps_shape(call, mask):
            _set_mask(call, None)
        elif _is_broadcast_along_keys(_value(mask)):
            if mask not in written:
                with graph.inserting_after(mask):
                    written[mask] = graph.call_method("contiguous", (mask,))
                written[mask].meta = {**mask.meta, "example_value": _value(mask).contiguous()}
            _set_mask(call, written[mask])
    for node in reversed(graph.nodes):  # nobody else may read what is left of a mask
        if not node.users and ranges.is_known(node):
            graph.erase_node(node)


def _argument(call: fx.Node, place: int, name: str) -> fx.Node | None:
    """A tensor that a call is given."""
    given = call.args[place] if len(call.args) > place else call.kwargs.get(name)
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


def _set_mask(call: fx.Node, mask: fx.Node | None) -> None:
    if len(call.args) > _PLACE:
        call.update_arg(_PLACE, mask)
    else:
        call.update_kwarg(_MASK, mask)
