"""What the tuner searches of panels: their width, who shares a column, where it waits.

In: a Program, values of the axes. Out: the axes, and the Mapping that values make, perhaps not
legal.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_stitch.kernel.analysis.kind import POWERS, RESIDENCES, Axes, Problem, Search, Values
from tvm_stitch.kernel.ir.mapping import Panel
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.choose import steps_of
from tvm_stitch.kernel.rows.legal import CLUSTERS

# Steps follow from the threads and the length of a column.
AXES: Axes = {
    "threads": POWERS,
    "rows": POWERS,
    "vector": POWERS[:4],
    "residence": RESIDENCES,
    "recompute": (False, True),
    "cluster": CLUSTERS,
    "neighbours": POWERS[:4],  # columns of a thread, which it reads as one vector
}
EXTRAS: Axes = {"unroll": (0, 8, 16), "batch": (1, 2, 4), "min_blocks_per_sm": (0, 2)}


def _fitted(problem: Problem[Program], values: Values) -> Panel | None:
    own = dict(values)
    neighbours = own.pop("neighbours")
    if neighbours > 1:
        if own["batch"] > 1:
            return None
        own |= {"batch": neighbours, "adjacent": True}
    mapping = Panel(**own, steps=1)
    return replace(mapping, steps=steps_of(mapping, problem.columns))


def _values(mapping: Panel) -> Values:
    neighbours = mapping.batch if mapping.adjacent else 1
    return vars(mapping) | {"neighbours": neighbours, "batch": mapping.batch // neighbours}


SEARCH = Search(lambda _program: AXES, _fitted, _values, EXTRAS, flags=("online",))
