"""Convolutions of halves with channels last, as tensor cores read them, and all that is between.

In: a functional graph that changes nothing but its inputs, with FakeTensors. Out: the same graph;
images and weights are laid out where convolutions first read them, the FakeTensors behind them have
the strides that PyTorch's operators then give, and results leave as they were traced. Must not know
who computes what.
"""

from __future__ import annotations

import operator
from typing import Any

import torch
from torch import fx

from tvm_stitch.dynamo.support import tensors_of
from tvm_stitch.frontend.torch.layout import CHANNELS_LAST, is_laid, order_of

_aten = torch.ops.aten
CONVOLUTION = _aten.convolution.default
_HALVES = (torch.float16, torch.bfloat16)
# Of these the elements depend on strides, or the traced sizes on what only running tells.
_OF_MEMORY = frozenset({
    _aten.as_strided.default, _aten.as_strided_copy.default, _aten.as_strided_scatter.default,
    _aten.sym_stride.int, _aten.sym_storage_offset.default, _aten.set_.source_Tensor,
    _aten.nonzero.default, _aten._local_scalar_dense.default, _aten.masked_select.default,
})  # fmt: skip
_VIEWS = frozenset({_aten.view.default, _aten._unsafe_view.default})


class _Unmovable(Exception):
    """A graph whose tensors have to lie as they were traced."""


def with_channels_last(graph: fx.Graph) -> fx.Graph:
    """The graph with its convolutions of halves so; as it is where that cannot be done."""
    if not any(map(gains, graph.nodes)) or any(map(_is_of_memory, graph.nodes)):
        return graph
    changed = fx.Graph()
    output = changed.graph_copy(graph, {}, return_output_node=True)
    assert isinstance(output, tuple)
    result, old = output
    changed.output(result).meta.update(old.meta)
    try:
        _Strides(changed).run()
    except _Unmovable:
        return graph
    return changed


def gains(node: fx.Node) -> bool:
    """Whether a node is a convolution that is faster so: of images, in no groups of several."""
    if node.op != "call_function" or node.target is not CONVOLUTION:
        return False
    weight, result = (each.meta["val"] for each in (node.args[1], node))  # type: ignore[union-attr]
    groups = node.args[8]
    return result.dim() == 4 and result.dtype in _HALVES and (groups == 1 or weight.shape[1] == 1)


def _is_of_memory(node: fx.Node) -> bool:
    if node.op in ("placeholder", "output"):
        return False
    if node.op != "call_function" or node.target in _OF_MEMORY:
        return True
    is_own = isinstance(node.target, torch._ops.OpOverload)
    if is_own and node.target.namespace not in ("aten", "prims"):
        return True
    return (
        not is_own
        and isinstance(node.meta.get("val"), torch.Tensor)
        and (node.target is not operator.getitem)
    )


class _Strides:
    """Lays a graph's convolutions out, and traces what follows from it."""

    def __init__(self, graph: fx.Graph) -> None:
        self._graph = graph
        self._moved: dict[fx.Node, Any] = {}  # what was traced before
        self._copies: dict[tuple[fx.Node, torch.memory_format], fx.Node] = {}

    def run(self) -> None:
        """All nodes, in the graph's order."""
        for node in list(self._graph.nodes):
            if node.op == "output":
                node.args = fx.map_arg(node.args, self._as_traced)
            elif node.op == "call_function":
                if gains(node):
                    for place in (0, 1):
                        node.update_arg(place, self._laid(node.args[place], node))
                    self._trace(node)
                elif any(source in self._moved for source in node.all_input_nodes):
                    self._trace(node)

    def _laid(self, source: Any, reader: fx.Node) -> fx.Node:
        """An image or weights with channels last."""
        if is_laid(source.meta["val"], CHANNELS_LAST):
            return source
        return self._copied(source, torch.channels_last, reader)

    def _as_traced(self, result: fx.Node) -> fx.Node:
        """A result of the graph with the strides that its reader expects."""
        before = self._moved.get(result)
        if before is None:
            return result
        if not isinstance(before, torch.Tensor) or not is_laid(before, _plain(before)):
            raise _Unmovable
        (output,) = self._graph.find_nodes(op="output")
        return self._copied(result, torch.contiguous_format, output)

    def _copied(self, source: fx.Node, to: torch.memory_format, reader: fx.Node) -> fx.Node:
        key = source, to
        if key not in self._copies:
            with self._graph.inserting_before(reader):
                clone = self._graph.call_function(
                    _aten.clone.default, (source,), {"memory_format": to}
                )
            clone.meta["val"] = self._value(clone)
            self._copies[key] = clone
        return self._copies[key]

    def _trace(self, node: fx.Node) -> None:
        """A node's FakeTensors anew."""
        before = node.meta.get("val")
        try:
            value = self._value(node)
        except (RuntimeError, ValueError):
            if node.target not in _VIEWS:
                raise _Unmovable from None
            # What was one piece of memory is none any more.
            node.update_arg(0, self._copied(node.args[0], torch.contiguous_format, node))  # type: ignore[arg-type]
            value = self._value(node)
        if _strides(value) != _strides(before):
            self._moved[node] = before
            node.meta["val"] = value

    def _value(self, node: fx.Node) -> Any:
        args, kwargs = fx.map_arg((node.args, node.kwargs), lambda n: n.meta["val"])
        assert callable(node.target)
        mode = next(tensors_of([n.meta["val"] for n in node.all_input_nodes])).fake_mode  # type: ignore[attr-defined]
        with mode:
            return node.target(*args, **kwargs)


def _plain(tensor: torch.Tensor) -> tuple[int, ...]:
    return tuple(range(tensor.dim()))


def _strides(value: Any) -> list[str]:
    """How traced tensors lie."""
    return [f"{tuple(t.shape)} {order_of(t)} {t.stride()}" for t in tensors_of(value)]


__all__ = ["gains", "with_channels_last"]
