"""A traced graph in parts: ours as submodules, PyTorch's operators between them.

In: a functional graph and who owns which node. Out: the same graph, its parts fused into
submodules. Must not know what becomes of a part.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Container, Iterator, Sequence

import sympy
import torch
from torch import fx
from torch.fx.passes.utils.fuser_utils import fuse_by_partitions

from tvm_stitch.dynamo.cuda_graphs import BACKWARD, INFERENCE
from tvm_stitch.dynamo.parts.components import pieces
from tvm_stitch.dynamo.parts.cuts import cut
from tvm_stitch.dynamo.parts.levels import levels
from tvm_stitch.dynamo.parts.memory import is_little_kept
from tvm_stitch.dynamo.parts.nodes import computes, device_of, is_librarys, is_view
from tvm_stitch.dynamo.support import tensors_of
from tvm_stitch.frontend.torch.layout import is_dense

PREFIX = "stitched_"


def split(
    graph_module: fx.GraphModule,
    is_ours: Callable[[fx.Node], bool],
    smallest: int | None,
    kind: str = INFERENCE,
) -> None:
    """Fuse what is ours into submodules, each on one device, as few as memory allows.

    Of fewer than `smallest` operators none is made; None leaves a single one if it gains nothing.
    In inference little memory passes between parts.
    """
    parts = []
    ours = {node for node in graph_module.graph.nodes if is_ours(node)}
    returned_last = kind == BACKWARD and is_little_kept(graph_module.graph, ours)
    found = levels(graph_module.graph, is_ours, returned_last)
    for nodes in _in_turn(found, trains=kind != INFERENCE):
        kept = _without_outer_views(nodes, ours)
        if _gains([node for node in kept if computes(node)], smallest):
            for piece in pieces(kept, computes):
                parts.append(dict.fromkeys(_with_inner_views(piece, ours)))
    for node in reversed(list(graph_module.graph.nodes)):
        if is_view(node) and not node.users:  # parts have their own
            graph_module.graph.erase_node(node)
    fuse_by_partitions(graph_module, parts, prefix=PREFIX, always_return_tuple=True)
    for node in graph_module.graph.find_nodes(op="call_module"):
        _take_sizes(node, getattr(graph_module, node.target))


def _in_turn(found: list[list[fx.Node]], trains: bool) -> Iterator[list[fx.Node]]:
    """What becomes a part, unless it falls apart."""
    for level in found:
        for nodes in _by_device(level):
            yield from cut(nodes) if trains else [nodes]


def _by_device(level: list[fx.Node]) -> list[list[fx.Node]]:
    """Between devices, tensors are moved by PyTorch: what lies on several is not in one level."""
    found: dict[torch.device, list[fx.Node]] = {}
    for node in level:
        found.setdefault(device_of(node), []).append(node)
    return list(found.values())


def _gains(work: list[fx.Node], smallest: int | None) -> bool:
    """Whether operators are better one part than PyTorch's."""
    if smallest is not None:
        return len(work) >= smallest
    return len(work) > 1 or any(map(_gains_alone, work))


def _gains_alone(node: fx.Node) -> bool:
    """Whether one operator is: those bound by memory are, if they read any."""
    read = next(tensors_of([each.meta.get("val") for each in node.all_input_nodes]), None)
    return read is not None and not is_librarys(node)


def _without_outer_views(nodes: Sequence[fx.Node], ours: set[fx.Node]) -> list[fx.Node]:
    """A part without the views that others ask of it: they are free in PyTorch, copies in ours.

    A view that the part needs as well is there twice, the second time as one of ours, too. The
    nodes stay in the graph's order, so that equal layers become equal parts.
    """
    part = set(nodes)
    for node in reversed(nodes):
        if not is_view(node):
            continue
        outside = [user for user in node.users if user not in part]
        if len(outside) == len(node.users):
            part.discard(node)
        elif outside and node.target is not operator.getitem:
            with node.graph.inserting_after(node):
                twin = node.graph.node_copy(node)
            ours.add(twin)
            node.replace_all_uses_with(twin, lambda user: user not in part)
    return [node for node in nodes if node in part]


def _with_inner_views(part: Sequence[fx.Node], ours: Container[fx.Node]) -> list[fx.Node]:
    """The part with views of its own of what it would be given copies of: views that have gaps.

    A kernel reads a slice of a tensor where it lies; as an input of a part it has to be dense.
    """
    found, own, inside = list[fx.Node](), dict[fx.Node, fx.Node](), set(part)
    for node in part:
        for source in node.all_input_nodes:
            if source in inside:
                continue
            chain = _copied_view(source, ours)
            for view in chain:
                if view not in own:
                    with node.graph.inserting_before(node):
                        own[view] = node.graph.node_copy(view, lambda n: own.get(n, n))
                    found.append(own[view])
            if chain:
                node.replace_input_with(source, own[source])
        found.append(node)
    return found


def _copied_view(view: fx.Node, ours: Container[fx.Node]) -> list[fx.Node]:
    """The views, in order, that make a view with gaps of what is dense; empty: it is none."""
    chain = list[fx.Node]()
    while is_view(view) and view in ours:
        chain.insert(0, view)
        view = view.all_input_nodes[0]
    base, last = view.meta.get("val"), chain[-1].meta.get("val") if chain else None
    if not isinstance(base, torch.Tensor) or not isinstance(last, torch.Tensor):
        return []
    return chain if is_dense(base) and not is_dense(last) else []


def _take_sizes(call: fx.Node, part: fx.GraphModule) -> None:
    """Let a part take the sizes that its tensors' sizes follow from, and that no input has.

    Half a batch does not say what the batch was.
    """
    placeholders = part.graph.find_nodes(op="placeholder")
    given = {symbol for node in placeholders for symbol in _symbols(node, alone=True)}
    wanted = {symbol: None for node in part.graph.nodes for symbol in _symbols(node)}
    for symbol in wanted:
        source = None if symbol in given else _size_before(call, symbol)
        if source is not None:
            with part.graph.inserting_before(next(iter(part.graph.nodes))):
                size = part.graph.placeholder(f"size_{symbol}")
            size.meta["val"] = source.meta["val"]
            call.args = (source, *call.args)
    part.recompile()


def _symbols(node: fx.Node, alone: bool = False) -> Iterator[sympy.Symbol]:
    """The symbols of a value's sizes; `alone`, those that are sizes themselves."""
    value = node.meta.get("val")
    several = value if isinstance(value, (list, tuple)) else (value,)
    for each in several:
        for size in each.shape if isinstance(each, torch.Tensor) else (each,):
            if isinstance(size, (torch.SymInt, torch.SymFloat)):
                expression = size.node.expr
                found = (expression,) if alone else sorted(expression.free_symbols, key=str)
                yield from (symbol for symbol in found if symbol.is_Symbol)


def _size_before(call: fx.Node, symbol: sympy.Symbol) -> fx.Node | None:
    """A node before the call whose value is that size, if any value has it."""
    for node in call.graph.nodes:
        if node is call:
            return None
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and value.node.expr == symbol:
            return node
        for dim, size in enumerate(value.shape if isinstance(value, torch.Tensor) else ()):
            if isinstance(size, torch.SymInt) and size.node.expr == symbol:
                with call.graph.inserting_before(call):
                    found = call.graph.call_function(torch.ops.aten.sym_size.int, (node, dim))
                found.meta["val"] = size
                return found
    return None
