"""Values of a space's axes that need no closer look: they leave threads idle or repeat others.

In: values of the first few axes or of all, by name. Out: whether any schedule of them is worth its
own place in the space. What is legal is asked of the kinds; nothing here repeats it.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_stitch.kernel.analysis.addressing import weights
from tvm_stitch.kernel.analysis.keep_or_recompute import plan_phases
from tvm_stitch.kernel.analysis.kind import Problem, Values
from tvm_stitch.kernel.ir.mapping import WARP
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.vector_width import vector_width
from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.stage import constant


def is_redundant(problems: Sequence[Problem[Program]], values: Values) -> bool:
    """Whether programs that share their choice have no use for such a one."""
    if _is_repeated(values) or _is_crowded(values):
        return True
    return any(_is_idle(values, problem) or _is_same(values, problem) for problem in problems)


def _is_repeated(values: Values) -> bool:
    """Whether others of the values follow from one, whatever they say."""
    get = values.get
    if "split" in values:
        return not values["split"] and get("steps", 1) > 1  # they follow from the row's length
    if get("iterations", "none") != "none" and get("min_blocks_per_sm", 0):
        return True  # blocks that iterate are as many as fit
    # What is kept nowhere is always computed again.
    return get("residence", "register") == "nowhere" and get("recompute", True) is False


def _is_crowded(values: Values) -> bool:
    """Whether a multiprocessor is asked to hold less than a block, or more than makes sense.

    Rows that wait in registers are what takes them; others leave room for as many threads as there
    are, which the CUDA compiler must be told.
    """
    resident, cluster = values.get("min_blocks_per_sm", 0), values.get("cluster", 1)
    if "split" in values or not resident:
        return False
    block = values.get("threads", 1) * values.get("rows", 1)
    wide = values.get("residence") in ("shared", "nowhere")
    return resident < block or cluster > 1 or wide != (resident == 2048)


def _is_idle(values: Values, problem: Problem[Program]) -> bool:
    """Whether threads or rows have no work, or vectors are wider than any tensor's."""
    get, program = values.get, problem.program
    threads, batch = get("threads", 1), get("batch", 1)
    width = get("cluster", 1) * threads * get("vector", 1)
    if get("vector", 1) > vector_width(program):
        return True
    if problem.columns and width >= 2 * problem.columns and threads > 1:
        return True
    rows = (constant(program.space.rows) if program.reduces else None) or 1 << 62
    return get("rows", 1) * batch >= 2 * rows and threads * get("rows", 1) * batch > WARP


def _is_same(values: Values, problem: Problem[Program]) -> bool:
    """Whether a choice makes no difference, and another one stands for both."""
    # Where recomputing makes no difference, what is chosen for rows in registers says no.
    usual = (
        bool(problem.program.column_reductions) or values.get("residence", "register") != "register"
    )
    if values.get("recompute", usual) != usual and not _recomputes(problem.program):
        return True
    return values.get("prefetch_weights", False) and weights(problem.program) == 0


@memoized
def _recomputes(program: Program) -> bool:
    """Whether anything can be computed again rather than kept."""
    again = plan_phases(program, rematerialize=True)
    return list(plan_phases(program).kept) != list(again.kept)
