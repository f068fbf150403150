"""Matrix products: transposed operands are read where they lie, halves are summed in float32.

In: a call of matmul. Out: the product of the tensors that its operands are views of, in TE, every
index an axis by itself: `sum over k of A[batch.., i, k] * B[batch.., j, k]` by a transposed weight.
The batch falls apart into its factors where the views need it: heads that lie between the rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from tvm import te, tirx
from tvm.ir import Call, Expr, GenericConst
from tvm.relax import op

from tvm_stitch.graph.decompose.stages import (
    HALF,
    Stages,
    dtype_of,
    is_one,
    rank_of,
    same_extents,
    shape_of,
)
from tvm_stitch.graph.decompose.view import Factor, View, refined, view_of, whole

NAME = "matmul"
_SUMMED = "float32"


def product(call: Call, stage: Stages) -> Expr | None:
    """The call over what its operands are views of; None if there is nothing to gain."""
    left, right = call.args
    dtype, narrow = dtype_of(call), {*HALF, _SUMMED}
    if not {dtype, dtype_of(left), dtype_of(right)} <= narrow:
        return None
    in_place = _read_in_place(left, right, stage)
    if in_place is not None:
        result, shape = stage.cast(in_place, dtype), shape_of(call)
        return result if same_extents(shape_of(result), shape) else op.reshape(result, shape)
    if dtype != _SUMMED:
        return stage.result(dtype, op.matmul, left, right, out_dtype=_SUMMED)
    return None


def _read_in_place(left: Expr, right: Expr, stage: Stages) -> Expr | None:
    if min(rank_of(left), rank_of(right)) < 2 or _is_empty(left) or _is_empty(right):
        return None
    first, second = (_matrices(operand, stage) for operand in (left, right))
    if first.source.same_as(second.source):
        # One tensor as both factors: TVM's schedules of products want two.
        second = whole(right)
    aligned = _aligned(first, second) if first.is_moved or second.is_moved else None
    if aligned is None:
        return None
    sources, places = zip(*(_laid_out(view, stage) for view in aligned), strict=True)
    return stage.compute(_Product(*aligned, *places), *sources, name=NAME)


def _matrices(operand: Expr, stage: Stages) -> View:
    """What a product reads instead of an operand; all of it, if that would be no better."""
    view = view_of(operand, stage.definition).joined()
    matrix = [factor for dim in view.dims[-2:] for factor in dim]
    in_place = (
        view.is_moved
        and all(len(dim) <= 1 for dim in view.dims[-2:])
        and all(factor in view.memory for factor in matrix)
        # Whole lines of memory are read along a row, a column or the contracted dimension.
        and set(view.memory[-1:]) <= set(matrix)
        # A constant is transposed once, by the compiler.
        and not isinstance(stage.definition(view.source), GenericConst)
    )
    return view if in_place else whole(operand)


def _is_empty(operand: Expr) -> bool:
    return any(isinstance(extent, tirx.IntImm) and int(extent) == 0 for extent in shape_of(operand))


def _aligned(left: View, right: View) -> tuple[View, View] | None:
    """Both views in common factors of their batch and of the contracted dimension."""
    batches = zip_longest(left.dims[-3::-1], right.dims[-3::-1], fillvalue=())
    for dim, other in ((left.dims[-1], right.dims[-2]), *batches):
        if not dim or not other:
            continue
        common = refined([f.extent for f in dim], [f.extent for f in other])
        if common is None:
            return None
        left = left.divided(dict(zip(dim, common[0], strict=True)))
        right = right.divided(dict(zip(other, common[1], strict=True)))
    contracted = left.dims[-1], right.dims[-2]
    return (left, right) if all(len(dim) == 1 for dim in contracted) else None


def _laid_out(view: View, stage: Stages) -> tuple[Expr, tuple[Factor | None, ...]]:
    """The source with a dimension for each factor in memory; None for one of a single element."""
    shape = shape_of(view.source)
    wide = [extent for extent in shape if not is_one(extent)]
    extents = [factor.extent for factor in view.memory]
    if same_extents(wide, extents):
        following = iter(view.memory)
        return view.source, tuple(None if is_one(e) else next(following) for e in shape)
    return stage.reshape(view.source, extents), view.memory


@dataclass(frozen=True, eq=False)
class _Product:
    """The function of TE: two views, and the factors along the dimensions of their sources."""

    left: View
    right: View
    left_places: tuple[Factor | None, ...]
    right_places: tuple[Factor | None, ...]

    def __call__(self, left: te.Tensor, right: te.Tensor) -> te.Tensor:
        """The products' sums, the batch in front."""
        batches = zip_longest(self.left.dims[-3::-1], self.right.dims[-3::-1], fillvalue=())
        batch = [factor for one, other in reversed(list(batches)) for factor in one or other]
        own = [next(iter(dim), None) for dim in (self.left.dims[-2], self.right.dims[-1])]
        factors: list[Factor | None] = [*batch, *own]
        (contracted,) = self.left.dims[-1]
        along = te.reduce_axis((0, contracted.extent), "k")

        def element(*axes: tirx.Var) -> Any:
            at = {**dict(zip(factors, axes, strict=True)), contracted: along.var, None: 0}
            one = left(*(at[factor] for factor in self.left_places))
            other = right(*(at[factor] for factor in self.right_places))
            return te.sum(one.astype(_SUMMED) * other.astype(_SUMMED), axis=along)

        extents = [1 if factor is None else factor.extent for factor in factors]
        return te.compute(extents, element, name=NAME)
