"""Attention as PyTorch's fused kernels take it, before it chooses one; what they are not for.

In: a graph as dynamo gives it, where attention is still one call. Out: the same graph; a mask that
hides nothing is left out (traced models make masks that they leave out when they run eagerly), one
that depends on no input and hides what comes later is said by `is_causal` (on an H200, attention of
8 x 12 heads of 128 x 64 halves takes 41 us with a mask and 18 without), and one of which a query's
elements do not lie side by side is written out (where it is broadcast along the keys, and where a
table has a row of heads for each distance, as a T5's): PyTorch's fused kernels take no other, and
without them attention is two products in float32. Attention of float32 is written out where it has
a single query (the fused kernel has a block for each head: 58 us for a layer of a Llama on an H200)
and in training by TF32. Keys and values that several heads share, and that a model has repeated for
them (grouped-query attention), are given as they are. Must not know what becomes of the graph.
"""

from __future__ import annotations

import operator
from math import inf, prod
from typing import Any

import torch
from torch import fx

from tvm_stitch.dynamo.rewrites.untraced.known_ranges import Ranges
from tvm_stitch.dynamo.rewrites.untraced.known_values import Values, hides_nothing, is_causal
from tvm_stitch.dynamo.settings import CUDA

ATTENTION = torch.nn.functional.scaled_dot_product_attention
HALVES = (torch.float16, torch.bfloat16)
_MASK = "attn_mask"
_PLACE = 3  # behind query, key and value
_DROPOUT, _DROPOUT_PLACE = "dropout_p", 4
_CAUSAL, _CAUSAL_PLACE = "is_causal", 5
MOST_SCORES = 1 << 23  # of a layer, 32 MB
DEEPEST = 256  # elements of a head that fused kernels take
_WRITTEN_OUT = torch.ops.aten._scaled_dot_product_attention_math.default


def with_fused_masks(graph: fx.Graph) -> None:
    """Drop the masks that need not be tensors; make the others contiguous along the keys."""
    ranges, values = Ranges(), Values()
    written: dict[fx.Node, fx.Node] = {}
    for call in graph.find_nodes(op="call_function", target=ATTENTION):
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
        elif _lies_apart(traced(mask)):
            if mask not in written:
                with graph.inserting_after(mask):
                    written[mask] = graph.call_method("contiguous", (mask,))
                written[mask].meta = {**mask.meta, "example_value": traced(mask).contiguous()}
            _set_mask(call, written[mask])
    for node in reversed(graph.nodes):  # nobody else may read what is left of a mask
        if not node.users and (ranges.is_known(node) or values.is_source(node)):
            graph.erase_node(node)


def with_counted_keys(graph: fx.Graph) -> None:
    """Say that there are as many values as keys, where both are counted at run time only.

    Dynamo gives the two tensors of a growing cache a symbol each, and attention, which wants them
    to be the same, does not say so of any size. It becomes one of dynamo's guards.
    """
    for call in graph.find_nodes(op="call_function", target=ATTENTION):
        _, key, value, _ = tensors_given(call)
        if key is not None and value is not None and traced(key).dim() == traced(value).dim() == 4:
            bool(traced(key).shape[-2] == traced(value).shape[-2])


def with_single_queries_written_out(graph: fx.Graph) -> None:
    """Attention of one query, as where a word is added to a text, as products and a softmax."""
    for call in graph.find_nodes(op="call_function", target=ATTENTION):
        query, *others, _mask = tensors_given(call)
        if query is None or None in others:
            continue
        is_single = traced(query).dtype is torch.float32 and _is(traced(query).shape[-2], 1)
        if is_single and not _given(call, _CAUSAL_PLACE, _CAUSAL):
            _write_out(call)


def with_rounded_scores_written_out(graph: fx.Graph) -> None:
    """Attention of float32 in training, where products are rounded to TF32, as these and a softmax.

    PyTorch's fused kernel for float32 takes an H200 22 us forward and 48 backward for 16 x 12 heads
    of 128 x 64, where six products take 6 each; 53 and 156 for 197 x 64, where they take 18. Scores
    are kept for the gradients: as many as MOST_SCORES.
    """
    for call in graph.find_nodes(op="call_function", target=ATTENTION):
        query, key, value, _mask = tensors_given(call)
        if query is None or key is None or value is None:
            continue
        sizes = (*traced(query).shape[:-1], traced(key).shape[-2])
        is_known = all(isinstance(size, int) for size in sizes)
        if traced(query).dtype is torch.float32 and is_known and prod(sizes) <= MOST_SCORES:
            _write_out(call)


