"""Logits, the loss of them and its gradients by chunks of rows, where all of them are large.

In: a functional graph with FakeTensors, and what may be in memory. Out: the same graph, in which
the product that makes logits, all that is as large, and the products that their gradient is for are
computed for some rows after others. A vocabulary's logits are the largest tensors of a language
model's training by far (2.1 GB for 8192 tokens of a Llama 3, as much again for their gradient). A
loss is one number, and its gradients are linear in the one that backward is told: forward computes
them for one, while a chunk's logits are there, so that no product is computed twice (as Liger
Kernel's fused loss does). Must not know what becomes of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import getitem
from typing import Any

import torch
from torch import fx

from tvm_stitch.dynamo.rewrites.row_chunks.chunk import Chunk
from tvm_stitch.dynamo.rewrites.row_chunks.gradients import OF_PASS, number_told, of_one
from tvm_stitch.dynamo.rewrites.row_chunks.pieces import (
    VIEWS,
    NotByRows,
    Piece,
    call,
    is_pointwise,
    rest,
)
from tvm_stitch.dynamo.rewrites.row_chunks.region import Region
from tvm_stitch.frontend.torch import operator_name

_aten = torch.ops.aten
_PADDED = _aten.constant_pad_nd.default
_PRODUCTS = (_aten.mm.default, _aten.addmm.default)
# Tiles of products have so many rows.
_TILE = 128
_MOST_CHUNKS = 64


def with_logits_in_chunks(
    graph: fx.Graph, most_bytes: int, accepts: Callable[[fx.Node], bool]
) -> list[str]:
    """Compute logits of more bytes by chunks; why others are computed at once."""
    reasons = []
    for logits in _logits(graph):
        try:
            size = rows_of_chunk(logits.meta["val"], most_bytes)
            if size is not None:
                _replace(logits, size, accepts)
        except NotByRows as reason:
            shape = " x ".join(map(str, logits.meta["val"].shape))
            reasons.append(f"logits of {shape} are computed at once: {reason}")
    return reasons


def _logits(graph: fx.Graph) -> list[fx.Node]:
    """The products that a softmax is taken of, as they are or in another shape or width."""
    found = dict[fx.Node, None]()
    for largest in graph.find_nodes(op="call_function", target=_aten.amax.default):
        waiting = list(largest.all_input_nodes)
        while waiting:
            node = waiting.pop()
            if node.target in _PRODUCTS:
                found[node] = None
            elif node.target in (*VIEWS, _aten.slice.Tensor) or is_pointwise(node):
                waiting += node.all_input_nodes
    return list(found)


def rows_of_chunk(logits: torch.Tensor, most_bytes: int) -> int | None:
    """How many rows a chunk has, the same in all if that takes few more; None: all there are."""
    if not all(isinstance(extent, int) for extent in logits.shape) or logits.nbytes <= most_bytes:
        return None
    rows = int(logits.shape[0])
    size = max(rows * most_bytes // logits.nbytes, -(-rows // _MOST_CHUNKS))
    fewest = -(-rows // size)
    for chunks in range(fewest, 2 * fewest):
        if rows % (chunks * _TILE) == 0:
            return rows // chunks
    return size if size < _TILE else size // _TILE * _TILE


def _replace(product: fx.Node, size: int, accepts: Callable[[fx.Node], bool]) -> None:
    """Put chunks of so many rows in the place of all that is around a product."""
    graph, region = product.graph, Region.of(product)
    ends = (*region.results, *region.sums)
    number, dependent = number_told(graph, ends)
    place = {node: n for n, node in enumerate(graph.nodes)}
    if any(place[user] < place[product] for end in ends for user in end.users):
        raise NotByRows("some of it is read before the product")
    with product.meta["val"].fake_mode:
        pieces = _pieces(region, size)
        for node in (each for piece in pieces for each in piece.graph.nodes):
            if node.op == "call_function" and not accepts(node):
                raise NotByRows(f"{operator_name(node.target)} is not ours")
        before = [node for node in dependent if node not in region.nodes]
        given = {node for piece in pieces for node in piece.rowed}
        given |= {node for piece in pieces for node, _margins in piece.whole}
        given |= {each for node in before for each in node.all_input_nodes}
        _put_before(product, given - region.nodes - set(dependent), place)
        with graph.inserting_before(product):
            ones = {} if number is None else of_one(number, before)
            for end, found in _called(region, pieces, ones).items():
                result = found
                if end in dependent:
                    result = call(graph, _aten.mul.Tensor, found, number)
                    result.meta = {**end.meta, "val": result.meta["val"]}
                end.replace_all_uses_with(result, lambda user: user not in region.nodes)
    for node in reversed(list(graph.nodes)):
        if node in region.nodes:
            graph.erase_node(node)


def _pieces(region: Region, size: int) -> list[Piece]:
    """Those of the region's rows in turn, equal ones as one."""
    made: dict[tuple[int, bool], Piece] = {}
    found = []
    for start in range(0, region.rows, size):
        kind = min(size, region.rows - start), start == 0
        if kind not in made:
            piece = made[kind] = Piece(region.rows, kind[0])
            for node in region.computed:
                piece.compute(node)
            results = [piece.computed[node] for node in region.results]
            results += [piece.sum(node, is_first=kind[1]) for node in region.sums]
            piece.graph.output(tuple(results))
            piece.graph.eliminate_dead_code()
        found.append(made[kind])
    return found


