"""What the tuner searches of rows with small products: who shares a row, a factor, a depth.

In: a ProductProgram, values of the axes. Out: the axes, and the Mapping that values make, perhaps
not legal.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_stitch.kernel.analysis.kind import POWERS, Axes, Problem, Search, Values
from tvm_stitch.kernel.ir.mapping import SmallMatmul
from tvm_stitch.kernel.small_matmul.choose import mapping_of_products
from tvm_stitch.kernel.small_matmul.program import ProductProgram
from tvm_stitch.stages.patterns.matmul_pattern import MAX_CONTRACTED

# Steps follow from the widest value.
AXES: Axes = {
    "threads": POWERS[:9],
    "rows": POWERS,
    "batch": (1, 2, 4, 8),
    "split": (False, True),
}
# Where few rows are multiplied along some depth.
DEEP_AXES: Axes = {**AXES, "depth_split": POWERS[:4]}
EXTRAS: Axes = {"prefetch_weights": (False, True)}
FLAGS = ("asynchronous",)


def _axes(program: ProductProgram) -> Axes:
    deepest = max(each.contracted for each in program.contractions.values())
    return DEEP_AXES if deepest > MAX_CONTRACTED else AXES


def _fitted(problem: Problem[ProductProgram], values: Values) -> SmallMatmul:
    sizes = values["threads"], values["rows"], values["batch"], values["split"]
    mapping = mapping_of_products(problem.program, *sizes, values.get("depth_split", 1))
    return replace(mapping, **{name: values[name] for name in (*EXTRAS, *FLAGS)})


SEARCH = Search(_axes, _fitted, extras=EXTRAS, flags=FLAGS)
