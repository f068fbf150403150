"""What nodes are but for names: equal for sets of nodes that kernels cannot tell apart.

In: nodes of a StitchGraph and buffers in an order. Out: a Structure, hashable, in which tensors and
symbols are numbered as they appear. Must not know kernels or their costs.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

from tvm import tirx

from tvm_stitch.graph.front.read import Node, StitchGraph
from tvm_stitch.graph.front.symbols import symbols_given
from tvm_stitch.stages.stage import Expr, Var, buffer_shape, constant, dtype_of, interned, shown

Structure = Hashable
# A number, or text and the symbols in it: two symbols may have one name.
Extent = int | tuple[str, tuple[Var, ...]]


class Described:
    """Nodes of a graph as structures are made of them, each described once."""

    def __init__(self, graph: StitchGraph) -> None:
        self.graph = graph
        self._nodes: dict[int, tuple[int, tuple[Extent, ...], tuple[Var, ...]]] = {}
        self._types: dict[Var, tuple[tuple[Extent, ...], str]] = {}

    def structure(self, nodes: Iterable[Node], marked: Iterable[Var] = ()) -> Structure:
        """Of nodes in order, and of buffers that mean something, such as being an output."""
        numbers: dict[Var, int] = {}
        symbols: dict[Var, int] = {}

        def numbered(extents: tuple[Extent, ...]) -> tuple[Hashable, ...]:
            return tuple(
                extent
                if isinstance(extent, int)
                else (extent[0], *(symbols.setdefault(var, len(symbols)) for var in extent[1]))
                for extent in extents
            )

        described = []
        for node in nodes:
            function, scalars, buffers = self._node(node)
            places = tuple([numbers.setdefault(buffer, len(numbers)) for buffer in buffers])
            described.append((function, places, numbered(scalars)))
        marks = tuple([numbers.setdefault(buffer, len(numbers)) for buffer in marked])
        types = map(self._type, numbers)
        return tuple(described), marks, tuple([(numbered(shape), dtype) for shape, dtype in types])

    def _node(self, node: Node) -> tuple[int, tuple[Extent, ...], tuple[Var, ...]]:
        """Its function, what it is called with, and the tensors that it reads and writes."""
        if node.index not in self._nodes:
            scalars = tuple(map(_extent, symbols_given(node.call)))
            buffers = tuple(map(self.graph.buffer, (*node.operands, *node.results)))
            self._nodes[node.index] = node.function, scalars, buffers
        return self._nodes[node.index]

    def _type(self, buffer: Var) -> tuple[tuple[Extent, ...], str]:
        if buffer not in self._types:
            self._types[buffer] = tuple(map(_extent, buffer_shape(buffer))), dtype_of(buffer)
        return self._types[buffer]


def _extent(extent: Expr) -> Extent:
    known = constant(extent)
    if known is not None:
        return known
    found: Any = tirx.analysis.undefined_vars(extent)
    return shown(extent), tuple(map(interned, found))
