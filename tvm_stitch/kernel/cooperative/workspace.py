"""What the rounds of a kernel leave for later ones: where it lies in device memory.

In: Programs in rounds. Out: the buffers that cross a barrier of the grid, a workspace that holds
them all, and views of it. Must not know threads.
"""

from __future__ import annotations

import tvm
from tvm import tirx

from tvm_stitch.kernel.codegen.tir_builder import Writer
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.stages.stage import Expr, Var, buffer_size, dtype_of
from tvm_stitch.stages.symbolic_analyzer import int64

ALIGNMENT = 64  # elements: every buffer starts in a sector and a vector of its own


def crossing(programs: tuple[Program, ...]) -> list[Var]:
    """What a round computes for later ones only."""
    return [buffer for program in programs for buffer in program.crossing]


def crossing_workspace(programs: tuple[Program, ...]) -> Var:
    """Room for all of them."""
    _, end = _places(programs)
    dtype = dtype_of(crossing(programs)[0])
    return tirx.decl_buffer((end,), dtype, "workspace")


def crossing_views(programs: tuple[Program, ...], workspace: Var, writer: Writer) -> dict[Var, Var]:
    """Each of them as a flat buffer in the workspace, and those that join some of them."""
    places, _ = _places(programs)
    return {
        buffer: writer.view(workspace, buffer_size(buffer), start)
        for buffer, start in places.items()
    }


def _places(programs: tuple[Program, ...]) -> tuple[dict[Var, Expr], Expr]:
    """Where each begins, and where the last ends."""
    places: dict[Var, Expr] = {}
    end: Expr = int64(0)
    for program in programs:
        for whole, slices in program.joined:
            places[whole] = end
            for buffer in slices:
                places[buffer] = end
                end = end + buffer_size(buffer)
            end = _aligned(end)
    for buffer in crossing(programs):
        if buffer not in places:
            places[buffer] = end
            end = _aligned(end + buffer_size(buffer))
    return places, end


def _aligned(place: Expr) -> Expr:
    whole = tirx.floordiv(place + (ALIGNMENT - 1), ALIGNMENT) * ALIGNMENT
    return tvm.sym.Analyzer().simplify(whole)
