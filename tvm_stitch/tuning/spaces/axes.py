"""The axes along which mappings of each kind are searched.

In: a Program, or a Mapping of it. Out: the values that each axis takes, those of the mapping, and
the mapping that values make, perhaps not legal. What is legal is asked of the kinds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from tvm_stitch.kernel.analysis.kind import Problem
from tvm_stitch.kernel.cooperative.choose_column_sums import with_blocks
from tvm_stitch.kernel.elementwise.transposed_reads import find_tiling
from tvm_stitch.kernel.ir.mapping import (
    ColumnSums,
    Flat,
    Mapping,
    Panel,
    Rows,
    SmallMatmul,
    Transposed,
)
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.rows.choose import CLUSTERS, idle_threads, steps_of
from tvm_stitch.kernel.rows.footprint import footprint
from tvm_stitch.kernel.rows.vector_width import is_aligned
from tvm_stitch.kernel.small_matmul.choose import mapping_of_products
from tvm_stitch.kernel.small_matmul.program import ProductProgram
from tvm_stitch.stages.matmul_pattern import MAX_CONTRACTED
from tvm_stitch.stages.stage import constant

POWERS = tuple(1 << n for n in range(11))

Values = dict[str, Any]  # of the axes, by name
Axes = dict[str, tuple[object, ...]]


@dataclass(frozen=True)
class Search:
    """How mappings of one kind are searched."""

    axes: Callable[[Program], Axes]
    # What values make; None where others say the same.
    fitted: Callable[[Problem[Any], Values], Mapping | None]
    values: Callable[[Any], Values] = vars  # of a mapping
    # The first value changes nothing; others make nothing legal that was not.
    extras: Axes = field(default_factory=dict)
    flags: tuple[str, ...] = ()  # each yes or no; all sets of them are tried of what is legal

    def values_of(self, program: Program, mapping: Mapping) -> Values:
        """The values of the axes that make a mapping."""
        own = self.values(mapping)
        names = (*self.axes(program), *self.extras, *self.flags)
        return {name: own.get(name, 0) for name in names}


def search_of(program: Program) -> Search:
    """How mappings of a program are searched."""
    return SEARCHES[kind_of(program).mappings[0]]


def _flat_axes(program: Program) -> Axes:
    axes: Axes = {
        "threads": POWERS[5:],
        "vector": POWERS[:5],
        "steps": POWERS[:5],
        "min_blocks_per_sm": (0, 1024, 2048),  # threads, which registers are left for
    }
    return axes if find_tiling(program) is None else {**axes, "tile": (0, *POWERS[3:8])}


def _flat_values(mapping: Flat) -> Values:
    return vars(mapping) | {"min_blocks_per_sm": mapping.min_blocks_per_sm * mapping.threads}


def _fitted_flat(_problem: Problem[Program], values: Values) -> Flat:
    own = {**values, "min_blocks_per_sm": values["min_blocks_per_sm"] // values["threads"]}
    tile = own.pop("tile", 0)
    return Transposed(**own, tile=tile) if tile else Flat(**own)


# Steps follow from the threads and the row's length, peeling from its alignment.
ROWS_AXES: Axes = {
    "cluster": CLUSTERS,
    "threads": POWERS,
    "rows": POWERS,
    "vector": POWERS[:5],
    "residence": ("register", "shared", "nowhere"),
    "recompute": (False, True),
}
ROWS_EXTRAS: Axes = {
    "batch": (1, 2, 4),
    "prefetch_weights": (False, True),
    "min_blocks_per_sm": (0, 512, 1024, 2048),  # threads, which registers are left for
    "unroll": (0, 2, 8),
    "turns": ("none", "plain", "pipelined"),  # blocks take turns at the rows
}


def _rows_values(mapping: Rows) -> Values:
    turns = "pipelined" if mapping.prefetch_next_row else "plain"
    resident = mapping.min_blocks_per_sm * mapping.block_threads
    own = vars(mapping) | {"turns": turns if mapping.blocks else "none"}
    return own | {"min_blocks_per_sm": 0 if mapping.blocks else resident}


def _fitted_rows(problem: Problem[Program], values: Values) -> Rows | None:
    own = {name: value for name, value in values.items() if name != "turns"}
    mapping = Rows(**own, steps=1)
    mapping = replace(
        mapping,
        min_blocks_per_sm=mapping.min_blocks_per_sm // mapping.block_threads,
        peeled=not is_aligned(problem.program, mapping.vector),
        idle=idle_threads(problem.program, mapping.threads, mapping.vector),
    )
    mapping = replace(mapping, steps=steps_of(mapping, problem.columns))
    if mapping.unroll > mapping.steps:
        return None
    if values["turns"] == "none":
        return mapping
    return _iterating(problem, mapping, values["turns"] == "pipelined")


def _iterating(problem: Problem[Program], mapping: Rows, pipelined: bool) -> Rows | None:
    """With a grid as large as the device holds at once; None where no block has two turns."""
    device, program = problem.device, problem.program
    resident = max(1, footprint(program, mapping).blocks_per_sm(device))
    rows, blocks = constant(program.space.rows), resident * device.multiprocessors
    if rows is not None and -(-rows // mapping.rows) <= blocks:
        return None
    return replace(mapping, blocks=blocks, min_blocks_per_sm=resident, prefetch_next_row=pipelined)


# Blocks follow from how many are resident; steps too, where rows are not split.
SUMS_AXES: Axes = {
    "threads": POWERS,
    "rows": POWERS,
    "vector": POWERS[:5],
    "split": (False, True),
    "steps": POWERS[:4],
    "recompute": (False, True),
    "prefetch_next_row": (False, True),
    "min_blocks_per_sm": (1, 2, 3, 4, 6, 8),
}


def _fitted_sums(problem: Problem[Program], values: Values) -> ColumnSums | None:
    """With as many blocks as may be resident, if other values do not say the same."""
    mapping, wanted = ColumnSums(**values), values["min_blocks_per_sm"]
    program, device, columns = problem.program, problem.device, problem.columns
    if not mapping.split:
        mapping = replace(mapping, steps=steps_of(mapping, columns))
    found = with_blocks(program, mapping, device, columns, wanted)
    return found if found is not None and found.min_blocks_per_sm == wanted else None


# Steps follow from the widest value.
PRODUCT_AXES: Axes = {
    "threads": POWERS[:9],
    "rows": POWERS,
    "batch": (1, 2, 4, 8),
    "split": (False, True),
}
# Where few rows are multiplied along some depth.
DEEP_PRODUCT_AXES: Axes = {**PRODUCT_AXES, "depth_split": POWERS[:4]}
PRODUCT_EXTRAS: Axes = {"prefetch_weights": (False, True)}
PRODUCT_FLAGS = ("asynchronous",)


def _product_axes(program: Program) -> Axes:
    assert isinstance(program, ProductProgram)
    deepest = max(each.contracted for each in program.contractions.values())
    return DEEP_PRODUCT_AXES if deepest > MAX_CONTRACTED else PRODUCT_AXES


def _fitted_product(problem: Problem[ProductProgram], values: Values) -> SmallMatmul:
    sizes = values["threads"], values["rows"], values["batch"], values["split"]
    mapping = mapping_of_products(problem.program, *sizes, values.get("depth_split", 1))
    return replace(mapping, **{name: values[name] for name in (*PRODUCT_EXTRAS, *PRODUCT_FLAGS)})


# Steps follow from the threads and the length of a column.
PANEL_AXES: Axes = {
    "threads": POWERS,
    "rows": POWERS,
    "vector": POWERS[:4],
    "residence": ("register", "shared", "nowhere"),
    "recompute": (False, True),
    "cluster": CLUSTERS,
    "neighbours": POWERS[:4],  # columns of a thread, which it reads as one vector
}
PANEL_EXTRAS: Axes = {"unroll": (0, 8, 16), "batch": (1, 2, 4), "min_blocks_per_sm": (0, 2)}


def _fitted_panel(problem: Problem[Program], values: Values) -> Panel | None:
    own = dict(values)
    neighbours = own.pop("neighbours")
    if neighbours > 1:
        if own["batch"] > 1:
            return None
        own |= {"batch": neighbours, "adjacent": True}
    mapping = Panel(**own, steps=1)
    return replace(mapping, steps=steps_of(mapping, problem.columns))


def _panel_values(mapping: Panel) -> Values:
    neighbours = mapping.batch if mapping.adjacent else 1
    return vars(mapping) | {"neighbours": neighbours, "batch": mapping.batch // neighbours}


SEARCHES: dict[type[Mapping], Search] = {
    Flat: Search(_flat_axes, _fitted_flat, _flat_values),
    Rows: Search(
        lambda _program: ROWS_AXES,
        _fitted_rows,
        _rows_values,
        ROWS_EXTRAS,
        flags=("asynchronous", "online"),
    ),
    Panel: Search(
        lambda _program: PANEL_AXES,
        _fitted_panel,
        _panel_values,
        PANEL_EXTRAS,
        flags=("online",),
    ),
    ColumnSums: Search(lambda _program: SUMS_AXES, _fitted_sums),
    SmallMatmul: Search(_product_axes, _fitted_product, extras=PRODUCT_EXTRAS, flags=PRODUCT_FLAGS),
}
