"""How the factors of a product lie in memory, as a library of matrix products takes them.

In: a TensorProduct. Out: Batches: equal distances from line to line, from matrix to matrix of a
batch, and from batch to batch where one call is not enough, as for heads that lie side by side.
Where sizes are symbolic, so may distances be.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tvm import tirx

from tvm_stitch.kernel.analysis.contiguity import Extent, bound_to, is_at_least
from tvm_stitch.kernel.tensor_core.program import DEPTH, ENTRY, Factor, TensorProduct
from tvm_stitch.stages.memoized import remembered
from tvm_stitch.stages.stage import Expr, Refused, Var, as_int64, constant, substitute

# One after the other; with more, the launches take longer than the products.
MOST_CALLS = 32
_ZERO = tirx.IntImm("int64", 0)


@dataclass(frozen=True)
class Matrices:
    """A factor's matrices in its tensor; all numbers count elements."""

    start: Extent
    by_depth: bool  # neighbours along the depth are neighbours in memory; else along the side
    line: Extent  # from one line of neighbours to the next
    stride: Extent  # from one matrix of a batch to the next
    leap: Extent = 0  # from one batch to the next


@dataclass(frozen=True)
class Batches:
    """The matrices of both factors, and of the results, in as many calls of a batch each."""

    calls: int
    batch: Extent
    left: Matrices
    right: Matrices
    line: Extent  # of the results
    stride: Extent
    leap: Extent


def batches(product: TensorProduct) -> Batches | Refused:
    """All products in one call, or in the fewest that there can be."""
    # Whatever follows a product: its factors are those that were found of it alone.
    return remembered(product.stage, (batches, product.left), lambda: _batches(product))


def _batches(product: TensorProduct) -> Batches | Refused:
    found: Batches | Refused = Refused("a product of nothing")
    for calls, batch, is_outer in _divisions(product):
        sides = [_matrices(f, calls, batch, is_outer) for f in (product.left, product.right)]
        left, right = sides
        if isinstance(left, Matrices) and isinstance(right, Matrices):
            columns, each = product.columns, product.rows * product.columns
            if product.is_interleaved:
                return Batches(calls, batch, left, right, batch * columns, columns, 0)
            stride, leap = (each, batch * each) if is_outer else (calls * each, each)
            return Batches(calls, batch, left, right, columns, stride, leap)
        found = next(side for side in sides if isinstance(side, Refused))
    return found


def _divisions(product: TensorProduct) -> Iterator[tuple[int, Extent, bool]]:
    """Calls, the batch of each, and whether calls are the outer ones; the fewest calls first."""
    yield 1, product.entries, True
    if not isinstance(product.entries, int) or product.is_interleaved:
        return
    extents = [constant(extent) or 1 for extent in product.stage.extents]
    inner = {prod(extents[at:end]) for end in range(len(extents) + 1) for at in range(end)}
    found: set[tuple[int, int, bool]] = set()
    for size in inner:
        if product.entries % size == 0:
            other = product.entries // size
            found |= {(other, size, True), (size, other, False)}
    yield from sorted(
        (each for each in found if 1 < each[0] <= MOST_CALLS), key=lambda e: (e[0], -e[2])
    )


def _matrices(factor: Factor, calls: int, batch: Extent, is_outer: bool) -> Matrices | Refused:
    """Where a factor's matrices are, if they are so many calls of a batch each."""
    period = batch if is_outer else calls
    along, across = step_along(factor, DEPTH, 1), step_along(factor, factor.side, 1)
    inner = 0 if is_at_least(1, period) else step_along(factor, ENTRY, 1)
    outer = step_along(factor, ENTRY, period)
    start = _at(factor, {})
    affine: Expr = as_int64(start) + DEPTH * along + factor.side * across
    affine = affine + tirx.floormod(ENTRY, as_int64(period)) * inner
    affine = affine + tirx.floordiv(ENTRY, as_int64(period)) * outer
    if not bound_to(factor.extents).can_prove_equal(factor.at, affine):
        return Refused(f"the matrices of {factor.buffer.name} have no equal distances")
    stride, leap = (inner, outer) if is_outer else (outer, inner)
    if not all(is_at_least(step, 0) for step in (along, across, stride, leap)):
        return Refused(f"{factor.buffer.name} is read backwards")
    for by_depth, beside, step, length, lines in (
        (True, along, across, factor.extents[DEPTH], factor.extents[factor.side]),
        (False, across, along, factor.extents[factor.side], factor.extents[DEPTH]),
    ):
        if beside != 1 and length != 1:
            continue
        if is_at_least(step, length):
            return Matrices(start, by_depth, step, stride, leap)
        if lines == 1:
            return Matrices(start, by_depth, length, stride, leap)
    return Refused(f"no neighbours of {factor.buffer.name} are neighbours in memory")


def _at(factor: Factor, others: dict[Var, Expr]) -> Extent:
    zero = dict.fromkeys(factor.extents, _ZERO)
    return _number(bound_to({}).simplify(substitute(factor.at, {**zero, **others})))


def step_along(factor: Factor, var: Var, distance: Extent) -> Extent:
    """Elements from one along a variable to another one; 0 where there is but one."""
    if is_at_least(distance, factor.extents[var]):
        return 0
    first, second = _at(factor, {}), _at(factor, {var: as_int64(distance)})
    return _number(bound_to({}).simplify(as_int64(second) - as_int64(first)))


def _number(size: Expr) -> Extent:
    number = constant(size)
    return size if number is None else number
