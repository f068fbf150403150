"""Products of float32 by tensor cores, each factor as a sum of two of TF32 (3xTF32).

In: a Relax module before decomposition. Out: the same with a product of three times the depth in
place of each that is large enough, [lower upper upper] [upper lower upper]: of a x b what both
lower halves give is left out, 2^-24 of it, as float32's rounding is. What errors there are come
from tensor cores' sums, and grow with the depth. Knows no kernel.
"""

from __future__ import annotations

from functools import partial
from math import prod

import tvm
from tvm import relax, te, tirx
from tvm.ir import Call, Expr
from tvm.relax import op

from tvm_stitch.graph.front.dataflow import mutated, name_of, operators_of
from tvm_stitch.graph.front.decompose.stages import (
    dtype_of,
    has_shape,
    rank_of,
    same_extents,
    shape_of,
)
from tvm_stitch.stages.patterns.tf32 import rounded, truncated
from tvm_stitch.stages.stage import constant

MATMUL, TRANSPOSE = "matmul", "permute_dims"
SPLIT, PRODUCT = "tf32_terms", "matmul_of_terms"
DTYPE = "float32"
TERMS = 3
# Of smaller products the halves take as long to be written as tensor cores save: 512 x 512 x 512
# takes 13.9 us on an H200, so split 11.7; 256 x 4096 x 4096 184 and 176, of half as many rows 99
# and 143; 4096 x 768 x 3072 398 and 189.
LEAST_WORK = 1 << 27
LEAST_SIDE = 448  # of a square whose sides take as long to be read and written
# Which of the terms are the lower half of the left factor, and of the right one: what is small is
# added up first.
LEFT, RIGHT = 0, 1


def SplitFactors() -> tvm.transform.Pass:
    """The pass."""

    @tvm.transform.module_pass(opt_level=0, name="SplitFactors")
    def split_factors(mod: tvm.IRModule, _context: object) -> tvm.IRModule:
        if MATMUL not in operators_of(mod.functions.values()):
            return mod
        return mutated(relax.transform.Normalize()(mod), _Written(mod))

    return split_factors


@relax.expr_functor.mutator
class _Written(relax.PyExprMutator):
    """Writes products of split factors."""

    def visit_call_(self, call: Call) -> Expr:
        call = super().visit_call_(call)
        return self._product(call) if _gains(call) else call

    def _product(self, call: Call) -> Expr:
        emit = self.builder_.emit
        left, right = call.args
        if rank_of(right) == 2 and rank_of(left) > 2:
            *rows, depth = map(int, shape_of(left))
            left = emit(op.reshape(left, [prod(rows), depth]))
        one, other = self._as_it_lies(left, -1), self._as_it_lies(right, -2)
        factors = self._split(*one, lower=LEFT), self._split(*other, lower=RIGHT)
        computed = partial(_multiplied, one[1], other[1])
        found = emit(self.builder_.call_te(computed, *factors, primfunc_name_hint=PRODUCT))
        is_whole = same_extents(shape_of(found), shape_of(call))
        return found if is_whole else op.reshape(found, shape_of(call))

    def _as_it_lies(self, factor: Expr, along: int) -> tuple[Expr, int]:
        """A factor, or what it is the transpose of; which of the last two axes is the depth."""
        made = self.lookup_binding(factor) if isinstance(factor, relax.Var) else None
        if not isinstance(made, Call) or name_of(made) != TRANSPOSE or not has_shape(made.args[0]):
            return factor, along
        rank, axes = rank_of(factor), made.attrs.axes
        order = list(range(rank))[::-1] if axes is None else [int(axis) % rank for axis in axes]
        is_flipped = order == [*range(rank - 2), rank - 1, rank - 2]
        return (made.args[0], -3 - along) if is_flipped else (factor, along)

    def _split(self, factor: Expr, along: int, lower: int) -> Expr:
        """The terms of a factor behind each other along its depth."""
        emit, shape = self.builder_.emit, shape_of(factor)
        split = self.builder_.call_te(_terms, factor, lower, along, primfunc_name_hint=SPLIT)
        depth = len(shape) + along
        shape[depth] = TERMS * shape[depth]
        return emit(op.reshape(emit(split), shape))


def _gains(call: Call) -> bool:
    """Whether a product is one of float32 whose sizes are known, and large enough."""
    if name_of(call) != MATMUL or not all(map(has_shape, (*call.args, call))):
        return False
    if {dtype_of(call), *map(dtype_of, call.args)} != {DTYPE}:
        return False
    left, right = (_sizes(each) for each in call.args)
    if left is None or right is None or min(len(left), len(right)) < 2:
        return False
    if len(right) > 2 and left[:-2] != right[:-2]:
        return False
    columns, depth = right[-1], right[-2]
    rows = left[-2] if len(right) > 2 else prod(left[:-1])
    is_wide = 2 * rows * columns >= LEAST_SIDE * (rows + columns)
    return is_wide and prod(right[:-2]) * rows * columns * depth >= LEAST_WORK


def _sizes(value: Expr) -> list[int] | None:
    sizes = [constant(extent) for extent in shape_of(value)]
    return None if None in sizes else [size for size in sizes if size is not None]


def _terms(factor: te.Tensor, lower: int, along: int) -> te.Tensor:
    """Both halves of each element, one of them twice, on an axis in front of the depth's."""
    at = len(factor.shape) + along
    shape = [*factor.shape[:at], tirx.IntImm("int64", TERMS), *factor.shape[at:]]

    def element(*axes: tirx.Var) -> Expr:
        value = factor(*axes[:at], *axes[at + 1 :])
        upper = rounded(value)
        return tirx.Select(axes[at] == lower, value - upper, upper)

    return te.compute(shape, element, name="terms")


def _multiplied(along: int, beside: int, left: te.Tensor, right: te.Tensor) -> te.Tensor:
    """A product as tensor cores compute it, of factors that have the depth along these axes."""
    depth = te.reduce_axis((0, left.shape[along]), "k")
    rows, columns = left.shape[-3 - along], right.shape[-3 - beside]

    def element(*axes: tirx.Var) -> Expr:
        *outer, row, column = axes
        one = (row, depth.var) if along == -1 else (depth.var, row)
        other = (column, depth.var) if beside == -1 else (depth.var, column)
        factors = left(*outer, *one), right(*outer, *other)
        return te.sum(truncated(factors[0]) * truncated(factors[1]), axis=depth)

    return te.compute([*left.shape[:-2], rows, columns], element, name=MATMUL)
