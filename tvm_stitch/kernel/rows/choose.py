"""The mapping of a program with rows: threads, blocks and clusters of a row, and where it waits.

In: one Program that reduces along its rows, their length and the Device. Out: Mappings, the best
first. What is legal of them rows/legal says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.addressing import weights
from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of, plan_phases
from tvm_stitch.kernel.analysis.kind import ALONE, IN_ROUNDS, Problem
from tvm_stitch.kernel.analysis.online_reduction import apply_online, in_one_pass
from tvm_stitch.kernel.analysis.windows import reads_windows
from tvm_stitch.kernel.codegen.footprint import (
    SPARE_REGISTERS,
    registers_left,
    thread_registers,
)
from tvm_stitch.kernel.ir.instructions import computes_in_branches
from tvm_stitch.kernel.ir.mapping import MAX_BLOCK_THREADS, WARP, Mapping, Rows, power_of_two
from tvm_stitch.kernel.ir.phases import Phases
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows import async_copy, row_batching
from tvm_stitch.kernel.rows.footprint import footprint
from tvm_stitch.kernel.rows.legal import CLUSTERS, has_clusters, illegal_rows
from tvm_stitch.kernel.rows.row_batching import batched, rows_of_block, single_wave
from tvm_stitch.kernel.rows.vector_width import narrowest_item, vector_width, vectors_of_rows
from tvm_stitch.stages.stage import constant

# A thread keeps at most this much of its row before more threads share the row. Measured: 32
# fp32 elements a thread reach the copy bandwidth with 8 loads in flight, fewer threads spill.
KEPT_BYTES = 128
# Of a row of two KB less, as measured on 32768 rows of 1024 bf16 with 64 threads instead of 16:
# RMS norm 34.1 us (35.3), layer norm 34.4 (34.9), softmax 33.3 (33.5), cross entropy 22.4 (22.8).
SHORT_ROW_BYTES, SHORT_KEPT_BYTES = 1 << 11, 32
ROW_BYTES = 128  # threads of a row read at least this much side by side
# Of a chunk, where rows are, or may be, too long to wait in registers; what a thread keeps of it.
# 8192 x 30000 float32 takes 503 us by chunks (a copy 462), 717 without the next on its way.
CHUNK_COLUMNS, OPEN_CHUNK_COLUMNS, CHUNK_BYTES, WAITING_COLUMNS = 4096, 1024, 64, 1 << 14
# Shared memory that a row may take in a block, by the blocks of its cluster. H200, rows are copied
# asynchronously: RMS norm of 65536 bf16 columns runs in 1027 us with 4 blocks, 1034 with 2; of
# 131072 in 1050 with 8 and 1073 with 4.
_KB = 1024
SHARED_BYTES = {1: 120 * _KB, 2: 54 * _KB, 4: 36 * _KB, 8: 112 * _KB, 16: 1024 * _KB}
# With two weights, fewer blocks of more threads are better (WEIGHTED_COLUMNS), if rows are enough.
WEIGHTED_SHARED_BYTES = {**SHARED_BYTES, 2: 72 * _KB, 4: 72 * _KB}
# Rows get more threads until this share of what a multiprocessor holds is there. At a half, 4096
# rows of 768 float32 just missed it: residual + layer norm took 14.1 us in two rounds, now 11.6.
BUSY_SHARE = 0.45
# Where kept values wait, whether they are computed again, and bytes a thread keeps. With a row or
# two a multiprocessor, fewer threads that keep more do better: log-softmax of 64 x 30000 float32
# takes 7.7 us, in shared memory 8.3; group norm of 256 x 40960 halves 16, with 1024 threads 19.
SHARED_PLACE = ("shared", True, KEPT_BYTES)
# Rows of a warp or less cannot wait in shared memory. Where there are too many elements for
# registers, as where only run time knows which exist, more threads share a row. Not measured.
CROWDED_PLACE = ("register", True, KEPT_BYTES // 4)
PAIR_BYTES = 64  # that a thread keeps in shared memory where two blocks share a multiprocessor
PLACES = (("register", False, KEPT_BYTES), ("register", True, KEPT_BYTES), SHARED_PLACE)
FEW_ROWS_PLACES = (PLACES[0], ("register", True, 2 * KEPT_BYTES), SHARED_PLACE)
CLUSTER_THREADS = 256  # blocks of a cluster have at least this many threads with work
# Each with room for its copies: softmax of 4096 x 262144 bf16 takes 1022 us, 1054 with 512.
MAX_CLUSTER_THREADS = 256
# With two weights a long piece of a row is better in more hands: layer norm of 16384 x 65536 bf16
# takes 1081 us with 2 blocks of 512 threads and 1138 with 2 of 256.
WEIGHTED_CLUSTER_THREADS, WEIGHTED_COLUMNS = 512, 1 << 15
LONG_COLUMNS = 1 << 12  # softmax of 4 x 32768 float32 takes 2.6 us in clusters, 5.6 in four blocks
IDLE_SHARE = 1 / 16  # of the threads of a row in pieces
STREAM_THREADS = 512
# Told that so many threads are enough on a multiprocessor, the CUDA compiler asks for the weights
# of several vectors before it uses the first: layer norm of 32768 x 32768 bf16 takes 1050 us for
# 1024 threads, 1067 for 768 and 1084 not told.
RESIDENT_THREADS = (0, 768, 1024)  # for no weights, one, two or more
# Of rows read once: cross entropy of 16384 x 65536 bf16 takes 480 us, with 512 threads 490.
ONLINE_THREADS = 256


def row_mappings(problem: Problem[Program]) -> Iterator[Rows]:
    """What suits the rows in a kernel like the problem's."""
    program, context = problem.program, problem.context
    for mapping in _mappings(problem):
        if context.place == ALONE:
            yield from dict.fromkeys((single_wave(problem, mapping), mapping))
        elif context.place == IN_ROUNDS:
            yield in_round(program, mapping, context.threads)
        elif context.threads in (0, mapping.block_threads):
            yield mapping
        else:
            yield from _with_more_rows(program, mapping, context.threads)


