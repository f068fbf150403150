"""The rewrites of AOTAutograd's graphs in their order, and the parts that they fall into.

In: a graph, and what is ours of it. Out: a joint graph that is rewritten, or a functional graph
that calls parts, each of which is ours. Must not know what becomes of them.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx

from tvm_stitch.dynamo.cuda_graphs import INFERENCE
from tvm_stitch.dynamo.parts.nodes import computes
from tvm_stitch.dynamo.parts.split import PREFIX, split
from tvm_stitch.dynamo.rewrites.aligned.logits import with_aligned_logits
from tvm_stitch.dynamo.rewrites.aligned.products import with_aligned_products
from tvm_stitch.dynamo.rewrites.biases import with_biases_apart
from tvm_stitch.dynamo.rewrites.channels_last import (
    TRAINED,
    weights_laid_out,
    with_channels_last,
)
from tvm_stitch.dynamo.rewrites.common_subexpressions import without_common_subexpressions
from tvm_stitch.dynamo.rewrites.filled import with_filled
from tvm_stitch.dynamo.rewrites.indices.known import without_known_indices
from tvm_stitch.dynamo.rewrites.indices.same_rows import with_same_rows
from tvm_stitch.dynamo.rewrites.interpolations import with_interpolations
from tvm_stitch.dynamo.rewrites.mutations import Copies
from tvm_stitch.dynamo.rewrites.pooled import with_offsets
from tvm_stitch.dynamo.rewrites.row_chunks.chunk import with_parts_of_chunks
from tvm_stitch.dynamo.rewrites.row_chunks.logits import with_logits_in_chunks
from tvm_stitch.dynamo.rewrites.rows_together import with_rows_together
from tvm_stitch.dynamo.rewrites.shapes_alone import with_shapes_alone
from tvm_stitch.dynamo.rewrites.whole_attention import with_whole_attention
from tvm_stitch.dynamo.rewrites.writes_in_place import with_writes_in_place
from tvm_stitch.dynamo.support import Support, tensors_of
from tvm_stitch.frontend.torch import operator_name
from tvm_stitch.frontend.torch.rewrites.bags import with_bags_written_out
from tvm_stitch.frontend.torch.rewrites.lists import by_tensor
from tvm_stitch.frontend.torch.rewrites.numbers import as_vectors

LEAST_NOTED = 1 << 20
"""Bytes of weights that are laid out in each call, of which people are told."""


@dataclass(frozen=True)
class Division:
    """How graphs are divided.

    lays_out: convolutions are faster with channels last.
    takes_products: biases and widths of products and convolutions are chosen for our kernels; on
        CPUs PyTorch's add biases themselves.
    smallest: operators of a part, at least.
    tf32: products of float32 may be rounded.
    logits: bytes of them that are in memory at a time, at most.
    """

    lays_out: bool
    takes_products: bool
    smallest: int | None
    tf32: bool = False
    logits: int | None = None


@dataclass(frozen=True)
class Divided:
    """A graph that calls parts.

    over: for each part the results that what it is given is to become, by number.
    copies: what is to become of inputs besides.
    spare: for each part the results that may be written over what nobody reads any more.
    left: operators that stay PyTorch's, and why.
    notes: what people could do for a faster one.
    """

    graph: fx.GraphModule
    parts: Mapping[str, fx.GraphModule]
    over: dict[str, dict[int, int]]
    copies: Copies
    spare: Mapping[str, dict[int, int]]
    left: Counter[tuple[str, str]] = field(default_factory=Counter)
    notes: tuple[str, ...] = ()

    @property
    def in_place(self) -> dict[str, dict[int, int]]:
        """For each part the results that may be written over what it is given."""
        names = (*self.over, *self.spare)
        return {name: {**self.spare.get(name, {}), **self.over.get(name, {})} for name in names}


def rewrite_joint(joint: fx.GraphModule, support: Support, how: Division) -> list[str]:
    """A graph that does forward and backward, before it falls into the two; what to note of it."""
    notes = list[str]()
    if how.takes_products:
        with_aligned_logits(joint.graph, how.tf32)
    if how.logits is not None:
        notes = with_logits_in_chunks(joint.graph, how.logits, support.accepts)
    without_known_indices(joint.graph)
    with_same_rows(joint.graph, support.accepts)
    if how.lays_out:
        joint.graph = with_channels_last(joint.graph, TRAINED)
    with_offsets(joint.graph)
    with_bags_written_out(joint.graph, support.accepts)
    with_shapes_alone(joint.graph, support.accepts)
    if how.takes_products:
        with_biases_apart(joint.graph, support.accepts)
    return notes


def divided(graph: fx.GraphModule, kind: str, support: Support, how: Division) -> Divided:
    """A graph, which becomes one that calls parts."""
    without_common_subexpressions(graph.graph)
    notes: tuple[str, ...] = ()
    if kind == INFERENCE:  # of training that is the joint graph's
        with_whole_attention(graph.graph, support.accepts)
        without_known_indices(graph.graph)
        with_same_rows(graph.graph, support.accepts)
        with_bags_written_out(graph.graph, support.accepts)
        if how.lays_out:
            graph.graph = with_channels_last(graph.graph)
            notes = _on_weights(weights_laid_out(graph.graph))
        graph.graph = with_rows_together(graph.graph, support.accepts)
        if how.takes_products:
            with_biases_apart(graph.graph, support.accepts)
    _as_parts_have_it(graph.graph, support, how)
    spare = with_parts_of_chunks(graph, PREFIX, lambda each: _as_parts_have_it(each, support, how))
    copies = Copies(graph.graph)
    left: Counter[tuple[str, str]] = Counter()
    ours: dict[fx.Node, bool] = {}
    for node in graph.graph.nodes:
        reason = support.refused(node)
        ours[node] = reason is None
        if reason is not None and _is_work(node):
            left[operator_name(node.target), reason.reason] += 1
    with_writes_in_place(graph.graph, ours)
    split(graph, lambda node: ours.get(node, False), how.smallest, kind)
    parts = {
        name: part
        for name, part in graph.named_children()
        if name.startswith(PREFIX) and isinstance(part, fx.GraphModule)
    }
    return Divided(graph, parts, copies.from_parts(graph), copies, spare, left, notes)


def _on_weights(laid_out: int) -> tuple[str, ...]:
    """What to say of so many bytes of weights that each call lays out."""
    if laid_out < LEAST_NOTED:
        return ()
    return (
        f"each call lays out {laid_out / 1e6:.0f} MB of convolutions' weights with channels last: "
        "model.to(memory_format=torch.channels_last) does so once",
    )


def _as_parts_have_it(graph: fx.Graph, support: Support, how: Division) -> None:
    """What changes nodes for whatever part they come to be in."""
    if how.takes_products:
        with_aligned_products(graph, how.tf32)
    as_vectors(graph)
    by_tensor(graph, accepted=support.accepts)
    with_interpolations(graph)
    with_filled(graph)


def copied(graph: fx.GraphModule) -> fx.GraphModule:
    """A graph like one that has nothing but operators."""
    return fx.GraphModule(torch.nn.Module(), copy.deepcopy(graph.graph))


def described(graph: fx.GraphModule) -> str | None:
    """All that its parts depend on; None if it has more than operators."""
    if graph.graph.find_nodes(op="get_attr") or graph.graph.find_nodes(op="call_module"):
        return None
    return "\n".join(map(_described, graph.graph.nodes))


def _described(node: fx.Node) -> str:
    value = node.meta.get("val")
    tensors = [(t.dtype, t.shape, t.stride(), t.device) for t in tensors_of(value)]
    other = value if isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool) else None
    what: tuple[Any, ...] = node.op, node.name, node.target, node.args, node.kwargs
    return f"{what} {tensors} {other}"


def _is_work(node: fx.Node) -> bool:
    """Whether a node computes a tensor."""
    has_tensor = next(tensors_of(node.meta.get("val")), None) is not None
    return node.op == "call_function" and has_tensor and computes(node)
