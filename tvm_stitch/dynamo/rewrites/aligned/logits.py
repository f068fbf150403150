"""Logits of an odd vocabulary a few columns wider, with all that is made of them in training.

In: a joint graph with FakeTensors. Out: the same graph, in which the product that makes logits has
columns of minus infinity behind its last, up to a multiple of 16 bytes, and so has all that is as
wide. Probabilities are zero there, and so are gradients: the products that read these need no copy
of them, and every row begins where vectors do. Of 2048 x 50257 bfloat16 that copy takes 109 us on
an H200, and the product itself, for which the library has slow kernels only, 283 instead of 205.
Must not know what becomes of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product as combinations
from math import inf, isnan
from typing import Any

import torch
from torch import fx
from torch._subclasses.fake_tensor import unset_fake_temporarily

from tvm_stitch.dynamo.rewrites.aligned.products import PRODUCTS, Kind, Padded, kinds_of
from tvm_stitch.dynamo.rewrites.row_chunks.pieces import VIEWS, call, is_pointwise, is_turned
from tvm_stitch.frontend.torch.layout import is_dense

_aten = torch.ops.aten
_FULL = _aten.full.default
_NEUTRAL = {_aten.sum.dim_IntList: 0.0, _aten.amax.default: -inf}
_SCATTERS = (_aten.scatter.src, _aten.scatter.value)
_SHAPES = {_FULL: 0} | dict.fromkeys(
    (_aten.view.default, _aten.reshape.default, _aten._unsafe_view.default), 1
)  # where their shape is told
_NUMBERS = {_FULL: 1, _aten.full_like.default: 1, _aten.scalar_tensor.default: 0}
# What stands for any number, and how many operands at most: all of their combinations are tried.
_ANY, _ANY_CONDITION, _MOST_UNKNOWN = (1, -3), (True, False), 3


class _Stays(Exception):
    """Nobody knows that columns behind the last would change nothing."""


def with_aligned_logits(graph: fx.Graph, tf32: bool = False) -> None:
    """Widen logits where products read their gradient and that pays."""
    padded, kinds = Padded(graph), kinds_of(tf32)
    for logits in list(graph.nodes):
        kind = kinds.get(logits.meta["val"].dtype) if logits.target in PRODUCTS else None
        if kind is None or not _has_odd_rows(logits, kind):
            continue
        try:
            wide = _Wide.of(logits)
        except _Stays:
            continue
        if wide.pays(kind):
            with logits.meta["val"].fake_mode:
                _widen(wide, padded, -wide.columns % kind.aligned)


def _has_odd_rows(product: fx.Node, kind: Kind) -> bool:
    """Whether a product of dense matrices, perhaps with a bias, has rows that begin anywhere."""
    first = PRODUCTS[product.target]
    values = [each.meta["val"] for each in product.args]
    sizes = [size for value in values[first:] for size in value.shape]
    if product.kwargs or not all(isinstance(size, int) and size > 1 for size in sizes):
        return False
    are_dense = all(map(is_dense, values[first:]))
    has_bias = first == 0 or list(values[0].shape) == sizes[-1:]
    return are_dense and has_bias and sizes[-1] % kind.aligned > 0


@dataclass(frozen=True)
class _Wide:
    """What is as wide as logits, and who reads it.

    tails: the number that each node has behind its last column; None: nobody knows.
    factors: products in which one is the left factor, of a matrix with as many rows.
    turned: products in which one is that with its columns as rows.
    cut: vectors, with those that read them without the columns behind the last.
    """

    logits: fx.Node
    tails: dict[fx.Node, float | None] = field(default_factory=dict)
    factors: list[fx.Node] = field(default_factory=list)
    turned: list[fx.Node] = field(default_factory=list)
    cut: list[tuple[fx.Node, fx.Node]] = field(default_factory=list)

    @staticmethod
    def of(logits: fx.Node) -> _Wide:
        """That of a product; _Stays where columns behind the last would change something."""
        found = _Wide(logits, {logits: -inf})
        for node in logits.graph.nodes:
            if node not in found.tails and not found.tails.keys().isdisjoint(node.all_input_nodes):
                found._read(node)
        for node in found.tails:
            if node.target is _FULL and not found.tails.keys() >= node.users.keys():
                raise _Stays
        return found

    @property
    def columns(self) -> int:
        """How many there are, without those behind the last."""
        return int(self.logits.meta["val"].shape[1])

    def pays(self, kind: Kind) -> bool:
        """Whether the products of the gradient win what a wider weight takes."""
        rows, depth = self.logits.args[-2].meta["val"].shape
        readers = len(self.factors) + len(self.turned)
        return kind.pays(readers * rows * depth * self.columns, [depth * self.columns])

    def _read(self, node: fx.Node) -> None:
        """Note what a node makes of what is wide."""
        of = node.args[0]
        if is_pointwise(node) or node.target is _aten.clone.default:
            self.tails[node] = self._tail(node)
        elif any(each in self.tails for each in node.all_input_nodes if each is not of):
            self._leave(node)
        elif node.target in _NEUTRAL:
            self._reduce(node, of)
        elif node.target in VIEWS and self._is_wide(node):
            self.tails[node] = self.tails[of]
        elif node.target is _aten.full_like.default:
            self.tails[node] = _number(node)
        elif node.target is _aten.gather.default and _is_along_rows(node):
            return
        elif node.target in _SCATTERS and _is_along_rows(node):
            self.tails[node] = self.tails[of]
        elif is_turned(node) and all(_is_product_of(user, node) for user in node.users):
            self.turned.extend(node.users)
        elif _is_product_of(node, of) and self.tails[of] == 0:
            self.factors.append(node)
        elif node not in self.turned:
            self._leave(node)

    def _reduce(self, node: fx.Node, of: fx.Node) -> None:
        rank, tail = of.meta["val"].dim(), self.tails[of]
        dims = {dim % rank for dim in (node.args[1] or range(rank))}  # type: ignore[union-attr]
        is_neutral = tail == _NEUTRAL[node.target]  # type: ignore[index]
        if rank - 1 not in dims:
            self.tails[node] = tail if is_neutral else None
        elif not is_neutral:
            raise _Stays

    def _leave(self, node: fx.Node) -> None:
        """A node reads vectors as they were; to cut matrices would be a copy."""
        for each in node.all_input_nodes:
            if each in self.tails:
                if each.meta["val"].numel() != self.columns:
                    raise _Stays
                self.cut.append((each, node))

    def _tail(self, node: fx.Node) -> float | None:
        """What a node makes of the numbers behind the last column, element by element.

        Of operands that have one number for a row nobody knows which: it must not matter, as long
        as it is finite and not zero. Where it is neither, all of the row is lost anyway.
        """
        operands: list[tuple[Any, ...]] = []
        for each in node.all_input_nodes:
            if each.target is _FULL and self._is_wide(each):
                self.tails.setdefault(each, _number(each))
            if each in self.tails:
                operands.append((self.tails[each],))
            elif each.target in (_FULL, _aten.scalar_tensor.default):
                operands.append((_number(each),))
            elif each.meta["val"].dim() == 0 or each.meta["val"].shape[-1] == 1:
                is_condition = each.meta["val"].dtype is torch.bool
                operands.append(_ANY_CONDITION if is_condition else _ANY)
            else:
                raise _Stays
        unknown = sum(len(numbers) > 1 for numbers in operands)
        if (None,) in operands or unknown > _MOST_UNKNOWN:
            return None
        found = {_of_numbers(node, numbers) for numbers in combinations(*operands)}
        tail = found.pop()
        return None if found or isnan(tail) else tail

    def _is_wide(self, node: fx.Node) -> bool:
        shape = node.meta["val"].shape
        return bool(shape) and shape[-1] == self.columns


def _number(node: fx.Node) -> float:
    """What a node is filled with."""
    number = node.args[_NUMBERS[node.target]]  # type: ignore[index]
    if not isinstance(number, bool | int | float):
        raise _Stays
    return float(number)


def _is_along_rows(node: fx.Node) -> bool:
    """Whether indices are of the last dimension."""
    rank = node.args[0].meta["val"].dim()  # type: ignore[union-attr]
    return node.args[1] % rank == rank - 1  # type: ignore[operator]


def _is_product_of(node: fx.Node, left: Any) -> bool:
    """Whether a node is a product of one matrix and another, which is dense."""
    if node.target is not _aten.mm.default or node.args[0] is not left:
        return False
    return node.args[1] is not left and is_dense(node.args[1].meta["val"])  # type: ignore[union-attr]


def _of_numbers(node: fx.Node, numbers: tuple[Any, ...]) -> float:
    """What a node makes of single elements."""
    with unset_fake_temporarily(), torch.no_grad():
        given = {
            each: torch.tensor(number).to(each.meta["val"].dtype)
            for each, number in zip(node.all_input_nodes, numbers, strict=True)
        }
        args, kwargs = fx.map_arg((node.args, node.kwargs), given.__getitem__)
        kwargs = {name: value for name, value in kwargs.items() if name != "device"}
        return float(node.target(*args, **kwargs))  # type: ignore[operator]


def _widen(wide: _Wide, padded: Padded, more: int) -> None:
    """Give all that is wide so many columns more; those who read it otherwise get what they did."""
    graph, columns = wide.logits.graph, wide.columns
    _widen_product(wide.logits, padded, more)
    for node in wide.tails:
        if node.target in _SHAPES:
            *shape, last = node.args[_SHAPES[node.target]]  # type: ignore[index, misc]
            last = last if last == -1 else columns + more
            node.update_arg(_SHAPES[node.target], [*shape, last])  # type: ignore[index]
        _trace(node)
    for node in wide.factors:
        with graph.inserting_before(node):
            node.update_arg(1, padded.matrix(node.args[1], more, 0))  # type: ignore[arg-type]
    for node in wide.turned:
        _trace(node.args[0])  # type: ignore[arg-type]
        _trace(node)
        _cut(node, list(node.users), 0, columns)
    for node, reader in wide.cut:
        _cut(node, [reader], node.meta["val"].dim() - 1, columns)


def _widen_product(product: fx.Node, padded: Padded, more: int) -> None:
    """Make a product one of a wider matrix, with a bias that ends with minus infinity."""
    *added, left, right = product.args
    value, graph = product.meta["val"], product.graph
    with graph.inserting_before(product):
        if not added:
            how = {"dtype": value.dtype, "device": value.device}
            added = [call(graph, _FULL, [value.shape[1]], 0.0, **how)]
            added[0].meta = {**product.meta, **added[0].meta}
        bias = padded.copy(added[0], 0, more, -inf)
        product.target, product.args = (
            _aten.addmm.default,
            (bias, left, padded.matrix(right, 0, more)),
        )
    _trace(product)


def _trace(node: fx.Node) -> None:
    args, kwargs = fx.map_arg((node.args, node.kwargs), lambda each: each.meta["val"])
    node.meta["val"] = node.target(*args, **kwargs)  # type: ignore[operator]


def _cut(node: fx.Node, readers: list[fx.Node], axis: int, size: int) -> None:
    """Give readers a node without its last rows or columns."""
    with node.graph.inserting_after(node):
        own = node.graph.call_function(_aten.slice.Tensor, (node, axis, 0, size))
    own.meta = {**node.meta, "val": node.meta["val"].narrow(axis, 0, size)}
    for reader in readers:
        reader.replace_input_with(node, own)
