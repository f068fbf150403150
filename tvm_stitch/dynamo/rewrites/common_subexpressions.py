"""Equal calls of a graph become one: layers make the same mask, each for itself.

In: a functional graph, which may write into its inputs. Out: the same graph with fewer calls.
AOTAutograd does so where it cuts a graph in two for training, and not for inference; its function
imports the whole of Inductor, which takes a second. Must not know what becomes of the graph.
"""

from __future__ import annotations

import torch
from torch import fx
from torch.multiprocessing.reductions import StorageWeakRef

from tvm_stitch.dynamo.support import tensors_of

_CALL = "call_function"


def without_common_subexpressions(graph: fx.Graph) -> None:
    """Leave one of equal calls; nothing changes where equal calls may give different results."""
    calls = [node for node in graph.nodes if node.op == _CALL]
    if not all(map(_repeats, calls)):
        return
    (output,) = graph.find_nodes(op="output")
    returned = {each for node in output.all_input_nodes for each in _storages(node)}
    first: dict[str, fx.Node] = {}
    for node in calls:
        if _writes(node):
            first.clear()  # what follows may read something else
        elif returned.isdisjoint(_storages(node)):  # results are tensors of their own
            # Nodes have names; 1, 1.0 and True, or 0.0 and -0.0, are not written alike.
            same = first.setdefault(f"{node.target} {node.args} {node.kwargs}", node)
            if same is not node:
                node.replace_all_uses_with(same)
                graph.erase_node(node)


def _repeats(call: fx.Node) -> bool:
    """Whether a call gives the same every time; of others' operators nobody knows."""
    target = call.target
    if not isinstance(target, torch._ops.OpOverload):
        return True  # of sizes, or an element of a tuple
    return target.namespace == "aten" and torch.Tag.nondeterministic_seeded not in target.tags


def _writes(call: fx.Node) -> bool:
    return isinstance(call.target, torch._ops.OpOverload) and call.target._schema.is_mutable


def _storages(node: fx.Node) -> set[StorageWeakRef]:
    tensors = tensors_of(node.meta.get("val"))
    dense = (each for each in tensors if each.layout is torch.strided)  # sparse ones have several
    return {StorageWeakRef(each.untyped_storage()) for each in dense}