def _write_out(call: fx.Node) -> None:
    """Attention without dropout as products and a softmax."""
    graph = call.graph
    query, key, value, mask = tensors_given(call)
    if _given(call, _DROPOUT_PLACE, _DROPOUT):
        return
    how = {name: call.kwargs[name] for name in ("scale", "enable_gqa") if name in call.kwargs}
    causal = bool(_given(call, _CAUSAL_PLACE, _CAUSAL))
    with graph.inserting_before(call):
        if mask is not None and traced(mask).dtype is torch.bool:
            mask = graph.call_function(torch.where, (mask, 0.0, -inf))
        both = graph.call_function(_WRITTEN_OUT, (query, key, value, mask, 0.0, causal), how)
        attended = graph.call_function(operator.getitem, (both, 0))
    attended.meta = dict(call.meta)
    call.replace_all_uses_with(attended)
    graph.erase_node(call)


def with_shared_heads(graph: fx.Graph, device: str = CUDA) -> None:
    """Attention whose keys and values are repeated for groups of heads, without the repetitions.

    Of a single query the heads of a group become queries of the head that they share, so that keys
    and values are neither written again nor read for each of them: of 16 x 16 heads of a Llama that
    adds a word to 512, that takes 21 + 23 us a layer on an H200. Transformers does the same where
    it is not compiled, and where there is no mask, as there may be none any more, it asks for
    `enable_gqa`, which fused kernels for halves have.
    """
    for call in graph.find_nodes(op="call_function", target=ATTENTION):
        query, *others, mask = tensors_given(call)
        key, value = (None if each is None else _repeated(each) for each in others)
        if query is None or key is None or value is None or call.kwargs.get("enable_gqa"):
            continue
        shape, shared = traced(query).shape, traced(key).shape[1]
        if len(shape) != 4 or not isinstance(shape[1], int) or shape[1] % shared:
            continue
        if traced(value).shape[1] != shared:
            continue
        if _is_single(call, query, mask):
            _pack(call, query, key, value)
        elif mask is None and _has_fused_groups(query, value, device):
            for place, (name, each) in enumerate((("key", key), ("value", value)), start=1):
                _set(call, place, name, each)
            call.update_kwarg("enable_gqa", True)


