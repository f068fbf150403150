"""Short rows: how many a block has, and how much of them is on its way from memory at once.

In: a Program, its Mapping for one row after the other, the Device. Out: the Mapping
with several rows for the same threads, and weights loaded early, where that keeps memory busy.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.addressing import weights
from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.analysis.kind import Problem
from tvm_stitch.kernel.analysis.profile import sampled_together
from tvm_stitch.kernel.analysis.windows import lines_read
from tvm_stitch.kernel.codegen.footprint import too_many_threads
from tvm_stitch.kernel.ir.instructions import computes_in_branches
from tvm_stitch.kernel.ir.mapping import WARP, Panel, Rows, power_of_two
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.footprint import footprint
from tvm_stitch.stages.stage import constant

BLOCK_THREADS = 128  # short rows are packed until a block has this many threads
# Where rows read more lines than so many beside their own, as behind a convolution, a block has
# neighbours, up to so many threads of them: what several read is in the L1. Four rows of 1024
# channels behind 31 taps ask the L2 for 34 lines where they asked for 124: worked out.
FEW_LINES, NEIGHBOURS, NEIGHBOUR_THREADS = 6, 4, 512
# Bytes of short rows that a thread loads before it waits for the first of them, by taking several
# rows at once. Little's law: an H200's memory gives each of 132 multiprocessors 36 bytes a
# nanosecond, so at 1.5 microseconds under load some 50 KB of each must always be on their way.
# 2048 threads with 16 bytes each ask for 32 KB, and for nothing while they start, reduce and end:
# 750000 x 32 float32 row sums ran at 72 % of the bandwidth that way.
BYTES_IN_FLIGHT = 64
# Where rows are written as well, stores fill the gaps and more loads are in their way: softmax of
# 750000 x 32 float32 takes 46.9 us with 16 bytes a thread, 47.1 with two rows, 48.4 with four.
WRITTEN_BYTES_IN_FLIGHT = 16
# Elements of a thread, at least, where short rows begin anywhere and are read one by one: a thread
# without any works as well, and fewer threads exchange less. Softmax of 262144 x 25 float16 takes
# 11.6 us on an H200 with 8 threads a row, 12.2 with 16 and 17.6 with 32, of 131072 x 49 13.0, 10.9
# and 12.7. If rows are only read, more: the mean of these takes 6.8 us with 4 threads and 6.7 with
# 8, and 12.6 and 9.0 with 32.
FEWEST_WRITTEN, FEWEST_READ = 3, 4
# And less where these bytes come element by element, several loads for what a vector is one for.
SCALAR_BYTES_IN_FLIGHT, WRITTEN_SCALAR_BYTES_IN_FLIGHT = 16, 8
# Left alone, the CUDA compiler saves registers by moving loads behind the work on earlier ones: of
# four rows, only three are on their way before the first reduction. Told that so many threads are
# enough on a multiprocessor, it issues all loads first (53 registers instead of 32).
RESIDENT_THREADS = 512
# Threads that work out where to load wait for more than loads: deformable attention of 5440 queries
# takes 110.9 us on an H200 with 512, 69.9 with 640 and 66.1 with 1024.
SAMPLING_THREADS = 1024
# Where two rows sample that follow each other is worked out once: 700 instructions a row of float32
# for 1160, not timed. Four of halves keep more than 64 registers, and what a warp loads of float32
# at once would lie in four lines.
BESIDE = 2
MAX_BATCH = 8  # each row of a batch is written out
MOST_IN_FLIGHT = 4  # rows of a batch by which enough is in flight, or never will be
# Where so many threads of every multiprocessor, with so many bytes each, are enough for all rows to
# be on their way at once, blocks are of this size. In two waves the second one's loads wait for the
# first one's stores: RMS norm of 32768 x 256 bf16 takes 10.2 us, at once 9.4.
WAVE_THREADS, WAVE_BYTES, WAVE_BLOCK = 1024, 128, 256
# Rows of a batch there, with no, one, two weights or more. More rows leave a thread fewer columns,
# and registers of weights: layer norm of 32768 x 256 bf16 spills with 4 and takes 10.7 us with 8.
WAVE_BATCHES = (4, 4, 8)
# Weights are asked for with the row if a thread's share of the row is at most this: the first block
# of every multiprocessor then waits for device memory once rather than twice.
AHEAD_BYTES = 64
# And if they are so few: with a depthwise convolution's nine taps, a thread of a layer norm
# behind it has 128 registers and spills: 44.7 us on an H200 for 32 x 56 x 56 x 96, 36.6 without.
MOST_AHEAD = 6


def rows_of_block(program: Program, threads: int, device: Device) -> int:
    """How many rows of so many threads a block has; fewer where the device would be idle."""
    rows, blocks = max(1, BLOCK_THREADS // threads), 2 * device.multiprocessors
    beside = min(NEIGHBOURS, NEIGHBOUR_THREADS // threads)
    if beside > rows and lines_read(program) > FEW_LINES:
        rows, blocks = beside, device.multiprocessors
    total = program.rows_expected
    fewest = max(1, WARP // threads)
    while total is not None and rows > fewest and -(-total // rows) < blocks:
        rows //= 2
    return rows


def threads_of_scalars(program: Program, columns: int) -> int:
    """As many threads as have enough elements of a row each, one by one."""
    fewest = FEWEST_WRITTEN if writes_rows(program) else FEWEST_READ
    return max(1, min(power_of_two(columns // fewest + 1) // 2, WARP))


def batched(program: Program, mapping: Rows, device: Device) -> Rows:
    """Several short rows for the same threads, where one keeps too few loads in flight."""
    if mapping.residence != "register" or mapping.cluster > 1:
        return mapping
    wave = _blocks_of_one_wave(program, mapping, device)
    if mapping.threads > WARP:
        return replace(mapping, min_blocks_per_sm=wave)
    row_bytes = phases_of(program, mapping).first_bytes * mapping.vector * mapping.steps
    if row_bytes <= AHEAD_BYTES and 0 < weights(program) <= MOST_AHEAD and not mapping.peeled:
        mapping = replace(mapping, prefetch_weights=mapping.vector > 1)
    samples = mapping.threads == 1 and computes_in_branches(program)
    if samples:
        mapping = _beside(program, mapping, device)
    elif weights(program) <= MOST_AHEAD:  # of windows one row asks for enough
        mapping = replace(mapping, batch=rows_at_once(program, mapping, device))
    resident = SAMPLING_THREADS if samples else RESIDENT_THREADS
    return replace(mapping, min_blocks_per_sm=max(wave, resident // mapping.block_threads, 1))


def _beside(program: Program, mapping: Rows, device: Device) -> Rows:
    """With several rows that sample together, if there are enough of them to occupy the device."""
    several = replace(mapping, batch=BESIDE)
    if _leaves_idle(program, mapping, BESIDE, device) or not samples_beside(program, several):
        return mapping
    return replace(several, beside=True)


def samples_beside(program: Program, mapping: Rows) -> bool:
    """Whether rows of a thread's batch share where they sample if they follow each other."""
    if mapping.threads > 1 or mapping.batch == 1 or constant(program.space.rows) is None:
        return False
    return computes_in_branches(program) and sampled_together(program) % mapping.batch == 0


