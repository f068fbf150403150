"""The mapping of a panel: how many columns are neighbours in a block, and who shares each.

In: one Program whose rows are columns of a matrix, their length and the Device. Out: a Mapping, or
why there is none. Part of kernel/choose, the home of legality. None of it has been measured.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of, plan_phases
from tvm_stitch.kernel.analysis.kind import Problem
from tvm_stitch.kernel.analysis.online_reduction import in_one_pass
from tvm_stitch.kernel.ir.mapping import MAX_BLOCK_THREADS, WARP, Panel, power_of_two
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.stage import Refused, constant
from tvm_stitch.kernel.panels.footprint import REGISTER_BYTES, fits, live_bytes
from tvm_stitch.kernel.panels.program import SECTOR_BYTES, rows_of
from tvm_stitch.kernel.rows.choose import BUSY_SHARE, KEPT_BYTES, NO_ELEMENTS
from tvm_stitch.kernel.rows.vector_width import vector_width

# Neighbouring columns that a block reads, in bytes: the widest of these that leaves no
# multiprocessor without a block, and whose columns a block can keep.
WIDTHS = (4 * SECTOR_BYTES, 2 * SECTOR_BYTES, SECTOR_BYTES)
SHORT = 32  # elements of a column that one thread goes through alone: no exchange
BLOCK_THREADS = 128  # of columns that need one thread each
FEWEST_STEPS = 4  # of a column that is shared to occupy the device
STREAM_THREADS = 512
UNROLL = 16  # steps that a thread loads at once of a column that waits in no registers


def panel_mapping(problem: Problem[Program]) -> Panel | Refused:
    """The widest panel that waits in registers, else the narrowest in shared memory.

    What fits neither is read again in every phase, most of it from the L2.
    """
    program, device, columns = problem.program, problem.device, problem.columns
    if columns < 1:
        return _streamed(program, 0, device) if problem.is_open else NO_ELEMENTS
    found: Panel | None = None
    for width in WIDTHS:
        mapping = _in_registers(program, device, columns, width)
        if mapping is None:
            continue
        found = mapping
        if _blocks(program, mapping) >= device.multiprocessors:
            break
    return found or _in_shared(program, device, columns) or _streamed(program, columns, device)


def steps_of(columns: int, threads: int, vector: int) -> int:
    """Steps in which a column is covered."""
    return max(1, -(-columns // (threads * vector)))


def vector_of(program: Program) -> int:
    """Elements of a piece that are read at once: a column of a matrix has one."""
    vector, run = vector_width(program), constant(program.space.run) or 1
    while run % vector:
        vector //= 2
    return vector


def _in_registers(program: Program, device: Device, columns: int, width: int) -> Panel | None:
    for recompute in (False, True):
        vector = vector_of(program)
        live = live_bytes(plan_phases(program, recompute), vector)
        rows = rows_of(program, width)
        threads = _threads(program, device, columns, max(live, REGISTER_BYTES))
        if threads == 1:
            rows = _rows_of_short(program, device)
        # Threads beyond the first column's share would only wait.
        threads = min(threads, MAX_BLOCK_THREADS // rows)
        rows = max(rows, WARP // threads)
        steps = steps_of(columns, threads, vector)
        mapping = Panel(threads, rows, vector, steps, recompute=recompute)
        if steps * vector * live <= KEPT_BYTES and fits(program, mapping, device) is None:
            return mapping
    return None


def _threads(program: Program, device: Device, columns: int, each: int) -> int:
    """Threads of a column: as few as can keep it, more where that leaves the device idle."""
    if columns <= SHORT and columns * each <= KEPT_BYTES:
        return 1
    threads = power_of_two(-(-columns * each // KEPT_BYTES))
    rows = constant(program.space.rows)
    wanted = device.multiprocessors * device.max_threads * BUSY_SHARE
    while rows and rows * threads < wanted and columns >= 2 * threads * FEWEST_STEPS:
        threads *= 2
    return threads


def _rows_of_short(program: Program, device: Device) -> int:
    """Columns of a block where each has one thread: fewer where there are few."""
    rows, total = BLOCK_THREADS, constant(program.space.rows)
    while total is not None and rows > WARP and total < rows * device.multiprocessors:
        rows //= 2
    return rows


def _in_shared(program: Program, device: Device, columns: int) -> Panel | None:
    """As many threads as a block has, each with its elements in shared memory."""
    mapping = replace(_streamed(program, columns, device), residence="shared", online=False)
    mapping = _of_threads(mapping, columns, MAX_BLOCK_THREADS)
    if not phases_of(program, mapping).kept or fits(program, mapping, device) is not None:
        return None
    return mapping


def _streamed(program: Program, columns: int, device: Device) -> Panel:
    """Read again in every phase; sums are found with the maximum that they are measured by."""
    rows = next(
        (
            rows
            for rows in (rows_of(program, width) for width in WIDTHS)
            if (constant(program.space.rows) or rows << 20) >= rows * device.multiprocessors
        ),
        rows_of(program, SECTOR_BYTES),
    )
    online = in_one_pass(program) is not None
    mapping = Panel(1, rows, vector_of(program), 0, "nowhere", True, online, UNROLL)
    return _of_threads(mapping, columns, STREAM_THREADS)


def _of_threads(mapping: Panel, columns: int, block: int) -> Panel:
    threads = block // mapping.rows
    steps = steps_of(columns, threads, mapping.vector) if columns else 0
    return replace(mapping, threads=threads, steps=steps)


def _blocks(program: Program, mapping: Panel) -> int:
    rows = constant(program.space.rows)
    return 1 << 30 if rows is None else -(-rows // mapping.rows)
