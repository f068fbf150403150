"""Indices that are known when a graph is compiled, whatever is to be done about them.

In: a functional graph with FakeTensors. Out: the same graph without such indices. Must not know
what becomes of the graph.
"""

from __future__ import annotations

from torch import fx

from tvm_stitch.dynamo.rewrites.indices.chunks import with_sums_of_chunks
from tvm_stitch.dynamo.rewrites.indices.slices import with_slices


def without_known_indices(graph: fx.Graph) -> None:
    """Put slices, and sums of them, where indices count."""
    with_slices(graph)
    with_sums_of_chunks(graph)
