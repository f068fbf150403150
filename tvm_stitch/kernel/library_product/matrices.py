"""How the factors of a product lie in memory, as a library of matrix products takes them.

In: a Factor. Out: Matrices: equal distances from line to line and from entry to entry of the batch.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from tvm_stitch.kernel.analysis.contiguity import bound_to
from tvm_stitch.kernel.tensor_core.program import DEPTH, ENTRY, Factor
from tvm_stitch.stages.stage import Expr, Refused, Var, constant, substitute

_ZERO, _ONE = tirx.IntImm("int64", 0), tirx.IntImm("int64", 1)


@dataclass(frozen=True)
class Matrices:
    """A batch of equal matrices in one tensor; all numbers count elements."""

    start: int
    by_depth: bool  # neighbours along the depth are neighbours in memory; else along the side
    line: int  # from one line of neighbours to the next
    stride: int  # from one matrix to the next


def matrices(factor: Factor) -> Matrices | Refused:
    """Where a factor's matrices are."""
    start = _at(factor, {})
    steps = {var: _step(factor, var, start) for var in factor.extents}
    if start is None or any(step is None or step < 0 for step in steps.values()):
        return Refused(f"{factor.buffer.name} is not read as matrices")
    affine: Expr = tirx.IntImm("int64", start)
    for var, step in steps.items():
        affine = affine + var * tirx.IntImm("int64", step)
    if not bound_to(factor.extents).can_prove_equal(factor.at, affine):
        return Refused(f"the matrices of {factor.buffer.name} have no equal distances")
    deep, wide = factor.extents[DEPTH], factor.extents[factor.side]
    along, across, stride = steps[DEPTH] or 0, steps[factor.side] or 0, steps.get(ENTRY) or 0
    if (along == 1 or deep == 1) and (across >= deep or wide == 1):
        return Matrices(start, True, max(across, deep), stride)
    if (across == 1 or wide == 1) and (along >= wide or deep == 1):
        return Matrices(start, False, max(along, wide), stride)
    return Refused(f"no neighbours of {factor.buffer.name} are neighbours in memory")


def _at(factor: Factor, others: dict[Var, Expr]) -> int | None:
    zero = dict.fromkeys(factor.extents, _ZERO)
    return constant(bound_to({}).simplify(substitute(factor.at, {**zero, **others})))


def _step(factor: Factor, var: Var, start: int | None) -> int | None:
    """From one element along a variable to the next; 0 where there is but one."""
    if factor.extents[var] == 1:
        return 0
    second = _at(factor, {var: _ONE})
    return None if second is None or start is None else second - start
