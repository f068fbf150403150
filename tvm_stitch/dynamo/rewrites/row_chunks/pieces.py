"""A graph that computes row by row, for fewer rows.

In: nodes with FakeTensors, whose first dimensions are rows together. Out: a graph that computes
them for so many rows; of what is a sum over rows, the sum of these and of those before. Must not
know which nodes are taken, nor why.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch
from torch import fx

_aten = torch.ops.aten
HALVES = (torch.float16, torch.bfloat16)
VIEWS = frozenset({
    _aten.alias.default, _aten.detach.default, _aten.view.default, _aten.reshape.default,
    _aten._unsafe_view.default, _aten.unsqueeze.default, _aten.squeeze.default,
    _aten.squeeze.dim, _aten.squeeze.dims,
})  # fmt: skip
"""What leaves elements in their order."""
_SUM = _aten.sum.dim_IntList
_TURNED, _PADDED = _aten.permute.default, _aten.constant_pad_nd.default
_SOURCE = ("stack_trace", "nn_module_stack")  # whence PyTorch says that a node is
_ALIGNED = 8  # halves in 16 bytes: the library's kernels for rows that begin elsewhere are older
_REDUCTIONS = frozenset({_aten.amax.default, _aten.amin.default, _aten.mean.dim, _SUM})
_AT_INDICES = frozenset({_aten.gather.default, _aten.scatter.src, _aten.scatter.value})


class NotByRows(Exception):
    """A node is not computed row by row, or nobody knows how."""


def lead(node: fx.Node, rows: int) -> int | None:
    """How many of a tensor's first dimensions are the rows together; None: they are not."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or not all(isinstance(n, int) for n in value.shape):
        return None
    return next((n for n in range(1, value.dim() + 1) if prod(value.shape[:n]) == rows), None)


def rest(node: fx.Node, rows: int) -> list[int]:
    """The shape of what a node has for each row."""
    first = lead(node, rows)
    if first is None:
        raise NotByRows(f"{node.name} has other rows")
    return list(node.meta["val"].shape[first:])


def is_turned(node: fx.Node) -> bool:
    """Whether a node is a matrix with its rows as columns."""
    return node.target is _TURNED and list(node.args[1]) == [1, 0]  # type: ignore[arg-type]


def is_pointwise(node: fx.Node) -> bool:
    """Whether a node has an element for each of its operands', broadcast."""
    is_tagged = torch.Tag.pointwise in getattr(node.target, "tags", ())
    return is_tagged or node.target is _aten._to_copy.default


def sums_rows(node: fx.Node, rows: int) -> bool:
    """Whether a node is a sum over all rows: of what they have, or of products of that."""
    if node.target is _aten.mm.default:
        return is_turned(node.args[0])  # type: ignore[arg-type]
    first = lead(node.args[0], rows) if node.target is _SUM else None  # type: ignore[arg-type]
    return first is not None and _reduced(node) == list(range(first))


def _reduced(node: fx.Node) -> list[int]:
    """The dimensions that a node reduces over."""
    rank = node.args[0].meta["val"].dim()  # type: ignore[union-attr]
    given: Any = node.args[1] if len(node.args) > 1 else None
    return sorted(dim % rank for dim in (given or range(rank)))


