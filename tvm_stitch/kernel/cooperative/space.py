"""What the tuner searches of sums over the rows, and of segments of rows between two barriers.

In: a Program, values of the axes. Out: the axes, and the Mapping that values make, perhaps not
legal.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_stitch.kernel.analysis.kind import POWERS, Axes, Problem, Search, Values
from tvm_stitch.kernel.cooperative.choose_column_sums import with_blocks
from tvm_stitch.kernel.cooperative.choose_rounds import segment_of_threads
from tvm_stitch.kernel.ir.mapping import ColumnSums
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.choose import steps_of

# Blocks follow from how many are resident; steps too, where rows are not split.
AXES: Axes = {
    "threads": POWERS,
    "rows": POWERS,
    "vector": POWERS[:5],
    "split": (False, True),
    "steps": POWERS[:4],
    "recompute": (False, True),
    "prefetch_next_row": (False, True),
    "min_blocks_per_sm": (1, 2, 3, 4, 6, 8),
}


def _fitted(problem: Problem[Program], values: Values) -> ColumnSums | None:
    """With as many blocks as may be resident, if other values do not say the same."""
    mapping, wanted = ColumnSums(**values), values["min_blocks_per_sm"]
    program, device, columns = problem.program, problem.device, problem.columns
    if not mapping.split:
        mapping = replace(mapping, steps=steps_of(mapping, columns))
    found = with_blocks(program, mapping, device, columns, wanted)
    return found if found.min_blocks_per_sm == wanted else None


SUMS_SEARCH = Search(lambda _program: AXES, _fitted)
# Rows of a segment side by side, and of these, those that a thread loads at once.
SEGMENT_SEARCH = Search(in_rounds=("rows", "batch"), resized=segment_of_threads)
