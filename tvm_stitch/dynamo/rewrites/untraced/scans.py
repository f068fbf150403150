"""Associative scans as trees of operators: what a combination is made of can be stitched.

In: a graph as dynamo gives it, where a scan is one call, of a function that is a graph of its own.
Out: the same graph; a call of a known length makes the tree when AOTAutograd traces it, of as many
levels as the length has bits. PyTorch runs the same tree where nobody compiles it, operator by
operator. Must not know what becomes of the graph.
"""

from __future__ import annotations

from torch import fx
from torch._higher_order_ops.associative_scan import associative_scan_op, generic_associative_scan


def with_scans_written_out(graph: fx.Graph) -> None:
    """Scans along the first axis, which dynamo has moved there."""
    for call in graph.find_nodes(op="call_function", target=associative_scan_op):
        # Until PyTorch 2.6 its axis was the third argument.
        if len(call.args) != 3 or not isinstance(call.args[2], tuple | list):
            continue
        combine, leaves, others = call.args
        values = [leaf.meta.get("example_value") for leaf in leaves]
        if all(value is not None and isinstance(value.shape[0], int) for value in values):
            call.target = generic_associative_scan
            call.args = (combine, leaves, 0, others)
