"""Rows that read windows of an image, which those of their neighbours overlap.

In: a Program. Out: whether all are a pooling's, of a few short pieces, of which neighbouring rows
read neighbouring memory and neighbouring columns do not, so that a thread is better off with a
window of its own; how many lines of an image a row reads. Must not know threads.
"""

from __future__ import annotations

from collections.abc import Iterable

from tvm_stitch.kernel.analysis.addressing import AddressKey, Frame, Stride
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.stage import Expr, Read, Stage, Var, constant, element_bytes, substitute
from tvm_stitch.stages.symbolic_analyzer import analyzer_of

PIECE_BYTES = 32  # of a window: as long as a sector, columns are better in several hands
# Between neighbours, at most: of a warp's sectors at least every second element is used. And of all
# neighbours side by side, at least.
STEP_BYTES = 16


@memoized
def reads_windows(program: Program) -> bool:
    """Whether all that rows read of inputs are windows."""
    found = [
        (stage, read)
        for stage in program.row_reductions
        for read in stage.reads
        if read.buffer not in program.producer and program.place(stage, read) is Where.OTHER
    ]
    return bool(found) and all(_is_window(stage, read) for stage, read in found)


@memoized
def lines_read(program: Program) -> int:
    """How many vectors of one input a row reads beside its own, as a convolution's are."""
    frame, found = Frame(program), dict[Var, set[AddressKey]]()
    for stage, read in program.reads_at(Where.OTHER):
        if read.buffer in program.inputs:
            address = frame.address(stage, read)
            if address.stride is Stride.UNIT and address.of_row:
                found.setdefault(read.buffer, set()).add(address.everywhere.key)
    return max(map(len, found.values()), default=0)


@memoized
def _is_window(stage: Stage, read: Read) -> bool:
    item = element_bytes(read.buffer)
    across = _steps(stage, read, stage.axes, stage.extents)
    step, neighbours = across[0] if across else (0, 0)
    if not 0 < step * item <= STEP_BYTES <= step * neighbours * item:
        return False
    piece = 1
    for step, extent in _steps(stage, read, stage.reduced, stage.reduced_extents):
        if step != piece:
            break
        piece *= extent
    return piece * item < PIECE_BYTES


def _steps(
    stage: Stage, read: Read, axes: Iterable[Var], extents: Iterable[Expr]
) -> list[tuple[int, int]]:
    """By how much an address moves with each axis and how long that is, the innermost first.

    As far as both are known; axes of one element are left out.
    """
    analyzer, found = analyzer_of({}), []
    for axis, extent in reversed(list(zip(axes, extents, strict=True))):
        length = constant(extent)
        if length == 1:
            continue
        step = constant(analyzer.simplify(substitute(read.place, {axis: axis + 1}) - read.place))
        if step is None or length is None:
            break
        found.append((step, length))
    return found
