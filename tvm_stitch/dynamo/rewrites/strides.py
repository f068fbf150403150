"""Other strides of what a graph computes: what follows from them, and results as they were traced.

In: a functional graph with FakeTensors, and what lays some of its tensors out anew. Out: the same
graph; the FakeTensors behind what was laid out have the strides that PyTorch's operators then give,
and results leave as they were traced. Must not know who computes what.
"""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import fx

from tvm_stitch.dynamo.support import tensors_of
from tvm_stitch.frontend.torch.layout import inverse, is_laid, order_of

_aten = torch.ops.aten
# Of these the elements depend on strides, or the traced sizes on what only running tells.
_OF_MEMORY = frozenset({
    _aten.as_strided.default, _aten.as_strided_copy.default, _aten.as_strided_scatter.default,
    _aten.sym_stride.int, _aten.sym_storage_offset.default, _aten.set_.source_Tensor,
    _aten.nonzero.default, _aten._local_scalar_dense.default, _aten.masked_select.default,
})  # fmt: skip
# These go through memory from its start, or refuse what lies otherwise: their callers copy.
_CONTIGUOUS = frozenset({
    _aten._weight_norm_interface.default, _aten._weight_norm_interface_backward.default,
    _aten._cdist_forward.default, _aten._cdist_backward.default,
    _aten._pdist_forward.default, _aten._pdist_backward.default,
})  # fmt: skip
_KNOWN = ("aten", "prims")
_VIEWS = frozenset({_aten.view.default, _aten._unsafe_view.default})


class Unmovable(Exception):
    """A graph whose tensors have to lie as they were traced."""


def laid_out(graph: fx.Graph, by: Callable[[fx.Graph], Strides]) -> fx.Graph:
    """The graph with what `by` lays out; as it is where its tensors have to lie as traced."""
    changed = fx.Graph()
    output = changed.graph_copy(graph, {}, return_output_node=True)
    assert isinstance(output, tuple)
    result, old = output
    changed.output(result).meta.update(old.meta)
    try:
        by(changed).run()
    except Unmovable:
        return graph
    return changed


def is_of_memory(node: fx.Node) -> bool:
    """Whether a call may mean something else where its operands lie otherwise."""
    if node.target is operator.getitem:
        return False
    is_known = isinstance(node.target, torch._ops.OpOverload) and node.target.namespace in _KNOWN
    return not is_known or node.target in _OF_MEMORY


class Strides(ABC):
    """Lays some of a graph's tensors out, and traces what follows from it."""

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._moved: dict[fx.Node, Any] = {}  # what was traced before
        self._copies: dict[tuple[fx.Node, torch.memory_format], fx.Node] = {}

    @abstractmethod
    def change(self, node: fx.Node) -> None:
        """Lay out what a node reads or computes; it has been traced anew."""

    def run(self) -> None:
        """All nodes, in the graph's order."""
        for node in list(self._graph.nodes):
            if node.op == "output" or node.target in _CONTIGUOUS:
                node.args = fx.map_arg(node.args, partial(self._as_traced, reader=node))
            elif node.op == "call_function":
                if any(source in self._moved for source in node.all_input_nodes):
                    if is_of_memory(node):
                        raise Unmovable
                    self.trace(node)
                self.change(node)

    def stands_for(self, other: fx.Node, node: fx.Node) -> None:
        """A node in place of one that lay otherwise."""
        self._moved[other] = self._moved.get(node, node.meta["val"])

    def _as_traced(self, result: fx.Node, reader: fx.Node) -> fx.Node:
        """What is read with the strides that its reader expects."""
        before = self._moved.get(result)
        if before is None:
            return result
        if not isinstance(before, torch.Tensor) or not is_laid(before, order_of(before)):
            raise Unmovable
        order = order_of(before)
        if is_laid(result.meta["val"], order):
            result.meta["val"] = before  # other strides of dimensions of 1 are the same memory
            return result
        if order == tuple(range(before.dim())):
            return self.copied(result, torch.contiguous_format, reader)
        turned = self.called(reader, _aten.permute.default, result, list(order))
        dense = self.copied(turned, torch.contiguous_format, reader)
        return self.called(reader, _aten.permute.default, dense, list(inverse(order)))

    def copied(self, source: fx.Node, to: torch.memory_format, reader: fx.Node) -> fx.Node:
        """A copy of what lies otherwise, in front of a reader; one for all of them."""
        key = source, to
        if key not in self._copies:
            self._copies[key] = self.called(reader, _aten.clone.default, source, memory_format=to)
        return self._copies[key]

    def called(self, reader: fx.Node, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        """A call in front of a reader."""
        with self._graph.inserting_before(reader):
            node = self._graph.call_function(target, args, kwargs)
        node.meta["val"] = self._value(node)
        return node

    def trace(self, node: fx.Node) -> None:
        """A node's FakeTensors anew."""
        before = node.meta.get("val")
        try:
            value = self._value(node)
        except (RuntimeError, ValueError):
            if node.target not in _VIEWS:
                raise Unmovable from None
            # What was one piece of memory is none any more.
            node.update_arg(0, self.copied(node.args[0], torch.contiguous_format, node))  # type: ignore[arg-type]
            value = self._value(node)
        if self.traced_as(node, value, before):
            node.meta["val"] = value

    def traced_as(self, node: fx.Node, value: Any, before: Any) -> bool:
        """Whether what a node computes was traced with other strides, which is noted."""
        is_moved = _strides(value) != _strides(before)
        if is_moved:
            self._moved[node] = before
        return is_moved

    def _value(self, node: fx.Node) -> Any:
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
        assert callable(node.target)
        mode = next(tensors_of([n.meta["val"] for n in node.all_input_nodes])).fake_mode  # type: ignore[attr-defined]
        with mode:
            return node.target(*args, **kwargs)


def _strides(value: Any) -> list[str]:
    """How traced tensors lie."""
    return [f"{tuple(t.shape)} {order_of(t)} {t.stride()}" for t in tensors_of(value)]
