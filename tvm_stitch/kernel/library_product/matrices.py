"""How the factors of a product lie in memory, as a library of matrix products takes them.

In: a TensorProduct. Out: Batches: equal distances from line to line, from matrix to matrix of a
batch, and from batch to batch where one call is not enough, as for heads that lie side by side.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod

from tvm import tirx

from tvm_stitch.kernel.analysis.contiguity import bound_to
from tvm_stitch.kernel.tensor_core.program import DEPTH, ENTRY, Factor, TensorProduct
from tvm_stitch.stages.stage import Expr, Refused, Var, constant, substitute

# One after the other; with more, the launches take longer than the products.
MOST_CALLS = 32
_ZERO = tirx.IntImm("int64", 0)


@dataclass(frozen=True)
class Matrices:
    """A factor's matrices in its tensor; all numbers count elements."""

    start: int
    by_depth: bool  # neighbours along the depth are neighbours in memory; else along the side
    line: int  # from one line of neighbours to the next
    stride: int  # from one matrix of a batch to the next
    leap: int = 0  # from one batch to the next


@dataclass(frozen=True)
class Batches:
    """The matrices of both factors, and of the results, in as many calls of a batch each."""

    calls: int
    batch: int
    left: Matrices
    right: Matrices
    stride: int  # of the results
    leap: int


def batches(product: TensorProduct) -> Batches | Refused:
    """All products in one call, or in the fewest that there can be."""
    found: Batches | Refused = Refused("a product of nothing")
    for calls, batch, is_outer in _divisions(product):
        sides = [_matrices(f, calls, batch, is_outer) for f in (product.left, product.right)]
        left, right = sides
        if isinstance(left, Matrices) and isinstance(right, Matrices):
            each = product.rows * product.columns
            stride, leap = (each, batch * each) if is_outer else (calls * each, each)
            return Batches(calls, batch, left, right, stride, leap)
        found = next(side for side in sides if isinstance(side, Refused))
    return found


def _divisions(product: TensorProduct) -> Iterator[tuple[int, int, bool]]:
    """Calls, the batch of each, and whether calls are the outer ones; the fewest calls first."""
    extents = [constant(extent) or 1 for extent in product.stage.extents]
    inner = {prod(extents[at:end]) for end in range(len(extents) + 1) for at in range(end)}
    found = {(1, product.entries, True)}
    for size in inner:
        if product.entries % size == 0:
            other = product.entries // size
            found |= {(other, size, True), (size, other, False)}
    yield from sorted(
        (each for each in found if each[0] <= MOST_CALLS), key=lambda e: (e[0], -e[2])
    )


def _matrices(factor: Factor, calls: int, batch: int, is_outer: bool) -> Matrices | Refused:
    """Where a factor's matrices are, if they are so many calls of a batch each."""
    period = batch if is_outer else calls
    begins = {
        DEPTH: step_along(factor, DEPTH, 1),
        factor.side: step_along(factor, factor.side, 1),
    }
    inner = step_along(factor, ENTRY, 1) if period > 1 else 0
    outer = step_along(factor, ENTRY, period) if factor.extents[ENTRY] > period else 0
    start = _at(factor, {})
    if None in (start, inner, outer, *begins.values()):
        return Refused(f"{factor.buffer.name} is not read as matrices")
    assert start is not None and inner is not None and outer is not None
    affine: Expr = tirx.IntImm("int64", start) + tirx.floormod(ENTRY, period) * inner
    affine = affine + tirx.floordiv(ENTRY, period) * outer
    for var, step in begins.items():
        affine = affine + var * tirx.IntImm("int64", step)
    if not bound_to(factor.extents).can_prove_equal(factor.at, affine):
        return Refused(f"the matrices of {factor.buffer.name} have no equal distances")
    stride, leap = (inner, outer) if is_outer else (outer, inner)
    deep, wide = factor.extents[DEPTH], factor.extents[factor.side]
    along, across = begins[DEPTH] or 0, begins[factor.side] or 0
    if min(along, across, stride, leap) < 0:
        return Refused(f"{factor.buffer.name} is read backwards")
    if (along == 1 or deep == 1) and (across >= deep or wide == 1):
        return Matrices(start, True, max(across, deep), stride, leap)
    if (across == 1 or wide == 1) and (along >= wide or deep == 1):
        return Matrices(start, False, max(along, wide), stride, leap)
    return Refused(f"no neighbours of {factor.buffer.name} are neighbours in memory")


def _at(factor: Factor, others: dict[Var, Expr]) -> int | None:
    zero = dict.fromkeys(factor.extents, _ZERO)
    return constant(bound_to({}).simplify(substitute(factor.at, {**zero, **others})))


def step_along(factor: Factor, var: Var, distance: int) -> int | None:
    """Elements from one along a variable to another one; 0 where there is but one."""
    if factor.extents[var] <= distance:
        return 0
    first, second = _at(factor, {}), _at(factor, {var: tirx.IntImm("int64", distance)})
    return None if first is None or second is None else second - first
