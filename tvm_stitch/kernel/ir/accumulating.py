"""Programs that accumulate along their rows: running sums and products as stages of an element.

In: Stages in order, of which some are scans, and the buffers that must be written. Out: a Program
over the rows that are scanned, or why there is none. Must not know threads.
"""

from __future__ import annotations

from tvm_stitch.kernel.ir.iteration_space import Space, find_space, goes_across
from tvm_stitch.kernel.ir.placing import make_program
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.scan_pattern import scan_of
from tvm_stitch.stages.stage import Refused, Stage, Var, product, same_size


def accumulating_program(stages: tuple[Stage, ...], outputs: tuple[Var, ...]) -> Program | Refused:
    """The program of stages some of which are scans, all along the rows of one space."""
    scans = {stage.output: scan for stage in stages if (scan := scan_of(stage)) is not None}
    if any(output in scans for output in outputs):
        return Refused("what is accumulated is written by a stage of its own")
    rest = tuple(stage for stage in stages if stage.output not in scans)
    if any(map(goes_across, rest)):
        return Refused("sums over the rows, along which something is accumulated")
    first, *others = map(_space_of, scans.values())
    reduced = [stage for stage in rest if stage.is_reduction]
    spaces = [*others, *([find_space(tuple(reduced), [], outputs)] if reduced else [])]
    for space in spaces:
        if isinstance(space, Refused):
            return space
        if not (space.whole and _same(space, first)):
            return Refused("what is accumulated and what is reduced lie in different rows")
    own = tuple(scans.get(stage.output, stage) for stage in stages)
    return make_program(own, outputs, first)


def _space_of(scan: Stage) -> Space:
    return Space(product(scan.extents[:-1]), scan.extents[-1], scan.extents[-1])


def _same(left: Space, right: Space) -> bool:
    return same_size(left.rows, right.rows) and same_size(left.columns, right.columns)
