"""What the tuner searches of rows: who shares one, where it waits, whether blocks iterate.

In: a Program, values of the axes. Out: the axes, and the Mapping that values make, perhaps not
legal.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_stitch.kernel.analysis.kind import POWERS, RESIDENCES, Axes, Problem, Search, Values
from tvm_stitch.kernel.ir.mapping import Rows
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.choose import idle_threads, in_chunks, in_round, steps_of
from tvm_stitch.kernel.rows.footprint import footprint
from tvm_stitch.kernel.rows.legal import CLUSTERS
from tvm_stitch.kernel.rows.row_batching import samples_beside
from tvm_stitch.kernel.rows.vector_width import is_aligned
from tvm_stitch.stages.stage import constant

# Steps follow from the threads and the row's length, peeling from its alignment.
AXES: Axes = {
    "cluster": CLUSTERS,
    "threads": POWERS,
    "rows": POWERS,
    "vector": POWERS[:5],
    "residence": RESIDENCES,
    "recompute": (False, True),
}
EXTRAS: Axes = {
    "batch": (1, 2, 4),
    "prefetch_weights": (False, True),
    "min_blocks_per_sm": (0, 512, 1024, 2048),  # threads, which registers are left for
    "unroll": (0, 2, 8),
    # Of a grid-stride loop over the rows, or over the chunks of one that is scanned.
    "iterations": ("none", "plain", "pipelined", "chunks"),
}


def _values(mapping: Rows) -> Values:
    iterations = "pipelined" if mapping.prefetch_next_row else "plain"
    resident = mapping.min_blocks_per_sm * mapping.block_threads
    iterations = "chunks" if mapping.chunked else iterations if mapping.blocks else "none"
    own = vars(mapping) | {"iterations": iterations}
    return own | {"min_blocks_per_sm": 0 if mapping.blocks else resident}


def _fitted(problem: Problem[Program], values: Values) -> Rows | None:
    own = {name: value for name, value in values.items() if name != "iterations"}
    mapping = Rows(**own, steps=1)
    mapping = replace(
        mapping,
        min_blocks_per_sm=mapping.min_blocks_per_sm // mapping.block_threads,
        peeled=not is_aligned(problem.program, mapping.vector),
        idle=idle_threads(problem.program, mapping.threads, mapping.vector),
        beside=samples_beside(problem.program, mapping),
    )
    if values["iterations"] == "chunks":
        return in_chunks(problem.program, mapping) if problem.program.scans else None
    mapping = replace(mapping, steps=steps_of(mapping, problem.columns))
    if mapping.unroll > mapping.steps:
        return None
    if values["iterations"] == "none":
        return mapping
    return _iterating(problem, mapping, values["iterations"] == "pipelined")


def _iterating(problem: Problem[Program], mapping: Rows, pipelined: bool) -> Rows | None:
    """With a grid as large as the device holds at once; None where no block has two iterations."""
    device, program = problem.device, problem.program
    resident = max(1, footprint(program, mapping).blocks_per_sm(device))
    rows, blocks = constant(program.space.rows), resident * device.multiprocessors
    if rows is not None and -(-rows // mapping.rows) <= blocks:
        return None
    return replace(mapping, blocks=blocks, min_blocks_per_sm=resident, prefetch_next_row=pipelined)


SEARCH = Search(
    lambda _program: AXES,
    _fitted,
    _values,
    EXTRAS,
    flags=("asynchronous", "online"),
    resized=in_round,
)
