"""Rows that are added into a table where indices say, as the gradient of an embedding is.

So are rows whose largest or smallest elements are wanted. Tables of known sizes have a kernel
(kernel/scattered), which goes through a row's updates in their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import relax, te, tirx

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import (
    Call,
    Dim,
    Expr,
    Number,
    dims,
    dtype,
    immediate,
    picked,
    rank,
)
from tvm_stitch.frontend.torch.ops.indices.index import Layout, from_either_end, index_of
from tvm_stitch.graph.front.scattered.scatter_nd import stitches

_op = relax.op
# Of a row, at least: 32 bytes of halves are what memory gives.
FEWEST_COLUMNS = 16


@dataclass(frozen=True)
class Rows:
    """What indices of adjacent dimensions name, as rows of a table that a kernel of ours adds to.

    Dimensions in front of the indexed ones number rows with them, those behind are a row's own.
    Where that makes too little of a row, the nearest in front are moved behind as well: a row of an
    element each would have a list as long as all that is added.
    """

    extents: tuple[int, ...]
    axes: tuple[int, ...]
    shape: tuple[Dim, ...]  # what the indices broadcast to
    outer: int  # dimensions in front that number rows

    @staticmethod
    def of(x: Expr, layout: Layout) -> Rows | None:
        """None where other dimensions are between, or rows are too many or too long."""
        extents, first, depth = tuple(dims(x)), layout.axes[0], len(layout.axes)
        is_known = all(isinstance(extent, int) for extent in extents)
        if not is_known or layout.axes != tuple(range(first, first + depth)):
            return None
        every = (Rows(extents, layout.axes, layout.shape, n) for n in range(first, -1, -1))
        found = [each for each in every if stitches(dtype(x), each.count, prod(each.own))]
        long = (each for each in found if prod(each.own) >= FEWEST_COLUMNS)
        return next(long, found[-1] if found else None)

    @property
    def named(self) -> tuple[int, ...]:
        """The dimensions that are indexed."""
        return self.extents[self.axes[0] : self.axes[-1] + 1]

    @property
    def own(self) -> tuple[int, ...]:
        """The dimensions of a row."""
        return (*self.extents[self.outer : self.axes[0]], *self.extents[self.axes[-1] + 1 :])

    @property
    def count(self) -> int:
        """How many rows there are."""
        return prod(self.extents[: self.outer]) * prod(self.named)

    def added(
        self,
        call: Call,
        x: Expr,
        indices: Sequence[Expr],
        values: Expr,
        reduction: str = "add",
    ) -> Expr:
        """The tensor with values added where indices say, or compared: "max", "min"."""
        first, last, front = self.axes[0], self.axes[-1] + 1, self.extents[: self.outer]
        shape = [*self.extents[:first], *self.shape, *self.extents[last:]]
        numbered = [*([prod(front)] if front else []), *self.shape]
        moved = self.outer, first - self.outer
        updates = _swapped(call, _expanded(call, values, shape), *moved, len(self.shape))
        table = _swapped(call, x, *moved, len(self.axes))
        result = _added(
            call,
            _shaped(call, table, [self.count, *self.own]),
            self._places(call, indices, numbered),
            _shaped(call, updates, [*numbered, *self.own]),
            reduction,
        )
        result = _shaped(call, result, [*front, *self.named, *self.own])
        return _swapped(call, result, self.outer, len(self.axes), first - self.outer)

    def _places(self, call: Call, indices: Sequence[Expr], shape: Sequence[Dim]) -> Expr:
        """The row of each update."""

        def body(*given: te.Tensor) -> te.Tensor:
            def element(*at: Any) -> Any:
                *outer, row = [*at[: len(shape) - len(self.shape)], tirx.const(0, "int64")]
                for extent, tensor in zip(self.named, given, strict=True):
                    own = picked(tensor, at[len(outer) :])
                    row = row * immediate(extent, "int64") + from_either_end(own, extent)
                block = immediate(prod(self.named), "int64")
                return outer[0].astype("int64") * block + row if outer else row

            return te.compute(shape, element, name="at")

        return call.te(body, *indices)


def _expanded(call: Call, x: Expr, shape: Sequence[Dim]) -> Expr:
    return x if _has_shape(call, x, shape) else call.emit(_op.broadcast_to(x, shape))


def _shaped(call: Call, x: Expr, shape: Sequence[Dim]) -> Expr:
    return x if _has_shape(call, x, shape) else call.emit(_op.reshape(x, shape))


def _has_shape(call: Call, x: Expr, shape: Sequence[Dim]) -> bool:
    return rank(x) == len(shape) and all(map(call.symbols.same, dims(x), shape))


def _swapped(call: Call, x: Expr, first: int, left: int, right: int) -> Expr:
    """From a dimension on, so many of them behind as many others."""
    if not left:
        return x
    order = list(range(rank(x)))
    order[first : first + left + right] = [
        *order[first + left : first + left + right],
        *order[first : first + left],
    ]
    return call.emit(_op.permute_dims(x, order))


def embedding_dense_backward(
    call: Call,
    gradient: Expr,
    indices: Expr,
    num_weights: Number,
    padding_idx: Number,
    scale_grad_by_freq: bool,
) -> Expr:
    """Each row of the table gets the gradients of where it stood. The forward pass has checked
    the indices; one out of bounds would be of no row."""
    if scale_grad_by_freq:
        raise TorchError("gradients scaled by how often their index occurs")
    if not isinstance(padding_idx, int):
        raise TorchError("a padding index that changes")
    table = call.emit(_op.zeros(call.shape, call.dtype))
    rows, *columns = dims(table)
    if not all(isinstance(extent, int) for extent in (rows, *columns)) or not stitches(
        call.dtype, rows, prod(columns)
    ):
        raise TorchError("a table without a kernel of ours")
    places, updates = index_of(call, indices), gradient
    if padding_idx >= 0:
        updates = _without_padding(call, gradient, places, padding_idx)
    return _added(call, table, places, updates)


def _without_padding(call: Call, gradient: Expr, places: Expr, padding: int) -> Expr:
    """Gradients of which those for the padding's row are nothing."""
    nothing = immediate(0, dtype(gradient))

    def body(given: te.Tensor, index: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            is_padding = tirx.EQ(index(*at[:-1]), tirx.const(padding, "int64"))
            return tirx.Select(is_padding, nothing, given(*at))

        return te.compute(dims(gradient), element, name="gradients")

    return call.te(body, gradient, places)


def _added(call: Call, table: Expr, places: Expr, updates: Expr, reduction: str = "add") -> Expr:
    """A table, and updates for its rows: scatter_nd, which is a stage of its own."""
    indices = call.emit(_op.expand_dims(places, -1))
    return call.emit(_op.scatter_nd(table, indices, updates, reduction))
