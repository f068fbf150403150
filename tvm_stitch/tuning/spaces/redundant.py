"""Values of a space's axes that need no closer look: they leave threads idle or repeat others.

In: values of the first few axes or of all, by name. Out: whether any schedule of them is worth its
own place in the space. A table of row kernels spans millions of combinations; what is legal among
the rest is asked of the kinds.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_stitch.kernel.analysis.kind import Problem, Values
from tvm_stitch.kernel.ir.mapping import MAX_BLOCK_THREADS, WARP
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.stage import constant
from tvm_stitch.kernel.rows.vector_width import vector_width


def is_redundant(problems: Sequence[Problem[Program]], values: Values) -> bool:
    """Whether programs that share their choice have no use for such a one."""
    widest = min(vector_width(problem.program) for problem in problems)
    return values.get("vector", 1) > widest or _is_odd(values) or _is_idle(values, problems)


def _is_odd(values: Values) -> bool:
    """Whether blocks are of no size that there is, or several ways of loading early meet."""
    get = values.get
    block, cluster = get("threads", 1) * get("rows", 1), get("cluster", 1)
    if block > MAX_BLOCK_THREADS or ("rows" in values and "split" not in values and block < WARP):
        return True
    if "split" in values and not values["split"] and get("steps", 1) > 1:
        return True  # steps follow from the row's length
    if cluster > 1 and (get("rows", 1) > 1 or get("threads", WARP) < WARP):
        return True
    batched = get("batch", 1) > 1 or get("prefetch_weights", False)
    alone = get("residence", "register") == "register" and cluster == 1
    if batched and (get("threads", 1) > WARP or not alone):
        return True
    if get("residence", "register") == "nowhere" and get("recompute", True) is False:
        return True  # what is kept nowhere is always computed again
    if get("turns", "none") != "none" and (batched or not alone or get("min_blocks_per_sm", 0)):
        return True
    if get("unroll", 0) and get("residence") == "register":
        return True  # a row in registers is loaded as a whole
    return "split" not in values and _is_crowded(values)


def _is_crowded(values: Values) -> bool:
    """Whether a multiprocessor is asked to hold less than a block, or more than makes sense.

    Rows that wait in registers are what takes them; others leave room for as many threads as there
    are, which the CUDA compiler must be told.
    """
    resident, cluster = values.get("min_blocks_per_sm", 0), values.get("cluster", 1)
    block = values.get("threads", 1) * values.get("rows", 1)
    wide = values.get("residence") in ("shared", "nowhere")
    return 0 < resident < block or (resident > 0 and (cluster > 1 or wide != (resident == 2048)))


def _is_idle(values: Values, problems: Sequence[Problem[Program]]) -> bool:
    """Whether threads or rows have no work, or a choice only repeats another one."""
    get = values.get
    block, batch = get("threads", 1) * get("rows", 1), get("batch", 1)
    for problem in problems:
        width = get("cluster", 1) * get("threads", 1) * get("vector", 1)
        if problem.columns and width >= 2 * problem.columns and get("threads", 1) > 1:
            return True
        program = problem.program
        rows = (constant(program.space.rows) if program.reduces else None) or 1 << 62
        if get("rows", 1) * batch >= 2 * rows and block * batch > WARP:
            return True
        # Where recomputing makes no difference, what is chosen for rows in registers says no.
        usual = bool(program.column_reductions) or get("residence", "register") != "register"
        if "recompute" in values and values["recompute"] != usual and not problem.recomputes:
            return True
        if get("prefetch_weights", False) and not problem.has_weights:
            return True
    return False
