"""Products by the clock: a library's kernel or this package's, whichever is faster here.

In: a module whose groups are fused functions, which of these could be either, and a Clock for each
way. Out: for each function the schemes that it does better without. Must not know how modules are
compiled or timed.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence, Set
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from tvm_stitch.graph.front.extract import extracted
from tvm_stitch.graph.front.read import Node, StitchGraph, is_call_tir, read_block
from tvm_stitch.plan.measured import BLOCK, Clock, renumbered
from tvm_stitch.plan.plan import Group, Plan
from tvm_stitch.plan.saved import SavedPlan, saved

Way = tuple[Set[str], Clock]  # the schemes that it goes without, and what times it


def faster_without(
    mod: tvm.IRModule, names: Collection[str], ways: Sequence[Way]
) -> dict[str, Set[str]]:
    """What the faster way of each function that a dataflow block calls goes without.

    Equal functions are timed once; one that cannot be timed by all ways is left out.
    """
    found: dict[str, Set[str]] = {}
    known: dict[Any, Set[str] | None] = {}
    for graph, node in _calls(mod):
        name = node.call.args[0].name_hint
        if name not in names or name in found:
            continue
        key = tvm_ffi.StructuralKey(mod[name])
        if key not in known:
            known[key] = _faster(mod, graph, node, ways)
        without = known[key]
        if without is not None:
            found[name] = without
    return found


def _calls(mod: tvm.IRModule) -> list[tuple[StitchGraph, Node]]:
    """All calls of the module's functions in dataflow blocks."""
    functions = [each for _, each in mod.functions_items() if isinstance(each, relax.Function)]
    blocks = [block for function in functions for block in function.body.blocks]
    graphs = [read_block(mod, each) for each in blocks if isinstance(each, relax.DataflowBlock)]
    return [(graph, node) for graph in graphs for node in graph.nodes if is_call_tir(node.call)]


def _faster(
    mod: tvm.IRModule, graph: StitchGraph, node: Node, ways: Sequence[Way]
) -> Set[str] | None:
    """What the faster way of a call goes without; None where a clock shows nothing."""
    module = extracted(mod, graph, [node.index])
    alone = Plan((Group((node.index,), tuple(node.results), 0.0, 0.0, 0, 0),), ())
    plan = SavedPlan((renumbered(saved(BLOCK, graph, alone), [node.index], module),))
    fastest: tuple[float, Set[str]] | None = None
    for without, clock in ways:
        (time,) = clock.times(module, (plan,))
        if time.us is None:
            return None
        if fastest is None or time.us < fastest[0]:
            fastest = time.us, without
    return None if fastest is None else fastest[1]
