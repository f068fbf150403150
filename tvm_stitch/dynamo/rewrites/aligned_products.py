"""Products of halves whose operands' rows begin at no multiple of 16 bytes: of wider copies.

In: a functional graph. Out: the same graph with operands padded by zeros, where that pays.
Vocabularies are odd (50257, 30522, 51865): two products of a backward pass read the gradient of the
logits. cuBLAS multiplies such rows by kernels of an older kind: 1024 x 50257 x 768 and 50257 x 1024
x 768 in bfloat16 take 625 and 613 us on an H200, of 50264 columns 113 and 97. Distances between the
rows are not enough: the library asks for sizes as well. Must not know what becomes of the graph.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import fx

from tvm_stitch.frontend.torch.layout import is_laid

_aten = torch.ops.aten
_PRODUCTS = {_aten.mm.default: 0, _aten.addmm.default: 1}  # where the operands begin
_HALVES = (torch.float16, torch.bfloat16)
_ALIGNED = 8  # elements of a half in 16 bytes
# Of an H200, for the order of magnitude: multiply-adds and bytes in a microsecond.
_MULTIPLIED_IN_US = 3.2e8
_MOVED_IN_US = 3.5e6
_LAUNCH_US = 2.0
# What unaligned rows take more, in times of the aligned product: `unaligned` of
# kernel/library_product/cost.py, less 1.
_LOST = 2.7
# So many times what the copies take must be won.
_GAIN = 1.5


def with_aligned_products(graph: fx.Graph) -> None:
    """Pad operands of large products where it pays."""
    padded = _Padded(graph)
    for product in list(graph.nodes):
        first = _PRODUCTS.get(product.target)
        found = None if first is None else _extents(*product.args[first : first + 2])
        if first is not None and found is not None and _pays(found):
            _replace(padded, product, first, found)


@dataclass(frozen=True)
class _Extents:
    """Of a product: what it is of, and by how much rows and depth are to grow."""

    rows: int
    depth: int
    columns: int
    more_rows: int
    more_depth: int

    @property
    def copied(self) -> list[int]:
        """The elements of each operand that is copied."""
        left, right = self.rows * self.depth, self.depth * self.columns
        if self.more_depth:
            return [left, right]
        return [left] if self.more_rows else []


def _extents(left: fx.Node, right: fx.Node) -> _Extents | None:
    """What to do about a product; None where its sizes change, or its operands have gaps.

    Results whose rows would be odd are written by our own kernels, or unaligned whatever is copied.
    """
    values = [each.meta["val"] for each in (left, right)]
    sizes = [size for value in values for size in value.shape]
    if any(value.dtype not in _HALVES for value in values):
        return None
    if not all(isinstance(size, int) and size > 1 for size in sizes):
        return None
    by_depth = [is_laid(values[0], (0, 1)), is_laid(values[1], (1, 0))]
    by_side = [is_laid(values[0], (1, 0)), is_laid(values[1], (0, 1))]
    if not all(one or other for one, other in zip(by_depth, by_side, strict=True)):
        return None
    (rows, depth), columns = values[0].shape, values[1].shape[1]
    if columns % _ALIGNED:
        return None
    return _Extents(
        rows,
        depth,
        columns,
        more_rows=-rows % _ALIGNED if by_side[0] else 0,
        more_depth=-depth % _ALIGNED if any(by_depth) else 0,
    )


def _pays(of: _Extents) -> bool:
    copies = sum(2 * 2 * size / _MOVED_IN_US + _LAUNCH_US for size in of.copied)
    lost = _LOST * of.rows * of.depth * of.columns / _MULTIPLIED_IN_US
    return bool(of.copied) and lost >= _GAIN * copies


def _replace(padded: _Padded, product: fx.Node, first: int, of: _Extents) -> None:
    """The product of wider operands, and of its result what there was before."""
    graph, arguments = padded.graph, list(product.args)
    left, right = arguments[first : first + 2]
    with graph.inserting_before(product):
        arguments[first] = padded.matrix(left, of.more_rows, of.more_depth)
        arguments[first + 1] = padded.matrix(right, of.more_depth, 0)
        if of.more_rows and first and _has_rows(arguments[0]):
            arguments[0] = padded.matrix(arguments[0], of.more_rows, 0)
        wide = graph.call_function(product.target, tuple(arguments), product.kwargs)
        value = product.meta["val"]
        wide.meta = {**product.meta, "val": value.new_empty(of.rows + of.more_rows, of.columns)}
        result = wide
        if of.more_rows:
            result = graph.call_function(_aten.slice.Tensor, (wide, 0, 0, of.rows))
            result.meta = {**product.meta, "val": value.new_empty(of.rows, of.columns)}
    product.replace_all_uses_with(result)
    graph.erase_node(product)


def _has_rows(added: fx.Node) -> bool:
    """Whether what is added to a product has rows of its own, a bias has none."""
    shape = added.meta["val"].shape
    return len(shape) == 2 and shape[0] != 1


@dataclass
class _Padded:
    """Copies of matrices, each made once, in front of the first product that reads it."""

    graph: fx.Graph
    known: dict[tuple[fx.Node, int, int], fx.Node] = field(default_factory=dict)

    def matrix(self, given: fx.Node, more_rows: int, more_columns: int) -> fx.Node:
        """A matrix with zeros below and to the right, laid out in memory as it is."""
        if not (more_rows or more_columns):
            return given
        if is_laid(given.meta["val"], (0, 1)):
            return self._copy(given, more_rows, more_columns)
        return self._turned(self._copy(self._turned(given), more_columns, more_rows))

    def _turned(self, given: fx.Node) -> fx.Node:
        if given.target is _aten.permute.default and list(given.args[1]) == [1, 0]:
            return given.args[0]
        turned = self.graph.call_function(_aten.permute.default, (given, [1, 0]))
        turned.meta = {**given.meta, "val": given.meta["val"].t()}
        return turned

    def _copy(self, given: fx.Node, more_rows: int, more_columns: int) -> fx.Node:
        key = given, more_rows, more_columns
        if key not in self.known:
            margins = [0, more_columns, 0, more_rows]
            copy = self.graph.call_function(_aten.constant_pad_nd.default, (given, margins, 0.0))
            rows, columns = given.meta["val"].shape
            value = given.meta["val"].new_empty(rows + more_rows, columns + more_columns)
            copy.meta = {**given.meta, "val": value}
            self.known[key] = copy
        return self.known[key]
