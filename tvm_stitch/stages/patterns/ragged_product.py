"""Products of rows in groups that lie one behind the other, each by a matrix of its own, as experts
have (`torch._grouped_mm`, `jax.lax.ragged_dot`): only run time knows where a group ends.

In: a Stage. Out: the parts of such a product, or None. TIR says it as a sum over all groups, of
which those that a row is not in count for nothing: right whoever computes it, and as many times too
much as there are groups unless this is seen. Rows behind the last group are 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.stages.guards import is_branch
from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.stage import (
    Expr,
    Stage,
    Var,
    as_int64,
    buffer_shape,
    constant,
    dtype_of,
    interned,
)

ENDS = "int32"


@dataclass(frozen=True, eq=False)
class RaggedProduct:
    """The parts of such a stage."""

    ends: Var  # of the groups: the number of the row behind their last, one after the other
    groups: int
    group: Var  # the reduced axis that counts them
    depth: Var  # that which is summed up
    row: Var  # the axis of the rows
    value: Expr  # what is summed up, of a row by the matrix of a group


def of_own_group(value: Expr, row: Expr, group: Expr, ends: Expr) -> Expr:
    """What a group adds to a row: the value where the row is in it, else 0.

    A branch, in which factors of other groups are not read.
    """
    own, first = as_int64(row), tirx.const(0, dtype_of(group))
    before, end = (ends[each].astype("int64") for each in (tirx.max(group - 1, first), group))
    is_in = tirx.all(tirx.any(tirx.EQ(group, first), before <= own), own < end)
    return tirx.if_then_else(is_in, value, tirx.const(0, dtype_of(value)))


@memoized
def ragged_product(stage: Stage) -> RaggedProduct | None:
    """Which rows a product multiplies by which matrix, if run time says it that way."""
    value = stage.value
    if stage.combiner != "sum" or len(stage.reduced) != 2 or not stage.axes:
        return None
    if not isinstance(value, tvm.ir.Call) or not is_branch(value):
        return None
    _, product, _ = value.args
    ends = _ends(value, stage.reduced[0])
    groups = constant(stage.reduced_extents[0])
    if ends is None or groups is None or constant(buffer_shape(ends)[0]) != groups:
        return None
    group, depth = stage.reduced
    for row in stage.axes:
        if tvm_ffi.structural_equal(of_own_group(product, row, group, ends), value):
            return RaggedProduct(ends, groups, group, depth, row, product)
    return None


def _ends(value: Expr, group: Var) -> Var | None:
    """What is read of integers by the number of a group alone."""
    loads: list[Expr] = []
    tvm_ffi.structural_walk(value.args[0], (tvm.ir.TensorLoad, loads.append))
    for load in loads:
        if dtype_of(load) == ENDS and len(load.indices) == 1 and load.indices[0].same_as(group):
            return interned(load.source)
    return None
