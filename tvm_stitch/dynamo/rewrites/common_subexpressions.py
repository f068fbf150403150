"""Equal calls of a graph become one: layers make the same mask, each for itself.

In: a functional graph. Out: the same graph with fewer calls. AOTAutograd does so where it cuts a
graph in two for training, and not for inference. Must not know what becomes of the graph.
"""

from __future__ import annotations

import torch
from torch import fx
from torch._functorch.compile_utils import fx_graph_cse


def without_common_subexpressions(graph: fx.Graph) -> fx.Graph:
    """The graph with equal calls once; as it is, where equal calls may give different results."""
    calls = [node for node in graph.nodes if node.op == "call_function"]
    return fx_graph_cse(graph) if all(map(_repeats, calls)) else graph


def _repeats(call: fx.Node) -> bool:
    """Whether a call gives the same every time; of others' operators nobody knows."""
    target = call.target
    if not isinstance(target, torch._ops.OpOverload):
        return True  # of sizes, or an element of a tuple
    return target.namespace == "aten" and torch.Tag.nondeterministic_seeded not in target.tags