def _mappings(problem: Problem[Program]) -> Iterator[Rows]:
    """The first place that has room, in order of preference.

    A block keeps its row in registers, computing more again where that saves some, then in shared
    memory. Where a multiprocessor has room for one such block only, a cluster whose rows are copied
    asynchronously is better. What fits no cluster is read again in every phase; so is what need not
    be kept at all.
    """
    program, device, columns = problem.program, problem.device, problem.columns
    if program.scans:
        yield from _scanned(program, device, columns)
        return
    if columns < 1:
        yield streamed(program)
        return
    pairs = None
    for mapping in _places(problem):
        found = _two_at_once(problem, mapping)
        waits_well = pairs is None or mapping.asynchronous or mapping.residence == "nowhere"
        if found is None and waits_well:
            yield mapping
        elif pairs is None and next(illegal_rows(problem, mapping), None) is None:
            pairs = found
    if pairs is not None:
        yield pairs
    rows = program.rows_expected
    if rows is None or 2 * rows >= device.multiprocessors:  # fewer would leave most of it idle
        yield streamed(program)


def _scanned(program: Program, device: Device, columns: int) -> Iterator[Rows]:
    """What accumulates waits in registers of one block, whole or chunk by chunk."""
    whole = [_placed(program, device, columns, 1, place) for place in PLACES[:2] if columns > 0]
    places = (("register", again, CHUNK_BYTES) for again in (False, True))
    chunks = [_placed(program, device, _chunk(program), 1, place) for place in places]
    chunks = [in_chunks(program, replace(m, batch=1, prefetch_weights=False)) for m in chunks]
    most = WAITING_COLUMNS if constant(program.space.columns) else CHUNK_COLUMNS
    yield from (*whole, *chunks) if columns <= most else (*chunks, *whole)


def in_chunks(program: Program, mapping: Rows) -> Rows:
    """These threads, which take a row chunk by chunk."""
    steps = steps_of(mapping, _chunk(program))
    return replace(mapping, steps=steps, chunked=True, prefetch_next_row=True)


def _chunk(program: Program) -> int:
    return CHUNK_COLUMNS if constant(program.space.columns) else OPEN_CHUNK_COLUMNS


