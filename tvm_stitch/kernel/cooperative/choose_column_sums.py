"""The mapping of the global scheme: how many blocks iterate over the rows, and what they hold.

In: a Program with reductions over its rows, and a Device. Out: Mappings whose blocks are all
resident at once, the best first. What is legal of them cooperative/kinds says.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.analysis.kind import Problem
from tvm_stitch.kernel.codegen.footprint import STATIC_SHARED
from tvm_stitch.kernel.codegen.reduction import accumulator_dtype
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES
from tvm_stitch.kernel.cooperative.footprint import sums_footprint
from tvm_stitch.kernel.ir.mapping import MAX_BLOCK_THREADS, WARP, ColumnSums, power_of_two
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.choose import streamed
from tvm_stitch.kernel.rows.kind import unsupported_rows
from tvm_stitch.kernel.rows.vector_width import is_aligned, narrowest_item, vector_width
from tvm_stitch.stages.stage import Refused

BLOCK_THREADS = 256
# Vectors of a row that a thread has. Measured on an H200, layer norm backward: 16384 x 4096 bf16
# takes 134 us with 2 vectors and 184 with 1, 8192 x 1024 fp32 32.5 with 2 and 37 with 4.
VECTORS = 2
# Where whole rows are not reduced, a block has a piece of so many bytes of many rows side by side:
# the narrower pieces are, the fewer partials of a column wait in the workspace. Of 550 kernels for
# nine such sums on an H200 two blocks of 512 threads are within 2 % of the best: 8192 x 4096 bf16
# takes 24.0 us so, 26.9 by whole rows, 16384 x 1024 bf16 14.7 and 15.5.
PIECE_BYTES, PIECE_THREADS, PIECE_RESIDENT = 512, 512, 2
# So many threads of short rows, too, that are reduced by a warp or less: every block leaves a
# partial of each sum behind a barrier. The model, nothing measured, has softmax of 32768 x 64 fp32
# with its column means at 7.0 us with 132 blocks of 1024 threads, 7.9 with 264 of 512, 13.3 with
# 660 of 256.
SHORT_ROWS_THREADS = (1024, 512)
# Where a thread would load 16 bytes of a row, it has two such vectors: more is on its way at once.
# Sums over 8192 rows of 4096 bf16 take 27.2 us on an H200, 31.0 by one; of 4096 x 3072 11.9 and
# 13.8, of 12544 x 768 9.9 and 11.3, of 3136 x 1536 7.1 and 7.5.
FEWEST_ACROSS = 4  # threads that share a piece then
WASTE = 1 / 8  # of a block's threads, beyond the end of the row
# The next row is loaded ahead unless too few threads fit beside each other, or blocks with a row
# each cover for one another: RMS norm backward of 8192 x 4096 bf16 takes 67 us with 2 or 3 blocks
# of 256 threads that do, 61 with 3 that do not; layer norm backward of 16384 x 4096 bf16, of which
# 2 blocks fit, 134 and 148.
AHEAD_THREADS = 768
MOST_RESIDENT = 8
# Blocks of a multiprocessor that collect sums in device memory, each in room of its own: that of
# more would not stay in the L2.
MOST_OPEN = 1
# Every partial sum is written and read once more: so many rows go into one at least.
ROWS_A_PARTIAL = 16


def unsupported_sums(program: Program) -> Refused | None:
    """What no number of blocks sums over the rows."""
    if len({accumulator_dtype(stage) for stage in program.column_reductions}) > 1:
        return Refused("sums of several types over the rows")
    return unsupported_rows(program)


def sums_mappings(problem: Problem[Program]) -> Iterator[ColumnSums]:
    """As many blocks as are resident at once, and keep busy."""
    program, device = problem.program, problem.device
    if problem.columns < 1 and problem.is_open:
        yield of_any_length(problem)
        return
    columns = max(1, problem.columns)  # of none nothing is legal
    vector = vector_width(program)
    while not is_aligned(program, vector):
        vector //= 2
    # Into how many pieces rows fall must be known before there is a grid.
    in_pieces = not program.row_reductions and not problem.is_open
    if in_pieces:
        mapping, most = _pieces(program, columns, vector, device), PIECE_RESIDENT
    else:
        mapping = _many_side_by_side(problem, _whole_rows(columns, vector))
        most = MOST_RESIDENT
    while mapping.rows and mapping.block_threads >= WARP:
        plain = with_blocks(program, mapping, device, columns, most)
        ahead = replace(mapping, prefetch_next_row=True)
        ahead = with_blocks(program, ahead, device, columns, most)
        if _is_better(ahead, plain):
            yield ahead
        yield plain
        mapping = replace(mapping, rows=mapping.rows // 2)


def of_any_length(problem: Problem[Program]) -> ColumnSums:
    """Blocks that collect the sums of rows as long as they like in device memory."""
    own = streamed(problem.program)
    mapping = ColumnSums(own.threads, 1, own.vector if not own.peeled else 1, 0, "nowhere", True)
    return with_blocks(problem.program, mapping, problem.device, 1, MOST_OPEN)


def _is_better(ahead: ColumnSums, plain: ColumnSums) -> bool:
    """Whether blocks that load the next row ahead do better, as many as there is room for."""
    if plain.rows == 1 and plain.min_blocks_per_sm * plain.block_threads >= AHEAD_THREADS:
        return False
    many = ahead.min_blocks_per_sm * ahead.block_threads >= AHEAD_THREADS
    return many or ahead.min_blocks_per_sm == plain.min_blocks_per_sm


def _whole_rows(columns: int, vector: int) -> ColumnSums:
    """Blocks that hold whole rows, for they reduce them as well."""
    threads = min(power_of_two(-(-columns // (vector * VECTORS))), MAX_BLOCK_THREADS)
    steps = -(-columns // (threads * vector))
    rows = max(1, BLOCK_THREADS // threads)
    return ColumnSums(threads, rows, vector, steps, recompute=True)


def _many_side_by_side(problem: Problem[Program], mapping: ColumnSums) -> ColumnSums:
    """Larger blocks of short rows, where they still occupy the device and load the next ahead."""
    program, device = problem.program, problem.device
    for threads in SHORT_ROWS_THREADS if mapping.threads <= WARP else ():
        many = replace(mapping, rows=threads // mapping.threads, prefetch_next_row=True)
        rows = program.rows_expected
        fills = rows is None or 2 * -(-rows // many.rows) >= device.multiprocessors
        last = threads == SHORT_ROWS_THREADS[-1]
        if (fills or last) and resident_blocks(program, many, device):
            return replace(many, prefetch_next_row=False)
    return mapping


def _pieces(program: Program, columns: int, vector: int, device: Device) -> ColumnSums:
    """Blocks that hold a piece of each row: a vector a thread, more where rows are very long."""
    vectors = -(-columns // vector)
    threads = power_of_two(PIECE_BYTES // (vector * narrowest_item(program)))
    while threads < PIECE_THREADS and vectors > threads * device.multiprocessors:
        threads *= 2
    while threads > 1 and -vectors % threads > vectors * WASTE:
        threads //= 2
    steps = -(-vectors // (threads * device.multiprocessors))
    rows = PIECE_THREADS // threads
    mapping = ColumnSums(threads, rows, vector, steps, recompute=True, split=True)
    loaded = vector * phases_of(program, mapping).first_bytes
    if threads >= 2 * FEWEST_ACROSS and vectors % threads == 0 and loaded <= ACCESS_BYTES:
        return replace(mapping, threads=threads // 2, rows=2 * rows, steps=2 * steps)
    return mapping


def with_blocks(
    program: Program,
    mapping: ColumnSums,
    device: Device,
    columns: int,
    most_resident: int = MOST_RESIDENT,
) -> ColumnSums:
    """The mapping with as many blocks as the device holds at once and the rows keep busy.

    One at least, which is not legal where there is no room for it.
    """
    resident = max(1, min(most_resident, resident_blocks(program, mapping, device)))
    pieces = -(-columns // mapping.reach) if mapping.split else 1
    most = device.multiprocessors * resident
    rows = program.rows_expected
    partials = max(1, most // pieces)
    if rows is not None:
        groups = -(-rows // mapping.rows)
        fewest = min(groups, max(1, device.multiprocessors // pieces))
        partials = min(partials, groups, max(fewest, rows // ROWS_A_PARTIAL))
    blocks = partials * pieces
    return replace(mapping, blocks=blocks, min_blocks_per_sm=-(-blocks // device.multiprocessors))


def resident_blocks(program: Program, mapping: ColumnSums, device: Device) -> int:
    """Blocks that fit into a multiprocessor by registers, threads and shared memory."""
    needed = sums_footprint(program, mapping)
    if needed.shared > STATIC_SHARED:
        return 0
    return min(needed.blocks_per_sm(device), MOST_RESIDENT)
