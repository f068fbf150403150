"""The mapping of a panel: how many columns are neighbours in a block, and who shares each.

In: one Program whose rows are columns of a matrix, their length and the Device. Out: Mappings, the
best first. What is legal of them panels/kind says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import chain, product

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of, plan_phases
from tvm_stitch.kernel.analysis.kind import Problem
from tvm_stitch.kernel.analysis.online_reduction import in_one_pass
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES
from tvm_stitch.kernel.ir.mapping import MAX_BLOCK_THREADS, WARP, Panel, power_of_two
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.panels.footprint import REGISTER_BYTES, live_bytes
from tvm_stitch.kernel.panels.program import SECTOR_BYTES, adjacent_rows, rows_of
from tvm_stitch.kernel.rows.choose import BUSY_SHARE, KEPT_BYTES, steps_of
from tvm_stitch.kernel.rows.legal import has_clusters
from tvm_stitch.kernel.rows.row_batching import rows_at_once
from tvm_stitch.kernel.rows.vector_width import narrowest_item, vector_width
from tvm_stitch.stages.stage import constant, dtype_of

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
# Blocks of a cluster and threads of each that read vectors of neighbours, which make up a line of
# memory or half of one. Of 380 such panels of twelve kernels on an H200 those of vectors of 8 bytes
# and blocks of 128 threads that keep up to 128 elements each are within 3 % of the best of all but
# three (6, 7 and 17 %): softmax over the middle of 16 x 1500 x 512 float16 takes 17.6 us so, 20.5
# by 4 blocks of 256 threads that read 16 bytes, 18.1 by half lines; its gradient 23.6 for 27.0;
# weight norm of 4096 x 4096 float32 37.5 for 40.5, its gradient 59.5, and 82.4 in rounds. Of more
# elements (47 vectors of 4 halves) the first of these takes 23.0, of fewer by 16 blocks 30.0.
VECTOR_WIDTHS = (4 * SECTOR_BYTES, 2 * SECTOR_BYTES)
VECTOR_BLOCKS = ((1, 256), *((cluster, 128) for cluster in (2, 4, 8, 16)))
# What a thread keeps, and bytes of its vectors. With more, wider ones leave it fewer columns, whose
# sums take registers as well: softmax's gradient over 8192 rows of 4096 bfloat16 takes 69.8 us by
# vectors of 16 bytes, 81.7 with 80 bytes that spill by those of 8, and 83 in rounds.
VECTOR_ELEMENTS, VECTOR_BYTES = 128, ((3 * KEPT_BYTES, 8), (4 * KEPT_BYTES, ACCESS_BYTES))
# Where positions are compared as well, the CUDA compiler likes 212 registers. Maximum and position
# over the middle of 64 x 512 x 768 float16 take 26.1 us so; by vectors of 16 bytes, told that
# blocks of so many threads in all fit, which leaves 128 registers, 23.3.
COMPARED_THREADS = 512
# Of less, a cluster's start takes longer than what it saves: softmax of the columns of 512 x 640
# float32 takes 3.6 us by clusters of 8, 2.9 by blocks with a sector each.
CLUSTER_BYTES = 1 << 22
SHORT = 32  # elements of a column that one thread goes through alone: no exchange
# Of fewer it has batches that it reads one by one: the mean over the middle of 8 x 4 x 524288
# float16 takes 19.8 us by vectors and 16.7 so; over 8 rows of 1572864 it takes 10.0 by vectors.
FEWEST_ALONE = 8
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
    program, columns = problem.program, problem.columns
    compares = any(dtype_of(stage.output).startswith("int") for stage in program.row_reductions)
    if adjacent_rows(program) < 2 or columns < FEWEST_ALONE:
        return
    if columns <= SHORT:
        yield from _alone(problem)
        return
    for width, (most, access) in product(VECTOR_WIDTHS, VECTOR_BYTES):
        access = ACCESS_BYTES if compares else access
        adjacent = min(adjacent_rows(program), access // narrowest_item(program))
        rows = rows_of(program, width) // adjacent
        for cluster, block in VECTOR_BLOCKS if rows else ():
            if cluster > 1 and not _may_share(problem):
                continue
            threads = min(block // rows, power_of_two(-(-columns // (cluster * FEWEST_STEPS))))
            mapping = Panel(threads, rows, 1, 1, batch=adjacent, cluster=cluster, adjacent=True)
            if compares:
                mapping = replace(mapping, min_blocks_per_sm=COMPARED_THREADS // block)
            yield from _both_ways(problem, replace(mapping, steps=steps_of(mapping, columns)), most)


def _alone(problem: Problem[Program]) -> Iterator[Panel]:
    """Short columns, of which a thread has several neighbours by itself: nothing is exchanged."""
    program = problem.program
    adjacent = min(adjacent_rows(program), ACCESS_BYTES // narrowest_item(program))
    mapping = Panel(1, BLOCK_THREADS, 1, problem.columns, batch=adjacent, adjacent=True)
    yield from _both_ways(problem, mapping, max(VECTOR_BYTES)[0])


def _both_ways(problem: Problem[Program], mapping: Panel, most: int) -> Iterator[Panel]:
    """Kept as it is computed, and as what it can be computed from again, in so many bytes."""
    for again in (mapping, replace(mapping, recompute=True)):
        busy = _is_busy(problem.program, again, problem.device)
        if busy and _keeps(problem.program, again, most):
            yield again


def _may_share(problem: Problem[Program]) -> bool:
    """Whether there are clusters, and enough to read for them."""
    elements = constant(problem.program.space.size)
    little = elements is not None and elements * narrowest_item(problem.program) < CLUSTER_BYTES
    return "cluster" in problem.schemes and has_clusters(problem.device) and not little


def _is_busy(program: Program, mapping: Panel, device: Device) -> bool:
    """Whether there is a block for every multiprocessor, as far as is known."""
    rows = program.rows_expected
    blocks = device.multiprocessors if rows is None else -(-rows // mapping.block_rows)
    return blocks * mapping.cluster >= device.multiprocessors


def _keeps(program: Program, mapping: Panel, most: int) -> bool:
    """Whether a thread keeps so many bytes at most, and not too many elements if any wait."""
    phases = phases_of(program, mapping)
    live = live_bytes(phases, mapping.batch)
    if not live:  # what is loaded is added up, and gone
        return mapping.elements * phases.first_bytes <= max(VECTOR_BYTES)[0]
    return mapping.elements <= VECTOR_ELEMENTS and mapping.elements * live <= most


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