def _places(problem: Problem[Program]) -> Iterator[Rows]:
    """Where rows of a known length may wait, by the blocks that share one."""
    program, device, columns = problem.program, problem.device, problem.columns
    clusters = _clusters(problem)
    many_rows = has_many_rows(program, device)
    for cluster in clusters:
        last = cluster == clusters[-1]
        if not last and _leaves_idle(program, columns, cluster, device):
            continue
        places = PLACES if many_rows else FEW_ROWS_PLACES
        for place in places if cluster == 1 else [SHARED_PLACE]:
            mapping = _placed(program, device, columns, cluster, place)
            if mapping.online and cluster == 1 and not phases_of(program, mapping).kept:
                yield replace(streamed(program, ONLINE_THREADS), online=True)
            elif last or not _fills_blocks(program, mapping, device):
                yield mapping


def _fills_blocks(program: Program, mapping: Rows, device: Device) -> bool:
    """Whether rows take so much shared memory that larger clusters do better."""
    weighted = has_many_rows(program, device) and weights(program) > 1
    most = WEIGHTED_SHARED_BYTES if weighted else SHARED_BYTES
    waits = mapping.residence == "shared"
    return waits and footprint(program, mapping).shared > most[mapping.cluster]


def has_many_rows(program: Program, device: Device) -> bool:
    """Whether there are more than a row or two for each multiprocessor."""
    rows = program.rows_expected
    return not rows or rows > 2 * device.multiprocessors


def _placed(
    program: Program, device: Device, columns: int, cluster: int, place: tuple[str, bool, int]
) -> Rows:
    """The mapping for a cluster size and a place to wait."""
    residence, recompute, each = place
    one_pass = in_one_pass(program) if residence == "shared" else None
    phases = plan_phases(one_pass or program, recompute, residence)
    mapping = _row_mapping_in(phases, program, device, columns, cluster, each)
    if residence == "shared" and mapping.threads <= WARP:
        return _placed(program, device, columns, cluster, CROWDED_PLACE)
    mapping = replace(
        mapping, residence=residence, recompute=recompute, online=one_pass is not None
    )
    mapping = batched(program, mapping, device)
    return _online_variance(program, _copied(program, mapping, device))


def _online_variance(program: Program, mapping: Rows) -> Rows:
    """A variance in one pass with its mean, where threads see their first values beforehand."""
    one_pass = replace(mapping, online=True)
    return one_pass if apply_online(program, one_pass).variance_of else mapping


def _two_at_once(problem: Problem[Program], mapping: Rows) -> Rows | None:
    """Rows for which a multiprocessor has room for one block only come in pairs in shared memory.

    None: there is room for more, there are too few rows, or they wait for a grid, in registers.
    Measured on an H200: layer norm of 32768 x 32768 bf16 takes 1090 us in pairs and 1197 in
    registers, log-softmax and gather of 4096 x 50304 take 231 in pairs, 246 if not asked for. Where
    nothing waits, fewer threads go along the row: the gradient of 2048 x 50257 logits in pairs took
    478, 97 by bandwidth, for each of 1024 threads spilled 480 bytes.
    """
    program, device = problem.program, problem.device
    two_fit = footprint(program, mapping).registers_fit(2, device)
    if mapping.cluster > 1 or not has_many_rows(program, device) or two_fit:
        return None
    if problem.context.place == IN_ROUNDS:
        return None
    phases = plan_phases(program, True, "shared")
    if not phases.kept:
        return streamed(program)
    pair = _row_mapping_in(phases, program, device, problem.columns, 1, PAIR_BYTES)
    if 2 * pair.block_threads != device.max_threads:
        return None
    return replace(pair, residence="shared", recompute=True, min_blocks_per_sm=2)


