"""Sums of products that are matrix products, though written as products of broadcast tensors.

In: a dataflow block before decomposition. Out: the same, in which a sum over a product of two
tensors, either of which is repeated along axes of the other, is a product of matrices: of Mamba 2,
(c[:, :, None] * b[:, None]).sum(-1) has as many products as the square of the length.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

import tvm
from tvm import relax, tirx
from tvm.ir import Call, Expr
from tvm.relax import op

from tvm_stitch.graph.front.dataflow import (
    block_pass,
    bound,
    definitions,
    name_of,
    only_readers,
)
from tvm_stitch.graph.front.decompose.stages import dtype_of, has_shape, is_one, shape_of
from tvm_stitch.graph.front.sums.terms import Emit, Known
from tvm_stitch.stages.stage import constant

LARGER = 4
"""By how much the products must be more than what they are of and the sums together."""
FLOATS = frozenset({"float32", "float16", "bfloat16"})
_ONE = tirx.IntImm("int64", 1)
# Whether an axis is along the first factor, along the second, and summed.
_BATCH = (True, True, False)
_ROWS = (True, False, False)
_COLUMNS = (False, True, False)
_DEPTH = (True, True, True)


def Contractions() -> tvm.transform.Pass:
    """Sums of such products as products of matrices."""
    return block_pass("Contractions", frozenset({"sum", "multiply"}).issubset, _contracted)


def _contracted(block: relax.DataflowBlock) -> relax.DataflowBlock:
    known = Known(definitions(block.bindings), only_readers(block.bindings))
    bindings: list[relax.Binding] = []
    for binding in block.bindings:
        found = _Contraction.of(binding.value, known)
        if found is not None:
            emit = partial(bound, bindings, binding.var.name)
            binding = relax.VarBinding(binding.var, found.written(emit))
        bindings.append(binding)
    return relax.DataflowBlock(bindings)


@dataclass(frozen=True)
class _Factor:
    """A tensor, and its extents along the axes of a product: one where it is repeated."""

    tensor: Expr
    extents: tuple[Expr, ...]

    @staticmethod
    def of(value: Expr, rank: int, known: Known) -> _Factor:
        """That of a product of so many axes."""
        call = known.definition(value)
        if isinstance(call, Call) and name_of(call) == "broadcast_to" and has_shape(call.args[0]):
            value = call.args[0]
        own = shape_of(value)
        return _Factor(value, (*[_ONE] * (rank - len(own)), *own))


@dataclass(frozen=True, eq=False)
class _Contraction:
    """A sum, the factors of what it adds up, and which axes of these are along which of them."""

    call: Call
    factors: tuple[_Factor, _Factor]
    extents: tuple[Expr, ...]  # of the product
    batch: tuple[int, ...]  # axes along both, and kept
    rows: tuple[int, ...]  # along the first alone
    columns: tuple[int, ...]  # along the second alone
    depth: tuple[int, ...]  # along both, and summed

    @staticmethod
    def of(call: Expr, known: Known) -> _Contraction | None:
        """That of a sum; None if it is none, or there are few products."""
        if name_of(call) != "sum" or not known.is_read_once(call.args[0]):
            return None
        product = known.definition(call.args[0])
        if not isinstance(product, Call) or name_of(product) != "multiply":
            return None
        shaped = has_shape(product) and all(map(has_shape, product.args))
        if not shaped or dtype_of(call) not in FLOATS:
            return None
        extents = tuple(shape_of(product))
        rank = len(extents)
        left, right = (_Factor.of(each, rank, known) for each in product.args)
        given = call.attrs.axis
        summed = range(rank) if given is None else [int(axis) % rank for axis in given]
        kinds = [
            (not is_one(left.extents[axis]), not is_one(right.extents[axis]), axis in summed)
            for axis in range(rank)
        ]
        if any(is_summed and along != with_other for along, with_other, is_summed in kinds):
            return None
        batch, rows, columns, depth = (
            tuple(axis for axis in range(rank) if kinds[axis] == kind)
            for kind in (_BATCH, _ROWS, _COLUMNS, _DEPTH)
        )
        found = _Contraction(call, (left, right), extents, batch, rows, columns, depth)
        return found if found._saves() else None

    def _saves(self) -> bool:
        """Whether there are many more products than there are factors and sums."""
        m, n, k = (constant(self._size(axes)) for axes in (self.rows, self.columns, self.depth))
        if m is None or n is None or k is None:
            return False
        return m * n * k >= LARGER * (m * k + n * k + m * n)

    def _size(self, axes: Sequence[int]) -> Expr:
        return prod((self.extents[axis] for axis in axes), start=_ONE)

    def written(self, emit: Emit) -> Expr:
        """The same by a product of matrices."""
        first, second = self.factors
        left = self._matrices(first, self.rows, self.depth, emit)
        right = self._matrices(second, self.depth, self.columns, emit)
        kept = (*self.batch, *self.rows, *self.columns)
        found = emit(op.matmul(left, right))
        found = emit(op.reshape(found, [self.extents[axis] for axis in kept]))
        found = emit(op.permute_dims(found, [kept.index(axis) for axis in sorted(kept)]))
        return op.reshape(found, shape_of(self.call))

    def _matrices(
        self, factor: _Factor, rows: tuple[int, ...], columns: tuple[int, ...], emit: Emit
    ) -> Expr:
        """A factor as matrices, axes of one element last before they are left out."""
        own = (*self.batch, *rows, *columns)
        rest = (axis for axis in range(len(self.extents)) if axis not in own)
        whole = emit(op.reshape(factor.tensor, factor.extents))
        moved = emit(op.permute_dims(whole, [*own, *rest]))
        sizes = [self._size(axes) for axes in (rows, columns)]
        return emit(op.reshape(moved, [*(self.extents[axis] for axis in self.batch), *sizes]))
