"""What waits for the end of a backward graph keeps what it is computed of: how much that is.

In: a functional graph and what is ours of it. Out: whether gradients of weights, which nothing else
reads, may be computed together at the end. Must not know levels.
"""

from __future__ import annotations

from collections.abc import Container

from torch import fx

from tvm_stitch.dynamo.parts.nodes import bytes_of, is_forwards, memory_of

LEAST_BYTES = 512 << 20
"""So many are kept whatever a graph takes: launches of small kernels cost more."""
_SHARE = 16


def is_little_kept(graph: fx.Graph, ours: Container[fx.Node]) -> bool:
    """Whether what is only returned may come last without much more memory than graphs take."""
    given = graph.find_nodes(op="placeholder")
    saved = sum(bytes_of(each) for each in given if not is_forwards(each))
    return _kept_for_returned(graph, ours) <= max(LEAST_BYTES, saved // _SHARE)


def _kept_for_returned(graph: fx.Graph, ours: Container[fx.Node]) -> int:
    """Bytes that something computed at the end reads, and that nobody returns."""
    waiting = set[fx.Node]()
    for node in reversed(graph.nodes):
        users = (user.op == "output" or user in waiting for user in node.users)
        if node in ours and node.users and all(users):
            waiting.add(node)
    returned = set(map(memory_of, graph.output_node().all_input_nodes))
    read = {memory_of(each) for node in waiting for each in node.all_input_nodes}
    return sum(
        bytes_of(each)
        for each in read - returned - waiting
        if each.op != "placeholder" or not is_forwards(each)
    )
