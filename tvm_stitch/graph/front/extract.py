"""Some nodes of a graph as a module of their own, to be compiled and timed by themselves.

In: a module, the StitchGraph of one of its dataflow blocks, and nodes. Out: a module whose main
computes what others need of these nodes, from what they read; in its own graph the nodes keep
their order.
"""

from __future__ import annotations

from collections.abc import Sequence

import tvm

from tvm_stitch.graph.front.group import function_of
from tvm_stitch.graph.front.read import StitchGraph, is_call_tir


def extracted(mod: tvm.IRModule, graph: StitchGraph, indices: Sequence[int]) -> tvm.IRModule:
    """The nodes of these indices, which are in the order of the graph, and what they call."""
    members, inside = [graph.nodes[index] for index in indices], set(indices)
    outputs = tuple(
        var
        for node in members
        for var in node.results
        if var in graph.used_outside or graph.users_of.get(var, frozenset()) - inside
    )
    function, _ = function_of(members, outputs, global_symbol="main")
    called = {
        var: mod[var]
        for node in members
        for binding in node.bindings
        if is_call_tir(binding.value)
        for var in binding.value.args[:1]
    }
    return tvm.IRModule({**called, tvm.ir.GlobalVar("main"): function})
