"""The mapping of a panel: how many columns are neighbours in a block, and who shares each.

In: one Program whose rows are columns of a matrix, their length and the Device. Out: Mappings, the
best first. What is legal of them panels/kind says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of, plan_phases
from tvm_stitch.kernel.analysis.kind import Problem
from tvm_stitch.kernel.analysis.online_reduction import in_one_pass
from tvm_stitch.kernel.ir.mapping import MAX_BLOCK_THREADS, WARP, Panel, power_of_two
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.panels.footprint import REGISTER_BYTES, live_bytes
from tvm_stitch.kernel.panels.program import SECTOR_BYTES, adjacent_rows, rows_of
from tvm_stitch.kernel.rows.choose import BUSY_SHARE, KEPT_BYTES, steps_of
from tvm_stitch.kernel.rows.legal import has_clusters
from tvm_stitch.kernel.rows.row_batching import rows_at_once
from tvm_stitch.kernel.rows.vector_width import vector_width
from tvm_stitch.stages.stage import constant

# Neighbouring columns that a block reads, in bytes: the widest of these that leaves no
# multiprocessor without a block, and whose columns a block can keep.
WIDTHS = (4 * SECTOR_BYTES, 2 * SECTOR_BYTES, SECTOR_BYTES)
# Threads of a block and bytes that each keeps, in order of preference: blocks of a quarter of what
# a multiprocessor holds load while others reduce. Statistics over the middle of 64 x 512 x 768
# float16 take 23.9 us with 256 threads, 25.6 with 512 and 33.1 with 1024, the norm over axis 1 of
# 32 x 192 x 56 x 56 float16 takes 24.0, 24.2 and 28.9. Where 512 are too many with 128 bytes each,
# more bytes are better than more threads: softmax over the middle of 16 x 1500 x 512 float16 takes
# 20.2 us with 512 threads of 47 elements, 27.9 with 1024 of 24.
BLOCKS = ((256, KEPT_BYTES), (512, KEPT_BYTES), (512, 2 * KEPT_BYTES))
# Blocks of a cluster and threads of each that read vectors of neighbours, a line of memory wide,
# and bytes that a thread keeps. Measured on an H200 by kernels written by hand, in multiples of a
# copy: softmax backward over the middle of 16 x 1500 x 512 float16 takes 1.31 by 8 blocks, 1.33 by
# 4 that keep twice as much, 1.43 by one with half a line, 1.89 by one with a sector, element by
# element; weight norm of 4096 x 4096 float32 1.38 by 8 blocks, 1.49 by one with a sector, 1.67 in
# vectors; statistics over the middle of 64 x 512 x 768 float16 1.36 to 1.45 by one block of 256
# threads, 1.55 by two, 1.69 by one with half a line. Told that two of them fit, the CUDA compiler
# makes do with 128 registers where it took up to 164.
VECTOR_THREADS, VECTOR_BYTES = 256, 2 * KEPT_BYTES
VECTOR_BLOCKS = ((1, VECTOR_THREADS), (1, 512), *((n, VECTOR_THREADS) for n in (2, 4, 8)))
SHORT = 32  # elements of a column that one thread goes through alone: no exchange
BLOCK_THREADS = 128  # of columns that need one thread each
FEWEST_STEPS = 4  # of a column that is shared to occupy the device
# Of a block, and no more: 777 x 300 float32, standardised by 38 blocks, takes 3.17 us with 512
# threads each and 3.39 with 1024.
FILLED_THREADS = 512
STREAM_THREADS = 512
UNROLL = 16  # steps that a thread loads at once of a column that waits in no registers


def panel_mappings(problem: Problem[Program]) -> Iterator[Panel]:
    """Those of any kernel, in blocks of the problem's size: with more columns each."""
    threads = problem.context.threads
    for mapping in _of_any_threads(problem):
        smaller = threads > mapping.block_threads
        yield replace(mapping, rows=threads // mapping.threads) if smaller else mapping


def _of_any_threads(problem: Problem[Program]) -> Iterator[Panel]:
    """A panel that waits in registers, else in shared memory.

    What fits neither is read again in every phase, most of it from the L2.
    """
    program, device, columns = problem.program, problem.device, problem.columns
    if columns:
        yield from _in_vectors(problem)
        for block in BLOCKS:
            yield from _widest(program, device, partial(_in_registers, problem, block))
        yield from _widest(program, device, partial(_in_shared, program, columns))
    yield from _widest(program, device, partial(_streamed, program, columns))


def vector_of(program: Program) -> int:
    """Elements of a piece that are read at once: a column of a matrix has one."""
    vector, run = vector_width(program), constant(program.space.run) or 1
    while run % vector:
        vector //= 2
    return vector


def _in_registers(problem: Problem[Program], block: tuple[int, int], width: int) -> Iterator[Panel]:
    """Kept as it is computed, or as what it can be computed from again."""
    program, device, columns = problem.program, problem.device, problem.columns
    vector, (most, kept_bytes) = vector_of(program), block
    for recompute in (False, True):
        phases = plan_phases(program, recompute)
        # Where nothing is kept, what is loaded before it is added up.
        each = live_bytes(phases, vector) or phases.first_bytes
        threads = _fewest(columns, max(each, REGISTER_BYTES), kept_bytes)
        rows = rows_of(program, width) if threads > 1 else _rows_of_short(program, device)
        if threads * rows > most:
            continue
        threads = _fill_device(program, device, columns, threads, FILLED_THREADS // rows)
        rows = max(rows, WARP // threads)
        mapping = Panel(threads, rows, vector, 1, recompute=recompute)
        mapping = replace(mapping, steps=steps_of(mapping, columns))
        if threads == 1:
            mapping = replace(mapping, batch=rows_at_once(program, mapping, device))
        if mapping.steps * vector * each <= kept_bytes:
            yield mapping


def _in_vectors(problem: Problem[Program]) -> Iterator[Panel]:
    """Kept in registers by threads that have several neighbours, which they read as one vector."""
    program, device, columns = problem.program, problem.device, problem.columns
    adjacent = adjacent_rows(program)
    rows = rows_of(program, WIDTHS[0]) // adjacent
    if adjacent == 1 or rows < 1 or columns <= SHORT:
        return
    clusters = "cluster" in problem.schemes and has_clusters(device)
    panels = program.rows_expected and -(-program.rows_expected // (rows * adjacent))
    writes = any(map(program.is_full, program.outputs))
    for cluster, block in VECTOR_BLOCKS:
        few = panels is not None and panels * cluster < device.multiprocessors
        if few or (cluster > 1 and not clusters) or (block > VECTOR_THREADS and writes):
            continue
        threads = min(block // rows, power_of_two(-(-columns // (cluster * FEWEST_STEPS))))
        shared = Panel(threads, rows, 1, 1, batch=adjacent, cluster=cluster, adjacent=True)
        for mapping in (shared, replace(shared, recompute=True)):
            phases = phases_of(program, mapping)
            each = adjacent * (live_bytes(phases, adjacent) or phases.first_bytes)
            mapping = replace(mapping, steps=steps_of(mapping, columns))
            if mapping.steps * each <= VECTOR_BYTES:
                yield replace(mapping, min_blocks_per_sm=VECTOR_THREADS * 2 // block)


def _fewest(columns: int, each: int, kept_bytes: int) -> int:
    """Threads of a column that can keep it; one for a short one."""
    if columns <= SHORT and columns * each <= kept_bytes:
        return 1
    return power_of_two(-(-columns * each // kept_bytes))


def _fill_device(program: Program, device: Device, columns: int, threads: int, most: int) -> int:
    """More threads of a column where that leaves the device idle."""
    rows = program.rows_expected
    wanted = device.multiprocessors * device.max_threads * BUSY_SHARE
    while (
        rows is not None
        and 1 < threads < most
        and rows * threads < wanted
        and columns >= 2 * threads * FEWEST_STEPS
    ):
        threads *= 2
    return threads


def _rows_of_short(program: Program, device: Device) -> int:
    """Columns of a block where each has one thread: fewer where there are few."""
    rows, total = BLOCK_THREADS, program.rows_expected
    while total is not None and rows > WARP and total < rows * device.multiprocessors:
        rows //= 2
    return rows


def _in_shared(program: Program, columns: int, width: int) -> Iterator[Panel]:
    """As many threads as a block has, each with its elements in shared memory."""
    if plan_phases(program, True, "shared").kept:
        yield _of_threads(program, columns, rows_of(program, width), MAX_BLOCK_THREADS, "shared")


def _streamed(program: Program, columns: int, width: int) -> Iterator[Panel]:
    """Read again in every phase; sums are found with the maximum that they are measured by."""
    rows = rows_of(program, width)
    mapping = _of_threads(program, columns, rows, STREAM_THREADS, "nowhere")
    yield replace(mapping, online=in_one_pass(program) is not None)


def _of_threads(program: Program, columns: int, rows: int, block: int, residence: str) -> Panel:
    """A panel that does not wait in registers."""
    threads, vector = block // rows, vector_of(program)
    mapping = Panel(threads, rows, vector, 0, residence, recompute=True, unroll=UNROLL)
    return replace(mapping, steps=steps_of(mapping, columns)) if columns else mapping


def _widest(
    program: Program, device: Device, way: Callable[[int], Iterator[Panel]]
) -> Iterator[Panel]:
    """From wide to narrow those that leave no multiprocessor without a block, then the others.

    Of the others, those that leave the fewest: from narrow to wide.
    """
    rows, others = program.rows_expected, list[list[Panel]]()
    for width in WIDTHS:
        found = list(way(width))
        filled = [
            mapping
            for mapping in found
            if rows is None or -(-rows // mapping.block_rows) >= device.multiprocessors
        ]
        yield from filled
        others.insert(0, [mapping for mapping in found if mapping not in filled])
    yield from chain.from_iterable(others)
