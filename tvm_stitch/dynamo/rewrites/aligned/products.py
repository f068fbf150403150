"""Products on tensor cores whose rows begin at no multiple of 16 bytes: of wider copies.

In: a functional graph. Out: the same graph with operands padded by zeros, where that pays.
Vocabularies are odd (50257, 30522, 51865): two products of a backward pass read the gradient of the
logits. cuBLAS multiplies such rows by kernels of an older kind: 1024 x 50257 x 768 and 50257 x 1024
x 768 in bfloat16 take 625 and 613 us on an H200, of 50264 columns 113 and 97; the three of 1024 x
768 x 30522 of float32 by TF32 396 to 478, of 30524 columns 227. Distances between the rows are not
enough: the library asks for sizes as well. Must not know what becomes of the graph.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import fx

from tvm_stitch.dynamo.rewrites.row_chunks.pieces import is_turned
from tvm_stitch.frontend.torch.layout import is_laid

_aten = torch.ops.aten
PRODUCTS = {_aten.mm.default: 0, _aten.addmm.default: 1}
"""Where the operands begin."""
# Of an H200, for the order of magnitude: bytes in a microsecond.
_MOVED_IN_US = 3.5e6
_LAUNCH_US = 2.0
# So many times what the copies take must be won.
_GAIN = 1.5


@dataclass(frozen=True)
class Kind:
    """What is known of a dtype's products: as above, of an H200.

    lost: what unaligned rows take more, in times of the aligned product: `unaligned` of
        kernel/library_product/cost.py, less 1.
    pads_results: whether results with odd rows are a library's; those of halves our own kernels
        write.
    """

    bytes: int
    multiplied_in_us: float
    lost: float
    pads_results: bool = False

    @property
    def aligned(self) -> int:
        """Elements in 16 bytes."""
        return 16 // self.bytes

    def pays(self, multiplied: int, copied: Sequence[int]) -> bool:
        """Whether so many multiplications win what copies of so many elements take, if there are.

        The copies are by kernels of their own.
        """
        each = (2 * self.bytes * elements / _MOVED_IN_US + _LAUNCH_US for elements in copied)
        lost = self.lost * multiplied / self.multiplied_in_us
        return bool(copied) and lost >= _GAIN * sum(each)


_HALF = Kind(2, 3.2e8, 2.7)
_ROUNDED = Kind(4, 1.05e8, 1.0, pads_results=True)


def kinds_of(tf32: bool) -> Mapping[torch.dtype, Kind]:
    """The dtypes that tensor cores multiply; float32 where it may be rounded."""
    kinds = {torch.float16: _HALF, torch.bfloat16: _HALF}
    return kinds | ({torch.float32: _ROUNDED} if tf32 else {})


def with_aligned_products(graph: fx.Graph, tf32: bool = False) -> None:
    """Pad operands of large products where it pays; those of float32 where they may be rounded."""
    padded, kinds = Padded(graph), kinds_of(tf32)
    for product in list(graph.nodes):
        first = PRODUCTS.get(product.target)
        found = None if first is None else _extents(kinds, *product.args[first : first + 2])
        if first is not None and found is not None and found.pays:
            _replace(padded, product, first, found)


@dataclass(frozen=True)
class _Extents:
    """Of a product: what it is of, and by how much rows and depth are to grow."""

    kind: Kind
    rows: int
    depth: int
    columns: int
    more_rows: int
    more_depth: int
    more_columns: int

    @property
    def copied(self) -> list[int]:
        """The elements of each operand that is copied, and of a result with a gap in each row."""
        left, right = self.rows * self.depth, self.depth * self.columns
        found = [left] if self.more_rows or self.more_depth else []
        found += [right] if self.more_columns or self.more_depth else []
        return found + ([self.rows * self.columns] if self.more_columns else [])

    @property
    def pays(self) -> bool:
        """Whether it is worth its copies."""
        return self.kind.pays(self.rows * self.depth * self.columns, self.copied)


def _extents(kinds: Mapping[torch.dtype, Kind], left: fx.Node, right: fx.Node) -> _Extents | None:
    """What to do about a product; None where its sizes change, or its operands have gaps.

    Halves' results whose rows would be odd are written by our own kernels, or unaligned whatever is
    copied.
    """
    values = [each.meta["val"] for each in (left, right)]
    sizes = [size for value in values for size in value.shape]
    kind = kinds.get(values[0].dtype)
    if kind is None or values[1].dtype is not values[0].dtype:
        return None
    if not all(isinstance(size, int) and size > 1 for size in sizes):
        return None
    by_depth = [is_laid(values[0], (0, 1)), is_laid(values[1], (1, 0))]
    by_side = [is_laid(values[0], (1, 0)), is_laid(values[1], (0, 1))]
    if not all(one or other for one, other in zip(by_depth, by_side, strict=True)):
        return None
    (rows, depth), columns = values[0].shape, values[1].shape[1]
    if columns % kind.aligned and not kind.pads_results:
        return None
    return _Extents(
        kind,
        rows,
        depth,
        columns,
        more_rows=-rows % kind.aligned if by_side[0] else 0,
        more_depth=-depth % kind.aligned if any(by_depth) else 0,
        more_columns=-columns % kind.aligned,
    )


def _replace(padded: Padded, product: fx.Node, first: int, of: _Extents) -> None:
    """The product of wider operands, and of its result what there was before."""
    graph, arguments = padded.graph, list(product.args)
    left, right = arguments[first : first + 2]
    with graph.inserting_before(product):
        arguments[first] = padded.matrix(left, of.more_rows, of.more_depth)
        arguments[first + 1] = padded.matrix(right, of.more_depth, of.more_columns)
        if first:
            more_rows = of.more_rows if _has_rows(arguments[0]) else 0
            arguments[0] = padded.added(arguments[0], more_rows, of.more_columns)
        wide = graph.call_function(product.target, tuple(arguments), product.kwargs)
        value = product.meta["val"]
        shape = of.rows + of.more_rows, of.columns + of.more_columns
        wide.meta = {**product.meta, "val": value.new_empty(shape)}
        result = wide
        for axis, (size, more) in enumerate(
            ((of.rows, of.more_rows), (of.columns, of.more_columns))
        ):
            if more:
                left_over = result.meta["val"].narrow(axis, 0, size)
                result = graph.call_function(_aten.slice.Tensor, (result, axis, 0, size))
                result.meta = {**product.meta, "val": left_over}
        if of.more_columns:  # whoever reads it takes it for one without gaps
            how = {"memory_format": torch.contiguous_format}
            result = graph.call_function(_aten.clone.default, (result,), how)
            result.meta = {**product.meta, "val": value.new_empty(of.rows, of.columns)}
    product.replace_all_uses_with(result)
    graph.erase_node(product)


def _has_rows(added: fx.Node) -> bool:
    """Whether what is added to a product has rows of its own, a bias has none."""
    shape = added.meta["val"].shape
    return len(shape) == 2 and shape[0] != 1


@dataclass
class Padded:
    """Copies of matrices, each made once, in front of the first product that reads it."""

    graph: fx.Graph
    known: dict[tuple[fx.Node, int, int, float], fx.Node] = field(default_factory=dict)

    def matrix(self, given: fx.Node, more_rows: int, more_columns: int) -> fx.Node:
        """A matrix with zeros below and to the right, laid out in memory as it is."""
        if not (more_rows or more_columns):
            return given
        while is_turned(given) and is_turned(given.args[0]):
            given = given.args[0].args[0]
        if is_laid(given.meta["val"], (0, 1)):
            return self.copy(given, more_rows, more_columns)
        return self._turned(self.copy(self._turned(given), more_columns, more_rows))

    def added(self, given: fx.Node, more_rows: int, more_columns: int) -> fx.Node:
        """What is added to a product: of one column it has enough, a bias may be a vector."""
        shape = given.meta["val"].shape
        if not shape or shape[-1] == 1:
            more_columns = 0
        if len(shape) == 2:
            return self.matrix(given, more_rows, more_columns)
        return self.copy(given, 0, more_columns) if more_columns else given

    def _turned(self, given: fx.Node) -> fx.Node:
        if is_turned(given):
            return given.args[0]
        turned = self.graph.call_function(_aten.permute.default, (given, [1, 0]))
        turned.meta = {**given.meta, "val": given.meta["val"].t()}
        return turned

    def copy(
        self, given: fx.Node, more_rows: int, more_columns: int, number: float = 0.0
    ) -> fx.Node:
        """A vector or a matrix with a number behind and below."""
        key = given, more_rows, more_columns, number
        if key not in self.known:
            *rows, columns = given.meta["val"].shape
            margins = [0, more_columns, 0, more_rows] if rows else [0, more_columns]
            copy = self.graph.call_function(_aten.constant_pad_nd.default, (given, margins, number))
            shape = [*(size + more_rows for size in rows), columns + more_columns]
            value = given.meta["val"].new_empty(shape)
            copy.meta = {**given.meta, "val": value}
            self.known[key] = copy
        return self.known[key]