def _pack(call: fx.Node, query: fx.Node, key: fx.Node, value: fx.Node) -> None:
    """The heads of a group as queries of the head that they share."""
    graph, shared = call.graph, traced(key).shape[1]
    batch, heads, _, depth = traced(query).shape
    with graph.inserting_before(call):
        packed = graph.call_method("reshape", (query, batch, shared, heads // shared, depth))
        keywords = {n: v for n, v in call.kwargs.items() if n not in ("query", "key", "value")}
        attended = graph.call_function(
            ATTENTION, (packed, key, value, *call.args[_PLACE:]), keywords
        )
        result = graph.call_method("reshape", (attended, *traced(call).shape))
    for node, like in ((packed, query), (attended, call)):
        reshaped = traced(like).reshape(batch, shared, heads // shared, -1)
        node.meta = {**like.meta, "example_value": reshaped}
    result.meta = dict(call.meta)
    call.replace_all_uses_with(result)
    graph.erase_node(call)


def _has_fused_groups(query: fx.Node, value: fx.Node, device: str) -> bool:
    """Whether PyTorch's fused kernels take groups of heads that share keys, if there is no mask."""
    of_query, of_value = traced(query), traced(value)
    is_half = of_query.dtype in HALVES
    alike = _is(of_query.shape[-1], of_value.shape[-1]) and isinstance(of_query.shape[-1], int)
    return bool(
        is_half and alike and of_query.shape[-1] <= DEEPEST and of_query.device.type == device
    )


def _is_single(call: fx.Node, query: fx.Node, mask: fx.Node | None) -> bool:
    """Whether each head has one query, of known sizes, and the same mask as the others."""
    shape = traced(query).shape
    if not all(isinstance(each, int) for each in shape) or shape[2] != 1:
        return False
    of_mask = () if mask is None else traced(mask).shape
    is_causal = _given(call, _CAUSAL_PLACE, _CAUSAL)
    return not is_causal and len(of_mask) <= 4 and all(_is(each, 1) for each in of_mask[-3:-1])


def _repeated(node: fx.Node) -> fx.Node | None:
    """What a tensor repeats each head of: expanded beside its heads, then flattened into them."""
    expanded = _from_method(node, "reshape", "view", "flatten")
    beside = expanded and _from_method(expanded, "expand")
    if expanded is None or beside is None or beside.target is not operator.getitem:
        return None
    source, index = beside.args
    if not isinstance(source, fx.Node) or not _adds_one_beside(index):
        return None
    of, wide, flat = traced(source).shape, traced(expanded).shape, traced(node).shape
    if len(of) != 4 or len(wide) != 5 or len(flat) != 4:
        return None
    kept = [*zip(of, (*wide[:2], *wide[3:]), strict=True), *zip(of[2:], flat[2:], strict=True)]
    is_flat = isinstance(of[1], int) and isinstance(wide[2], int) and flat[1] == of[1] * wide[2]
    return source if is_flat and all(_is(*pair) for pair in kept) else None


def _from_method(node: fx.Node, *names: str) -> fx.Node | None:
    """The tensor whose method gave a node."""
    if node.op != "call_method" or node.target not in names:
        return None
    return node.args[0] if isinstance(node.args[0], fx.Node) else None


def _adds_one_beside(index: Any) -> bool:
    """Whether an index takes all there is, and has a dimension of one behind the second."""
    whole, others = slice(None), (0, 1, 3, 4)
    if not isinstance(index, tuple) or len(index) not in (3, 5) or index[2] is not None:
        return False
    return all(index[place] == whole for place in others if place < len(index))


def _given(call: fx.Node, place: int, name: str) -> Any:
    return call.args[place] if len(call.args) > place else call.kwargs.get(name)


def tensors_given(call: fx.Node) -> list[fx.Node | None]:
    """The query, key, value and mask that a call is given."""
    return [_argument(call, *each) for each in enumerate(("query", "key", "value", _MASK))]


def _argument(call: fx.Node, place: int, name: str) -> fx.Node | None:
    """A tensor that a call is given."""
    given = _given(call, place, name)
    is_tensor = isinstance(given, fx.Node) and isinstance(traced(given), torch.Tensor)
    return given if is_tensor else None  # type: ignore[return-value]


def traced(node: fx.Node) -> Any:
    """What dynamo has as an example of a node's value."""
    return node.meta.get("example_value")


def _hides_nothing(mask: fx.Node, ranges: Ranges) -> bool:
    wanted = 1 if traced(mask).dtype is torch.bool else 0  # what is added to the scores
    return ranges.of(mask) == (wanted, wanted)


def _keeps_shape(call: fx.Node, mask: fx.Node) -> bool:
    """Whether the result has its shape without the mask too."""
    query = _argument(call, 0, "query")
    if query is None:
        return False
    batch, of_mask = traced(query).shape[:-2], traced(mask).shape[:-2]
    return len(of_mask) <= len(batch) and all(
        _is(extent, 1) or _is(extent, mine)
        for extent, mine in zip(reversed(of_mask), reversed(batch), strict=False)
    )


def _is(extent: int | torch.SymInt, other: int | torch.SymInt) -> bool:
    """Whether two sizes are the same, without a guard on symbolic ones."""
    return str(extent) == str(other)


def _lies_apart(mask: torch.Tensor) -> bool:
    """Whether a query's elements do not lie side by side."""
    return mask.dim() > 0 and not _is(mask.shape[-1], 1) and not _is(mask.stride(-1), 1)


def _hides_what_is_later(call: fx.Node, mask: torch.Tensor) -> bool:
    """Whether a mask does what `is_causal` does."""
    query, key = _argument(call, 0, "query"), _argument(call, 1, "key")
    if query is None or key is None or _given(call, _CAUSAL_PLACE, _CAUSAL):
        return False
    extents = [traced(each).shape[-2] for each in (query, key)]
    return all(isinstance(each, int) for each in extents) and is_causal(mask, *extents)


def _set_mask(call: fx.Node, mask: fx.Node | None) -> None:
    _set(call, _PLACE, _MASK, mask)


def _set(call: fx.Node, place: int, name: str, value: Any) -> None:
    if len(call.args) > place:
        call.update_arg(place, value)
    else:
        call.update_kwarg(name, value)