def call(graph: fx.Graph, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
    """A call, traced."""
    made = graph.call_function(target, args, kwargs)
    values, options = fx.map_arg((args, kwargs), lambda each: each.meta["val"])
    made.meta["val"] = target(*values, **options)
    return made


@dataclass
class Piece:
    """So many rows of a graph, `size` of `rows`, under construction.

    computed: what nodes are in it.
    rowed: what it is given of each row.
    whole: what it is given for all rows, and the margins of zeros that it has.
    before: the sums over all rows before that it is given.
    """

    rows: int
    size: int
    graph: fx.Graph = field(default_factory=fx.Graph)
    computed: dict[fx.Node, fx.Node] = field(default_factory=dict)
    rowed: dict[fx.Node, fx.Node] = field(default_factory=dict)
    whole: dict[tuple[fx.Node, tuple[int, ...]], fx.Node] = field(default_factory=dict)
    before: dict[fx.Node, fx.Node] = field(default_factory=dict)
    _inputs: int = 0
    _wider: dict[fx.Node, fx.Node] = field(default_factory=dict)

    def compute(self, node: fx.Node) -> None:
        """What a node is for these rows; its operands come before it, or are given."""
        if node.target in VIEWS:
            result = self._viewed(self._rows_of(node.args[0]), node)
        elif node.target is _aten.expand.default:
            shape = [self.size, *rest(node, self.rows)]
            result = self._call(node.target, self._beside(node.args[0], node), shape)
        elif node.target is _aten.full.default:
            shape = [self.size, *rest(node, self.rows)]
            result = self._call(node.target, shape, *node.args[1:], **node.kwargs)
        elif node.target is _aten.full_like.default:
            x, *value = node.args
            result = self._call(node.target, self._rows_of(x), *value, **node.kwargs)
        elif node.target in _REDUCTIONS:
            result = self._reduction(node)
        elif node.target in _AT_INDICES:
            result = self._at_indices(node)
        elif node.target in (_aten.mm.default, _aten.addmm.default):
            result = self._product(node)
        elif is_pointwise(node):
            of: Callable[[fx.Node], fx.Node] = lambda each: self._beside(each, node)  # noqa: E731
            args, kwargs = fx.map_arg((node.args, node.kwargs), of)
            result = self._call(node.target, *args, **kwargs)
        else:
            raise NotByRows(f"{node.target} is not known by rows")
        if list(result.meta["val"].shape) != [self.size, *rest(node, self.rows)]:
            raise NotByRows(f"{node.name} has other rows")
        for key in _SOURCE:
            if key in node.meta:
                result.meta.setdefault(key, node.meta[key])
        self.computed[node] = result

    def sum(self, node: fx.Node, is_first: bool) -> fx.Node:
        """A sum over rows, of these and those before; of halves it is of float32 until its end."""
        if node.target is _SUM:
            x, _dims, *how = node.args
            kwargs = {**node.kwargs, **({"dtype": torch.float32} if _is_half(node) else {})}
            found = self._call(_SUM, self._rows_of(x), [0], *how, **kwargs)
        else:
            of_rows = node.args[0].args[0], node.args[1]  # type: ignore[union-attr]
            left, right = (self._aligned(self._rows_of(each)) for each in of_rows)
            factors = [self._call(_TURNED, left, [1, 0]), right]
            if _is_half(node):
                wide = {"dtype": torch.float32}
                factors = [self._call(_aten._to_copy.default, each, **wide) for each in factors]
            found = self._call(node.target, *factors)
        if is_first:
            return found
        return self._call(
            _aten.add.Tensor, self._given(self.before, node, found.meta["val"]), found
        )

    def _reduction(self, node: fx.Node) -> fx.Node:
        first = lead(node.args[0], self.rows)  # type: ignore[arg-type]
        dims = _reduced(node)
        if first is None or dims[0] < first:
            raise NotByRows(f"{node.name} is over rows")
        x, _dims, *how = node.args
        dims = [dim - first + 1 for dim in dims]
        return self._call(node.target, self._rows_of(x), dims, *how, **node.kwargs)

    def _at_indices(self, node: fx.Node) -> fx.Node:
        x, dim, *others = node.args
        first, rank = lead(x, self.rows), x.meta["val"].dim()  # type: ignore[arg-type, union-attr]
        if first is None or dim % rank < first:  # type: ignore[operator]
            raise NotByRows(f"{node.name} is between rows")
        given = [self._rows_of(each) if isinstance(each, fx.Node) else each for each in others]
        at = dim % rank - first + 1  # type: ignore[operator]
        return self._call(node.target, self._rows_of(x), at, *given, **node.kwargs)

    def _product(self, node: fx.Node) -> fx.Node:
        *added, given, right = node.args
        beside = [self._beside(each, node) for each in added]
        left = self._aligned(self._rows_of(given))
        more = left.meta["val"].shape[1] - given.meta["val"].shape[1]  # type: ignore[union-attr]
        factor = self._for_all(right, [0, 0, 0, more] if more else [])
        return self._call(node.target, *beside, left, factor, **node.kwargs)

    def _aligned(self, factor: fx.Node) -> fx.Node:
        """A factor of halves with zeros behind its columns, for rows that begin at 16 bytes."""
        value = factor.meta["val"]
        more = -value.shape[1] % _ALIGNED if value.dtype in HALVES else 0
        if not more:
            return factor
        if factor not in self._wider:
            self._wider[factor] = self._call(_PADDED, factor, [0, more], 0.0)
        return self._wider[factor]

    def _beside(self, operand: Any, node: fx.Node) -> fx.Node:
        """An operand that is broadcast to a node, of each row or for all."""
        shape = list(operand.meta["val"].shape)
        of_rows = prod(shape[: max(0, len(shape) - len(rest(node, self.rows)))])
        if of_rows == self.rows:
            return self._rows_of(operand)
        if of_rows != 1:
            raise NotByRows(f"{operand.name} has other rows than {node.name}")
        found, most = self._for_all(operand), len(rest(node, self.rows)) + 1
        return self._call(_aten.view.default, found, shape[-most:]) if shape[most:] else found

    def _rows_of(self, node: Any) -> fx.Node:
        """What there is of each row: computed, or given."""
        if node in self.computed:
            return self.computed[node]
        value = node.meta["val"]
        try:
            flat = value.view(self.rows, *rest(node, self.rows))
        except RuntimeError:
            raise NotByRows(f"rows of {node.name} do not lie at equal distances") from None
        return self._given(self.rowed, node, flat[: self.size])

    def _for_all(self, node: Any, margins: Sequence[int] = ()) -> fx.Node:
        if node in self.computed:
            raise NotByRows(f"all rows read {node.name}")
        value = node.meta["val"]
        if margins:
            value = _PADDED(value, margins, 0.0)
        return self._given(self.whole, (node, tuple(margins)), value)

    def _given(self, inputs: dict[Any, fx.Node], what: Any, value: torch.Tensor) -> fx.Node:
        if what not in inputs:
            first = next((n for n in self.graph.nodes if n.op != "placeholder"), None)
            with self.graph.inserting_before(first):
                inputs[what] = self.graph.placeholder(f"given_{self._inputs}")
            self._inputs += 1
            inputs[what].meta["val"] = value
        return inputs[what]

    def _viewed(self, x: fx.Node, node: fx.Node) -> fx.Node:
        shape = [self.size, *rest(node, self.rows)]
        if list(x.meta["val"].shape) == shape:
            return x
        return self._call(_aten.view.default, x, shape)

    def _call(self, target: Any, *args: Any, **kwargs: Any) -> fx.Node:
        return call(self.graph, target, *args, **kwargs)


def _is_half(node: fx.Node) -> bool:
    return node.meta["val"].dtype in HALVES
