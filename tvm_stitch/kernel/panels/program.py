"""Which programs are panels: rows that are columns of a matrix, or lie in pieces as short.

In: Stages in order and the buffers that must be written. Out: a Program whose rows are the columns
that reductions go along, or why there is none; what a panel may read, and whether a block reads it
at once. Must not know threads.
"""

from __future__ import annotations

import tvm
from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import COLUMN, ROW, Address, Frame, Stride
from tvm_stitch.kernel.analysis.keep_or_recompute import plan_phases
from tvm_stitch.kernel.analysis.kind import Made, unsupported
from tvm_stitch.kernel.analysis.profile import SECTOR_BYTES
from tvm_stitch.kernel.analysis.windows import reads_windows
from tvm_stitch.kernel.axis_order.of_source import in_source_order
from tvm_stitch.kernel.ir.iteration_space import Space, strided_space
from tvm_stitch.kernel.ir.placing import make_program
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.kernel.panels.footprint import REGISTER_BYTES, live_bytes
from tvm_stitch.kernel.rows.kind import PIECE_BYTES, is_small
from tvm_stitch.kernel.rows.vector_width import narrowest_item, vector_width
from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.stage import Refused, Stage, Var, constant, substitute

# Of a panel a sector wide, what a block has room for. In shared memory, where rows are written:
# softmax backward over the middle of 16 x 1500 x 512 float16, 144 KB a panel, takes 36.1 us so and
# 41.4 in rounds, which have three barriers. In the registers of 512 threads where they are not:
# statistics alone are read by rounds at the speed of memory, by blocks that are alone on their
# multiprocessor not. Over (1, 2) of 32 x 56 x 56 x 256 bfloat16 they take 25.6 us in rounds and
# 36.1 in panels in shared memory.
SHARED_PANEL, REGISTER_PANEL = 160 * 1024, 128 * 1024
# What an H200 reads while the blocks of a grid wait for each other: a microsecond.
BARRIER_BYTES = 1 << 22
# Bytes of a row whose lines keep all multiprocessors busy, and rows of which a block adds up all.
WIDE_ROW_BYTES, FEW_ROWS = 1 << 16, 1 << 10


def panel_program(stages: tuple[Stage, ...], outputs: tuple[Var, ...]) -> Program | Refused:
    """The program of columns that are reduced, if all reductions are of the same ones.

    Rows that a transpose makes of columns are these columns.
    """
    space = strided_space(stages)
    if isinstance(space, Space):
        return make_program(stages, outputs, space)
    turned = in_source_order(stages, outputs)
    if isinstance(turned, Refused):
        return space
    of_source = strided_space(turned)
    return space if isinstance(of_source, Refused) else make_program(turned, outputs, of_source)


def is_panel_wanted(made: Made) -> bool:
    """Whether panels may do better than rows: than none, than a barrier, and than windows."""
    if not made.is_supported:
        return True
    assert isinstance(made.program, Program), "a kind supports it"
    return _needs_no_barrier(made.program) or reads_windows(made.program)


def _needs_no_barrier(program: Program) -> bool:
    """Whether sums over the rows are better off without a barrier of the grid.

    It would take longer than what is before it, or rows are so wide, and so few, that blocks with a
    line of each are enough for the device.
    """
    if program.row_reductions or not program.column_reductions:
        return False
    rows, columns = constant(program.space.rows), constant(program.space.columns)
    if rows is None or columns is None:
        return False
    row_bytes = columns * narrowest_item(program)
    is_wide = row_bytes >= WIDE_ROW_BYTES and rows <= FEW_ROWS
    return is_wide or rows * row_bytes <= BARRIER_BYTES


def is_panel(program: Program) -> bool:
    """Whether neighbouring rows make up what memory gives at once, for a single one does not."""
    space, run = program.space, constant(program.space.run)
    if not program.reduces or program.columnwise or run is None or space.whole:
        return False
    if constant(space.rows) == 1:  # it has no neighbours
        return False
    return run * narrowest_item(program) < PIECE_BYTES


@memoized
def fits_a_block(program: Program, columns: int) -> bool:
    """Whether a panel as narrow as a sector can wait in a block, of rows of so many elements."""
    if any(map(program.is_full, program.outputs)):
        most, each = SHARED_PANEL, plan_phases(program, True, "shared").kept_bytes
    else:
        most, each = REGISTER_PANEL, max(live_bytes(plan_phases(program, True), 1), REGISTER_BYTES)
    each = max(each, narrowest_item(program))
    return columns * each * rows_of(program, SECTOR_BYTES) <= most


def rows_of(program: Program, width: int) -> int:
    """Neighbouring rows whose pieces fill so many bytes: a power of two."""
    piece = (constant(program.space.run) or 1) * narrowest_item(program)
    return 1 << max(1, width // piece).bit_length() - 1


@memoized
def adjacent_rows(program: Program) -> int:
    """How many neighbouring rows a thread can read as one vector: 1 where rows lie in runs."""
    space, frame = program.space, Frame(program)
    together = constant(space.rows if space.inner is None else space.inner)
    if constant(space.run) != 1 or together is None:
        return 1
    for stage, read in program.reads_at(Where.OTHER):
        once = frame.address(stage, read).stride is Stride.UNIFORM
        if not (once or is_small(read.buffer, program)):
            return 1
    rows = vector_width(program)
    while together % rows:
        rows //= 2
    return rows


def unsupported_panel(program: Program) -> Refused | None:
    """What neighbouring rows do not read side by side."""
    if (refused := unsupported(program)) is not None:
        return refused
    frame = Frame(program)
    for stage in program.stages:
        for read in stage.reads:
            if read.buffer in program.producer or program.place(stage, read) is not Where.OTHER:
                continue
            address = frame.address(stage, read)
            once = read.guarded or address.stride is Stride.UNIFORM
            if not (once or is_small(read.buffer, program) or _side_by_side(frame, address)):
                return Refused(f"{stage.name} reads {read.buffer.name} across the columns")
    return None


def _side_by_side(frame: Frame, address: Address) -> bool:
    """Whether an address moves by an element, or not at all, from a row to its neighbour."""
    space = frame.program.space
    group, inside = tirx.Var("group", "int64"), tirx.Var("inside", "int64")
    inner = space.rows if space.inner is None else space.inner
    analyzer, zero = tvm.sym.Analyzer(), tirx.IntImm("int64", 0)
    analyzer.bind(inside, tvm.ir.Range(zero, inner - 1))
    analyzer.bind(group, tvm.ir.Range(zero, tirx.floordiv(space.rows, inner)))
    analyzer.bind(COLUMN, tvm.ir.Range(zero, space.columns))
    row = group * inner + inside
    step = substitute(address.index, {ROW: row + 1}) - substitute(address.index, {ROW: row})
    run = constant(space.run) or 1
    return constant(analyzer.simplify(step)) in range(run + 1)