def rows_at_once(program: Program, mapping: Rows | Panel, device: Device) -> int:
    """How many rows a thread of a short one should have, for enough loads to be in flight."""
    row_bytes = phases_of(program, mapping).first_bytes * mapping.vector * mapping.steps
    batch = mapping.batch
    wanted = WRITTEN_BYTES_IN_FLIGHT if writes_rows(program) else BYTES_IN_FLIGHT
    if mapping.vector == 1 and mapping.threads > 1 and program.space.whole:
        written = WRITTEN_SCALAR_BYTES_IN_FLIGHT
        wanted = written if writes_rows(program) else SCALAR_BYTES_IN_FLIGHT
    while batch * row_bytes < wanted and batch < MOST_IN_FLIGHT:
        if _leaves_idle(program, mapping, batch, device):
            break
        batch *= 2
    return batch


def _leaves_idle(program: Program, mapping: Rows | Panel, batch: int, device: Device) -> bool:
    """Whether batches of so many rows are known to be too few for half of the threads, twice."""
    rows, busy = program.rows_expected, device.multiprocessors * device.max_threads // 2
    return rows is not None and rows * mapping.threads < 2 * batch * busy


def single_wave(problem: Problem[Program], mapping: Rows) -> Rows:
    """Batches of rows with which one full wave of blocks loads all there is, if there are such.

    For a kernel of this program alone: beside others, a wave is not its own.
    """
    program, device = problem.program, problem.device
    if mapping.residence != "register" or mapping.row_scheme not in ("local", "warp"):
        return mapping
    rows, columns = program.rows_expected, constant(program.space.columns)
    places = device.multiprocessors * WAVE_THREADS
    if rows is None or columns is None or mapping.peeled or not writes_rows(program):
        return mapping
    loaded, batch = phases_of(program, mapping).first_bytes, WAVE_BATCHES[min(weights(program), 2)]
    each = WAVE_BYTES // batch // max(1, loaded)
    threads, rest = divmod(columns, max(1, each))
    # Rows wait as they were loaded: what is computed of one is gone before that of the next.
    heavy = phases_of(program, mapping).live_bytes * each > WAVE_BYTES // 2
    # Windows of a convolution do not wait, but are as many loads for each row: 66 us on an H200 for
    # a layer norm behind 3 x 3 by channels of 32 x 56 x 56 x 64, which spills.
    heavy = heavy or weights(program) > MOST_AHEAD
    if rest or each < mapping.vector or threads not in (8, 16, 32) or heavy:
        return mapping
    # With fewer rows, threads without a batch are enough.
    if not places // 2 * batch < rows * threads <= places * batch:
        return mapping
    return replace(
        mapping,
        threads=threads,
        rows=WAVE_BLOCK // threads,
        steps=each // mapping.vector,
        prefetch_weights=mapping.vector > 1 and weights(program) > 0,
        batch=batch,
        min_blocks_per_sm=WAVE_THREADS // WAVE_BLOCK,
    )


def _blocks_of_one_wave(program: Program, mapping: Rows, device: Device) -> int:
    """Blocks of a multiprocessor if all are resident at once, which the CUDA compiler must know.

    With a register more than that, the last rows wait for the first to end, and the device is
    nearly idle while it works on them. 0 where it takes more rounds anyhow.
    """
    rows = program.rows_expected
    if rows is None or rows < device.multiprocessors:
        return 0
    blocks = -(-rows // mapping.rows)
    each = -(-blocks // device.multiprocessors)
    needed = footprint(program, mapping)
    fits = needed.registers_fit(each, device) and not any(
        too_many_threads(each, needed.threads, device)
    )
    return each if fits and each * needed.threads > RESIDENT_THREADS else 0


def writes_rows(program: Program) -> bool:
    """Whether there is an output for each row and column."""
    return any(map(program.is_full, program.outputs))
