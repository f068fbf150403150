"""The rewrites of a graph as dynamo gives it, before AOTAutograd traces it, in their order."""

from __future__ import annotations

from torch import fx

from tvm_stitch.dynamo.rewrites.untraced.attention import (
    with_counted_keys,
    with_fused_masks,
    with_rounded_scores_written_out,
    with_shared_heads,
    with_single_queries_written_out,
)
from tvm_stitch.dynamo.rewrites.untraced.known_scalars import with_known_scalars
from tvm_stitch.dynamo.rewrites.untraced.scans import with_scans_written_out


def rewrite_untraced(graph: fx.GraphModule, rounded: bool = False) -> None:
    """Attention, scans and known numbers as AOTAutograd and PyTorch make the fastest of them.

    rounded: the graph is trained, and its products of float32 may be rounded.
    """
    with_known_scalars(graph.graph)
    with_counted_keys(graph.graph)
    with_fused_masks(graph.graph)
    with_single_queries_written_out(graph.graph)
    if rounded:
        with_rounded_scores_written_out(graph.graph)
    with_shared_heads(graph.graph)
    with_scans_written_out(graph.graph)
    graph.recompile()
