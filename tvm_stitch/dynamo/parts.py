"""A traced graph in parts: ours as submodules, PyTorch's operators between them.

In: a functional graph and who owns which node. Out: the same graph, its parts fused into
submodules. Must not know what becomes of a part.
"""

from __future__ import annotations

import operator
from collections.abc import Callable

from torch import fx
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from tvm_stitch.dynamo.components import pieces
from tvm_stitch.frontend.torch import operator_name
from tvm_stitch.frontend.torch.ops import VIEWS

PREFIX = "stitched_"


def split(graph_module: fx.GraphModule, is_ours: Callable[[fx.Node], bool], smallest: int) -> None:
    """Fuse what is ours into submodules, as few as there can be without cycles."""
    proposed = CapabilityBasedPartitioner(
        graph_module, _Support(is_ours), allows_single_node_partition=True
    ).propose_partitions()
    parts = []
    for partition in proposed:
        kept = _without_outer_views(graph_module.graph, set(partition.nodes))
        if sum(map(computes, kept)) >= smallest:
            # In the graph's order, so that equal layers become equal parts.
            ordered = [node for node in graph_module.graph.nodes if node in kept]
            parts += [dict.fromkeys(piece) for piece in pieces(ordered, computes)]
    fuse_by_partitions(graph_module, parts, prefix=PREFIX, always_return_tuple=True)


class _Support(OperatorSupportBase):
    def __init__(self, is_ours: Callable[[fx.Node], bool]) -> None:
        self._is_ours = is_ours

    def is_node_supported(self, submodules: object, node: fx.Node) -> bool:
        return self._is_ours(node)


def is_view(node: fx.Node) -> bool:
    """Whether a node computes nothing and moves nothing in PyTorch."""
    if node.target is operator.getitem:
        whole = node.args[0]
        return isinstance(whole, fx.Node) and is_view(whole)
    return node.op == "call_function" and operator_name(node.target) in VIEWS


def computes(node: fx.Node) -> bool:
    """Whether a node is work."""
    return node.target is not operator.getitem and not is_view(node)


def _without_outer_views(graph: fx.Graph, part: set[fx.Node]) -> set[fx.Node]:
    """The part without the views that others ask of it: they are free in PyTorch, copies in ours.

    A view that the part needs as well is there twice.
    """
    for node in reversed(list(graph.nodes)):
        if node not in part or not is_view(node):
            continue
        outside = [user for user in node.users if user not in part]
        if len(outside) == len(node.users):
            part.discard(node)
        elif outside and node.target is not operator.getitem:
            with graph.inserting_after(node):
                twin = graph.node_copy(node)
            node.replace_all_uses_with(twin, lambda user, part=part: user not in part)
    return part