def _copied(program: Program, mapping: Rows, device: Device) -> Rows:
    """Rows of a cluster are copied into shared memory asynchronously, where they can be."""
    if mapping.cluster == 1 or device.capability < async_copy.CAPABILITY:
        return mapping
    possible = async_copy.why_not(program, mapping) is None
    if not possible and mapping.threads == MAX_CLUSTER_THREADS:
        mapping = _wider(mapping)
    told = RESIDENT_THREADS[min(weights(program), 2)]
    return replace(mapping, asynchronous=possible, min_blocks_per_sm=-(-told // mapping.threads))


def _wider(mapping: Rows) -> Rows:
    """Twice the threads of rows that arrive through registers: more is on its way at once.

    64 rows of 401408 float32 in 16 blocks, centred: 71.3 us with 512 threads, 78.2 with 256.
    """
    return replace(mapping, threads=2 * mapping.threads, steps=-(-mapping.steps // 2))


def streamed(program: Program, threads: int = STREAM_THREADS) -> Rows:
    """A block for each row, which it reads again in every phase; for rows too long to keep."""
    columns = constant(program.space.columns)
    vector, peeled = vectors_of_rows(program, columns or 0)
    idle = idle_threads(program, threads, vector)
    own = Rows(threads, 1, vector, 0, peeled=peeled, idle=idle)
    own = replace(own, residence="nowhere", recompute=True)
    return own if columns is None else replace(own, steps=steps_of(own, columns))


def steps_of(mapping: Mapping, columns: int) -> int:
    """Steps in which a row is covered."""
    reach = columns + (mapping.vector - 1 if mapping.peeled else 0)
    return max(1, -(-reach // (mapping.cluster * mapping.working * mapping.vector)))


def _leaves_idle(program: Program, columns: int, cluster: int, device: Device) -> bool:
    """Whether a few blocks would work through long rows while most multiprocessors wait.

    Rows that begin anywhere come through registers: of 33 rows of 9001, clusters are 15 % slower.
    """
    is_short = columns < 16 * LONG_COLUMNS
    least = 2 if is_short and vectors_of_rows(program, columns)[1] else 1
    blocks = (program.rows_expected or device.multiprocessors) * cluster * least
    return (
        columns >= max(cluster, 2) * LONG_COLUMNS * least and 4 * blocks <= device.multiprocessors
    )


def _clusters(problem: Problem[Program]) -> list[int]:
    """Cluster sizes to try: each block has work for all of its threads."""
    possible = has_clusters(problem.device) and "cluster" in problem.schemes
    if not possible or problem.context.place != ALONE:
        return [1]
    least = CLUSTER_THREADS * vector_width(problem.program)
    return [n for n in CLUSTERS if n == 1 or problem.columns >= n * least]


def _row_mapping_in(
    phases: Phases, program: Program, device: Device, columns: int, cluster: int, each: int
) -> Rows:
    """The mapping for a cluster size and the bytes that a thread keeps."""
    own = -(-columns // cluster)
    vector, peeled = vectors_of_rows(program, columns)
    widest = power_of_two(-(-own // vector))
    kept = max(phases.live_bytes, 2)
    item = narrowest_item(program)
    if own * item == SHORT_ROW_BYTES:
        each = min(each, SHORT_KEPT_BYTES * kept // item)
    threads = power_of_two(-(-own * kept // each))
    most = threads if each > KEPT_BYTES else MAX_BLOCK_THREADS
    narrowest = min(ROW_BYTES // (vector * item), WARP)
    if vector == 1 and program.space.whole:
        narrowest = row_batching.threads_of_scalars(program, own)
    # Of windows, what is side by side are those of other threads.
    if reads_windows(program) or (threads == 1 and computes_in_branches(program)):
        narrowest, most = 1, threads
    threads = min(max(threads, narrowest), widest, MAX_BLOCK_THREADS)
    threads = _fill_device(program, threads, cluster, min(widest, most), device)
    if cluster > 1:
        weighted = own >= WEIGHTED_COLUMNS and weights(program) > 1
        threads = min(threads, WEIGHTED_CLUSTER_THREADS if weighted else MAX_CLUSTER_THREADS)
    rows = rows_of_block(program, threads, device) if cluster == 1 else 1
    idle = idle_threads(program, threads, vector)
    found = Rows(threads, rows, vector, 1, cluster, peeled=peeled, idle=idle)
    return replace(found, steps=steps_of(found, columns))


def idle_threads(program: Program, threads: int, vector: int) -> int:
    """Threads that are too many for a number of whole pieces, if they are few.

    A thread's elements then lie at the same place in every piece: no divisions, the same weights.
    """
    pieces = (constant(program.space.run) or 0) // vector
    if program.space.whole or not 0 < pieces <= threads:
        return 0
    idle = threads % pieces
    return idle if idle <= threads * IDLE_SHARE else 0


def _fill_device(program: Program, threads: int, cluster: int, widest: int, device: Device) -> int:
    """More threads a row where there are too few rows to occupy the device."""
    rows = program.rows_expected
    if rows is None:
        return threads
    wanted = device.multiprocessors * device.max_threads * BUSY_SHARE
    while rows * cluster * threads < wanted and threads < min(widest, MAX_BLOCK_THREADS):
        threads *= 2
    return threads


def _with_more_rows(program: Program, mapping: Rows, threads: int) -> Iterator[Rows]:
    """In blocks of so many threads; without batches and with more threads a row, if registers of
    larger blocks ask for it, which leave fewer to each of their threads."""
    if threads % mapping.threads:
        yield mapping  # not legal there, which says why
        return
    resident = mapping.min_blocks_per_sm * mapping.block_threads // threads  # as many threads
    mapping = replace(mapping, rows=threads // mapping.threads, min_blocks_per_sm=resident)
    yield mapping
    plain = replace(mapping, batch=1, prefetch_weights=False)
    yield _in_more_hands(program, plain, registers_left(threads), _kept)


def in_round(program: Program, mapping: Rows, threads: int) -> Rows:
    """With as many rows a block as it has room for, or fewer threads a row.

    Two blocks fit on a multiprocessor: one computes while the other waits for memory.
    """
    divides = threads & -threads  # the largest power of two that does
    each = min(mapping.threads, threads) if divides == threads else divides
    idle = idle_threads(program, each, mapping.vector) if mapping.idle else 0
    own = replace(mapping, threads=each, rows=threads // each, idle=idle, min_blocks_per_sm=0)
    steps = mapping.steps and steps_of(own, constant(program.space.columns) or mapping.capacity)
    return _in_more_hands(program, replace(own, steps=steps), registers_left(2 * threads), _at_once)


def _kept(program: Program, mapping: Rows) -> int:
    """Registers of a thread that keeps its share of a row."""
    return footprint(program, mapping).registers


def _at_once(program: Program, mapping: Rows) -> int:
    """Registers of a thread all of whose loads are on their way before it uses the first."""
    loaded = mapping.elements * phases_of(program, mapping).first_bytes
    return max(_kept(program, mapping), thread_registers(loaded, 0) + SPARE_REGISTERS)


def _in_more_hands(
    program: Program, mapping: Rows, most: int, needed: Callable[[Program, Rows], int]
) -> Rows:
    """With more threads a row while registers are too few; a block stays as large as it is."""
    while mapping.rows % 2 == 0 and needed(program, mapping) > most:
        own, rows, steps = 2 * mapping.threads, mapping.rows // 2, -(-mapping.steps // 2)
        mapping = replace(mapping, threads=own, rows=rows, steps=steps, beside=False)
    return mapping


def balance_registers(mappings: Sequence[Rows]) -> list[Rows]:
    """Rows of a part whose threads have more elements than another's get more threads.

    Parts that go through the same input co-scheduled have rows, all of them.

    The registers of a kernel are those of its widest part, and leave room for few blocks: mean
    squares of rows of 2048 float32 beside maxima of groups of 64 take 30.4 us with 32 threads a
    row, which keep 127 registers, and 24.5 with 128, which keep 40.
    """
    least = min(mapping.elements for mapping in mappings)
    return [_spread(mapping, least) for mapping in mappings]


def _spread(mapping: Rows, least: int) -> Rows:
    while mapping.rows > 1 and mapping.steps % 2 == 0 and mapping.elements > least:
        threads, rows, steps = 2 * mapping.threads, mapping.rows // 2, mapping.steps // 2
        mapping = replace(
            mapping, threads=threads, rows=rows, steps=steps, min_blocks_per_sm=0, beside=False
        )
    return mapping