def _put_before(product: fx.Node, needed: Iterable[fx.Node], place: Mapping[fx.Node, int]) -> None:
    """Move nodes, with all that they are made of, in front of a product that they do not need."""
    waiting, moved = list(needed), set[fx.Node]()
    while waiting:
        node = waiting.pop()
        if node not in moved and place[node] > place[product]:
            moved.add(node)
            waiting += node.all_input_nodes
    for node in sorted(moved, key=place.__getitem__):
        product.prepend(node)
        node.meta.pop(OF_PASS, None)


def _called(
    region: Region, pieces: Sequence[Piece], ones: Mapping[fx.Node, fx.Node]
) -> dict[fx.Node, fx.Node]:
    """Calls of the pieces: for each node that others read what stands for it."""
    graph = region.computed[0].graph
    chunks = {id(piece): Chunk(fx.GraphModule(torch.nn.Module(), piece.graph)) for piece in pieces}
    ends = (*region.results, *region.sums)
    flat: dict[fx.Node, fx.Node] = {}
    whole: dict[Any, fx.Node] = {}
    found: dict[fx.Node, list[fx.Node]] = {end: [] for end in ends}
    start = 0
    for piece in pieces:
        given = dict[fx.Node, fx.Node]()
        for node, placeholder in piece.rowed.items():
            if node not in flat:
                flat[node] = _shaped(ones.get(node, node), [region.rows, *rest(node, region.rows)])
            at = (0, start, start + piece.size)
            given[placeholder] = call(graph, _aten.slice.Tensor, flat[node], *at)
        for what, placeholder in piece.whole.items():
            if what not in whole:
                node, margins = ones.get(what[0], what[0]), list(what[1])
                whole[what] = call(graph, _PADDED, node, margins, 0.0) if margins else node
            given[placeholder] = whole[what]
        for node, placeholder in piece.before.items():
            given[placeholder] = found[node][-1]
        inputs = piece.graph.find_nodes(op="placeholder")
        chunk = graph.call_function(chunks[id(piece)], tuple(given[each] for each in inputs))
        (output,) = piece.graph.find_nodes(op="output")
        chunk.meta["val"] = tuple(each.meta["val"] for each in output.args[0])
        for number, end in enumerate(ends):
            found[end].append(call(graph, getitem, chunk, number))
        start += piece.size
    return {end: _whole(end, of, end in region.sums) for end, of in found.items()}


def _whole(end: fx.Node, found: Sequence[fx.Node], is_sum: bool) -> fx.Node:
    """What all chunks have found together, as it was."""
    value, result = end.meta["val"], found[-1]
    if not is_sum:
        return _shaped(call(end.graph, _aten.cat.default, list(found)), list(value.shape))
    if result.meta["val"].dtype is not value.dtype:
        result = call(end.graph, _aten._to_copy.default, result, dtype=value.dtype)
    if end.target is _aten.mm.default:  # its factors may have had margins
        for axis, extent in enumerate(value.shape):
            if result.meta["val"].shape[axis] != extent:
                result = call(end.graph, _aten.slice.Tensor, result, axis, 0, extent)
    return _shaped(result, list(value.shape))


def _shaped(node: fx.Node, shape: list[int]) -> fx.Node:
    if list(node.meta["val"].shape) == shape:
        return node
    return call(node.graph, _aten.view.default, node, shape)
