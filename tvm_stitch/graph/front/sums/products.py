"""Matrix products that are added up as one product of their factors one behind the other.

In: the terms of a sum. Out: the same with one term for all products: sum of A B over the steps of a
recurrent layer is [A ...] [B ...]. A small product takes a launch and reads and writes the sum once
more; its factors are copied for that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tvm.ir import Call, Expr
from tvm.relax import op

from tvm_stitch.graph.front.dataflow import name_of
from tvm_stitch.graph.front.decompose.stages import dtype_of, has_shape, rank_of, shape_of
from tvm_stitch.graph.front.sums.terms import Emit, Known
from tvm_stitch.stages.stage import constant

MATMUL, TRANSPOSE = "matmul", "permute_dims"
# Multiply-adds of a product that takes not much longer than a launch; larger ones stay apart.
MOST_WORK = 1 << 27
# With fewer, the copies take as long as what is saved.
FEWEST = 3


@dataclass(frozen=True)
class _Factor:
    """A matrix, or one that is the other way around."""

    matrix: Expr
    transposed: bool

    @property
    def flipped(self) -> _Factor:
        return _Factor(self.matrix, not self.transposed)


def one_product(terms: Sequence[Expr], known: Known, emit: Emit) -> list[Expr]:
    """The terms, all products of few operations as one."""
    found = [(term, _factors(term, known)) for term in terms]
    pairs = [factors for _, factors in found if factors is not None]
    if len(pairs) < FEWEST:
        return list(terms)
    left = _along_depth([pair[0] for pair in pairs], 1, emit)
    right = _along_depth([pair[1] for pair in pairs], 0, emit)
    return [emit(op.matmul(left, right)), *(term for term, factors in found if factors is None)]


def _factors(term: Expr, known: Known) -> tuple[_Factor, _Factor] | None:
    """The two of a small product that nobody else reads, if a term is one or its transpose."""
    flips = False
    while True:
        if not known.is_read_once(term):
            return None
        value = known.definition(term)
        if not isinstance(value, Call) or not has_shape(value):
            return None
        if not _is_transpose(value):
            break
        term, flips = value.args[0], not flips
    if name_of(value) != MATMUL or not _is_small(value):
        return None
    left, right = (_factor(each, known) for each in value.args)
    return (right.flipped, left.flipped) if flips else (left, right)


def _factor(value: Expr, known: Known) -> _Factor:
    flips = False
    while (made := known.definition(value)) is not None and _is_transpose(made):
        value, flips = made.args[0], not flips
    return _Factor(value, flips)


def _is_transpose(value: Expr) -> bool:
    """Whether a matrix is transposed."""
    if name_of(value) != TRANSPOSE or not has_shape(value) or rank_of(value) != 2:
        return False
    axes = value.attrs.axes
    return axes is None or [int(axis) for axis in axes] == [1, 0]


def _is_small(call: Call) -> bool:
    shapes = [shape_of(each) if has_shape(each) else [] for each in call.args]
    if list(map(len, shapes)) != [2, 2] or {dtype_of(each) for each in call.args} != {"float32"}:
        return False
    extents = [constant(extent) for extent in (*shapes[0], shapes[1][1])]
    if None in extents or dtype_of(call) != "float32":
        return False
    rows, depth, columns = (int(extent or 0) for extent in extents)
    return 0 < rows * depth * columns <= MOST_WORK


def _along_depth(factors: Sequence[_Factor], axis: int, emit: Emit) -> Expr:
    """All factors one behind the other along this axis, which is the depth."""
    if all(factor.transposed for factor in factors):
        whole = emit(op.concat([factor.matrix for factor in factors], axis=1 - axis))
        return emit(op.permute_dims(whole, [1, 0]))
    return emit(op.concat([_as_read(factor, emit) for factor in factors], axis=axis))


def _as_read(factor: _Factor, emit: Emit) -> Expr:
    return emit(op.permute_dims(factor.matrix, [1, 0])) if factor.transposed else factor.matrix
