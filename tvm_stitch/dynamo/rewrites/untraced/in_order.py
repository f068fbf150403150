"""The rewrites of a graph as dynamo gives it, before AOTAutograd traces it, in their order."""

from __future__ import annotations

from torch import fx

from tvm_stitch.dynamo.rewrites.untraced.attention import (
    with_fused_masks,
    with_shared_heads,
    with_single_queries_written_out,
)
from tvm_stitch.dynamo.rewrites.untraced.scans import with_scans_written_out


def rewrite_untraced(graph: fx.GraphModule) -> None:
    """Attention and scans as what AOTAutograd and PyTorch choose from them is fastest."""
    with_fused_masks(graph.graph)
    with_single_queries_written_out(graph.graph)
    with_shared_heads(graph.graph)
    with_scans_written_out(graph.graph)
    graph.recompile()
