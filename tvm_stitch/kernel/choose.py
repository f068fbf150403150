"""Legality and mapping: from Programs to the Schedule that suits their shapes and the device.

In: the Programs of one kernel and a Device. Out: a Schedule, or why there is none. The only home of
legality.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import tvm
from tvm import tirx

from tvm_stitch.device import RESERVED_SHARED, Device
from tvm_stitch.kernel import arrive
from tvm_stitch.kernel.choose_grid import grid_mapping
from tvm_stitch.kernel.choose_product import product_mapping
from tvm_stitch.kernel.flight import batched
from tvm_stitch.kernel.frame import Frame, Stride
from tvm_stitch.kernel.memory import Residency, plan_residency
from tvm_stitch.kernel.online import in_one_pass
from tvm_stitch.kernel.product_program import ProductProgram
from tvm_stitch.kernel.program import Program, Where
from tvm_stitch.kernel.room import fits, registers, shared_bytes
from tvm_stitch.kernel.schedule import (
    MAX_BLOCK_THREADS,
    SCHEMES,
    WARP,
    Mapping,
    Schedule,
    power_of_two,
)
from tvm_stitch.kernel.stage import Refused, constant, dtype_of, item_bytes, shown
from tvm_stitch.kernel.tiling import find_tiling, tile_bytes, tile_mapping
from tvm_stitch.kernel.writer import ACCESS_BYTES

# A thread keeps at most this much of its row before more threads share the row. Measured: 32
# fp32 elements a thread reach the copy bandwidth with 8 loads in flight, fewer threads spill.
KEPT_BYTES = 128
ROW_BYTES = 128  # threads of a row read at least this much side by side
BLOCK_THREADS = 128  # short rows are packed until a block has this many threads
FLAT_THREADS = 256
# Each part of a kernel has room of its own for its tiles: many would leave few blocks resident.
TILES_BYTES = 40 * 1024
CLUSTERS = (1, 2, 4, 8, 16)
CLUSTER_CAPABILITY = 90
# Rows get more threads until this share of what a multiprocessor holds is there, which keeps its
# memory busy. At a half, 4096 rows of 768 float32 would just miss it, and with twice the threads
# run into a second round: residual + layer norm took 14.1 us instead of 11.6.
BUSY_SHARE = 0.45
# Where kept values wait, whether they are computed again instead, and bytes a thread keeps. Where
# there is a row or two for each multiprocessor, fewer threads that keep more do better: 64 x 30000
# float32 log-softmax takes 7.7 us, in shared memory 8.3, in clusters 11; group norm of 256 rows of
# 40960 float16 takes 16.0 us with 512 threads, 19.0 with 1024.
SHARED_PLACE = ("shared", True, KEPT_BYTES)
PAIR_BYTES = 64  # that a thread keeps in shared memory where two blocks share a multiprocessor
PLACES = (("register", False, KEPT_BYTES), ("register", True, KEPT_BYTES), SHARED_PLACE)
FEW_ROWS_PLACES = (PLACES[0], ("register", True, 2 * KEPT_BYTES), SHARED_PLACE)
CLUSTER_THREADS = 256  # blocks of a cluster have at least this many threads with work
MAX_CLUSTER_THREADS = 256
LONG_COLUMNS = 1 << 16  # a block alone is slow with more
# Memory comes in sectors of 32 bytes: shorter pieces than half of one waste what L2 can deliver.
PIECE_BYTES = 16
IDLE_SHARE = 1 / 16  # of the threads of a row in pieces
SUPPORTED = ("float32", "float16", "bfloat16", "bool", "int8", "uint8", "int32", "int64")
# Where the length of rows is symbolic, kernels for rows of up to so many elements; the last is for
# those that the model does not bound, and one that reads rows again in every phase takes the rest.
SHORT_COLUMNS, SYMBOLIC_COLUMNS = 1024, 16384
STREAM_THREADS = 512
ONLINE_THREADS = 256  # of rows that are read once and not kept


@dataclass(frozen=True)
class Bounds:
    """Upper bounds of symbolic dimensions by name, as Relax's tir_var_upper_bound states them."""

    of: tuple[tuple[str, int], ...] = ()

    def columns(self, program: Program) -> int:
        """The row length, or the largest that it may have."""
        exact = constant(program.space.columns)
        if exact is not None:
            return exact
        analyzer = tvm.sym.Analyzer()
        known = dict(self.of)
        for var in tirx.analysis.undefined_vars(program.space.columns):
            if var.name not in known:
                return SYMBOLIC_COLUMNS
            analyzer.bind(var, tvm.ir.Range(tirx.IntImm("int64", 0), known[var.name] + 1))
        return min(int(analyzer.const_int_bound(program.space.columns).max_value), 1 << 30)

    def know(self, program: Program) -> bool:
        """Whether the row length has a bound."""
        known = dict(self.of)
        return all(v.name in known for v in tirx.analysis.undefined_vars(program.space.columns))


NO_BOUNDS = Bounds()


def choose(
    programs: tuple[Program, ...],
    device: Device,
    bounds: Bounds = NO_BOUNDS,
    schemes: tuple[str, ...] = SCHEMES,
) -> Schedule | Refused:
    """The default schedule of a kernel of these programs on a device."""
    schedule = _choose(programs, device, bounds.columns, schemes)
    open_ended = [p for p in programs if p.reduces and constant(p.space.columns) is None]
    if isinstance(schedule, Refused) or not open_ended:
        return schedule

    def short(program: Program) -> int:
        columns = bounds.columns(program)
        return min(columns, SHORT_COLUMNS) if program in open_ended else columns

    def of_any_length(program: Program) -> int | None:
        return None if program in open_ended else bounds.columns(program)

    if not all(map(bounds.know, open_ended)):
        longer = _choose(programs, device, of_any_length, schemes)
        schedule = replace(schedule, longer=longer) if isinstance(longer, Schedule) else schedule
    if max(map(bounds.columns, open_ended)) > SHORT_COLUMNS:
        shorter = _choose(programs, device, short, schemes)
        schedule = replace(shorter, longer=schedule) if isinstance(shorter, Schedule) else schedule
    return schedule


def _choose(
    programs: tuple[Program, ...],
    device: Device,
    length: Callable[[Program], int | None],
    schemes: tuple[str, ...],
) -> Schedule | Refused:
    """The schedule for rows of up to that length; None: of any length."""
    parts: list[Mapping] = []
    for program in programs:
        mapping = unsupported(program) or _mapping(program, device, length(program), schemes)
        if isinstance(mapping, Refused):
            return mapping
        parts.append(mapping)
    schedule = Schedule(tuple(parts)) if len(parts) == 1 else side_by_side(programs, parts)
    if isinstance(schedule, Refused):
        return schedule
    off = schedule.schemes - set(schemes)
    return Refused(f"the {min(off)} scheme is switched off") if off else schedule


def side_by_side(programs: tuple[Program, ...], parts: list[Mapping]) -> Schedule | Refused:
    """Parts of one kernel have blocks of equally many threads."""
    common = max(part.block_threads for part in parts)
    equal = []
    for program, part in zip(programs, parts, strict=True):
        if part.cluster > 1 or part.blocks:
            return Refused(f"a part of the {part.scheme} scheme fills a kernel of its own")
        if isinstance(program, ProductProgram):
            return Refused("a part with matrix products fills a kernel of its own")
        if part.split:
            steps = part.steps
            if part.tile:  # larger tiles would take more shared memory
                steps = max(1, steps * part.threads // common)
            equal.append(replace(part, threads=common, steps=steps))
        elif part.block_threads == common:
            equal.append(part)
        elif constant(program.space.rows) is None or common % part.threads:
            return Refused("its parts need blocks of different sizes")
        else:
            equal.append(replace(part, rows=common // part.threads))
    needed = sum(tile_bytes(p, m) for p, m in zip(programs, equal, strict=True))
    if needed > TILES_BYTES:
        return Refused(f"its parts' tiles need {needed} bytes of shared memory")
    return Schedule(tuple(equal))


def unsupported(program: Program) -> Refused | None:
    """What no schedule can make a stitched kernel of."""
    for buffer in (*program.inputs, *program.outputs, *program.producer):
        if dtype_of(buffer) not in SUPPORTED:
            return Refused(f"{buffer.name} has dtype {dtype_of(buffer)}")
    for stage in program.stages:
        if not stage.is_reduction:
            continue
        if stage.combiner in ("any", "all") and dtype_of(stage.output) != "bool":
            return Refused(f"{stage.name} combines {dtype_of(stage.output)} logically")
    if isinstance(program, ProductProgram):
        return None
    frame = Frame(program)
    for stage in program.stages:
        for read in stage.reads:
            if not program.reduces or program.place(stage, read) is not Where.OTHER:
                continue
            address = frame.address(stage, read)
            if address.stride is Stride.GATHER and not read.guarded:
                return Refused(f"{stage.name} reads {read.buffer.name} across the rows")
    if not program.space.whole and _piece_bytes(program) < PIECE_BYTES:
        return Refused(f"rows lie in memory in pieces of {shown(program.space.run)} elements")
    return None


def _piece_bytes(program: Program) -> int:
    """Bytes of a row that lie side by side where it is in pieces; 0: not known."""
    return (constant(program.space.run) or 0) * narrowest_item(program)


def _mapping(
    program: Program, device: Device, columns: int | None, schemes: tuple[str, ...]
) -> Mapping | Refused:
    if isinstance(program, ProductProgram):
        return product_mapping(program, device)
    if not program.reduces:
        return _flat_mapping(program, device, schemes)
    if columns is None:
        return _streamed(program)
    if program.across:
        return grid_mapping(program, device, vector_width(program), columns)
    return _row_mapping(program, device, columns, schemes)


def vector_width(program: Program) -> int:
    """Elements of 16 bytes of the narrowest tensor that is read or written element by element."""
    return ACCESS_BYTES // narrowest_item(program)


def narrowest_item(program: Program) -> int:
    """Bytes of an element of that tensor, of which two are the least that a mapping minds."""
    if "narrowest item" not in program.memo:
        program.memo["narrowest item"] = _narrowest_item(program)
    return program.memo["narrowest item"]


def _narrowest_item(program: Program) -> int:
    sizes = [item_bytes(dtype_of(buffer)) for buffer in program.outputs if program.is_full(buffer)]
    for stage in program.stages:
        for read in stage.reads:
            if program.place(stage, read) is Where.SAME and read.buffer not in program.producer:
                sizes.append(item_bytes(dtype_of(read.buffer)))
    return max(2, min(sizes, default=4))


# Element-wise programs


def _flat_mapping(program: Program, device: Device, schemes: tuple[str, ...]) -> Mapping:
    """A vector of each tensor for a thread; less where that would leave the device idle.

    With two, the CUDA compiler moves the second's loads behind the work on the first. Measured on
    an H200: silu(a) * b of 8192 x 11008 bf16 takes 126.1 us with one and 127.5 with two, LSTM cell
    of 4096 x 1024 fp32 47.4 and 49.7, SGD with momentum for 14 M elements 71.3 and 74.2.
    """
    tiling = find_tiling(program)
    if tiling is not None and "regional" in schemes:
        return tile_mapping(tiling, vector_width(program))
    mapping = Mapping("local", FLAT_THREADS, 1, vector_width(program), 1, split=True)
    total = constant(program.space.columns)
    if total is None:
        return mapping
    wanted = 2 * device.multiprocessors
    while mapping.vector > 1 and -(-total // mapping.reach) < wanted:
        mapping = replace(mapping, vector=mapping.vector // 2)
    while mapping.threads > WARP and -(-total // mapping.reach) < device.multiprocessors // 2:
        mapping = replace(mapping, threads=mapping.threads // 2)
    return mapping


# Programs with rows


def _row_mapping(
    program: Program, device: Device, columns: int, schemes: tuple[str, ...]
) -> Mapping | Refused:
    """The first place that has room, in order of preference.

    A block keeps its row in registers, computing more again where that saves some, then in shared
    memory. A cluster comes next: its barriers cost more than a crowded multiprocessor, and it
    likes small blocks in shared memory, of which many fit side by side. What fits no cluster is
    read again in every phase.
    """
    if columns < 1:
        return Refused("rows without elements")
    clusters = _clusters(program, device, columns, schemes)
    few_rows = (constant(program.space.rows) or 1 << 30) <= 2 * device.multiprocessors
    refused = Refused("no cluster is large enough")
    for cluster in clusters:
        if cluster != clusters[-1] and _leaves_idle(program, columns, cluster, device):
            continue
        places = FEW_ROWS_PLACES if few_rows else PLACES
        for residence, recompute, each in places if cluster == 1 else [SHARED_PLACE]:
            one_pass = in_one_pass(program) if residence == "shared" else None
            residency = plan_residency(one_pass or program, recompute, residence)
            if one_pass is not None and not residency.kept and cluster == 1:
                return replace(_streamed(program, ONLINE_THREADS), online=True)
            mapping = _row_mapping_in(program, residency, device, columns, cluster, each)
            mapping = replace(mapping, residence=residence, recompute=recompute)
            mapping = replace(mapping, online=one_pass is not None)
            mapping = batched(program, residency, mapping, device)
            mapping = _copied(program, residency, mapping, device)
            verdict = fits(program, residency, mapping, device, last=cluster == clusters[-1])
            if verdict is None:
                return _two_at_once(program, columns, residency, mapping, device)
            refused = verdict
    rows = constant(program.space.rows)
    if rows is None or 2 * rows >= device.multiprocessors:  # fewer would leave most of it idle
        return _streamed(program)
    return refused


def _two_at_once(
    program: Program, columns: int, residency: Residency, mapping: Mapping, device: Device
) -> Mapping:
    """Rows so long that a multiprocessor has room for one block come in pairs in shared memory.

    Measured on an H200: layer norm of 32768 x 32768 bf16 takes 1098 us in pairs and 1197 in
    registers, log-softmax and gather of 4096 x 50304 take 231 in pairs, 246 if not asked for.
    """
    needed = registers(program, mapping, residency) * mapping.block_threads
    many = (constant(program.space.rows) or 1 << 30) > 2 * device.multiprocessors
    if mapping.cluster > 1 or not many or 2 * needed <= device.registers:
        return mapping
    kept = plan_residency(program, True, "shared")
    pair = _row_mapping_in(program, kept, device, columns, 1, PAIR_BYTES)
    pair = replace(pair, residence="shared", recompute=True, resident=2)
    room = 2 * (shared_bytes(program, kept, pair) + RESERVED_SHARED)
    fits_twice = 2 * pair.block_threads == device.max_threads and room <= device.shared_total
    return pair if fits_twice else mapping


def _copied(program: Program, residency: Residency, mapping: Mapping, device: Device) -> Mapping:
    """Rows of a cluster are copied into shared memory asynchronously, where they can be."""
    if mapping.cluster == 1 or device.capability < arrive.CAPABILITY:
        return mapping
    possible = arrive.why_not(program, residency, mapping) is None
    return replace(mapping, asynchronous=possible)


def _streamed(program: Program, threads: int = STREAM_THREADS) -> Mapping:
    """A block for each row, which it reads again in every phase; for rows too long to keep."""
    columns = constant(program.space.columns)
    vector, peeled = vectors_of_rows(program, columns or SYMBOLIC_COLUMNS)
    idle = idle_threads(program, threads, vector)
    steps = 0
    if columns is not None:
        reach = columns + (vector - 1 if peeled else 0)
        steps = -(-reach // ((threads - idle) * vector))
    return Mapping(
        "regional",
        threads,
        1,
        vector,
        steps,
        residence="nowhere",
        recompute=True,
        peeled=peeled,
        idle=idle,
    )


def _leaves_idle(program: Program, columns: int, cluster: int, device: Device) -> bool:
    """Whether a few blocks would work through long rows while most multiprocessors wait."""
    rows = constant(program.space.rows) or device.multiprocessors
    return columns > cluster * LONG_COLUMNS and rows * cluster * 4 <= device.multiprocessors


def _clusters(
    program: Program, device: Device, columns: int, schemes: tuple[str, ...]
) -> list[int]:
    """Cluster sizes to try: each block has work for all of its threads."""
    if device.capability < CLUSTER_CAPABILITY or "cluster" not in schemes:
        return [1]
    vector = vector_width(program)
    return [n for n in CLUSTERS if n == 1 or columns >= n * CLUSTER_THREADS * vector]


def _row_mapping_in(
    program: Program,
    residency: Residency,
    device: Device,
    columns: int,
    cluster: int,
    each: int,
) -> Mapping:
    """The mapping for a cluster size and the bytes that a thread keeps."""
    own = -(-columns // cluster)
    vector, peeled = vectors_of_rows(program, columns)
    widest = power_of_two(-(-own // vector))
    kept = max(residency.live_bytes, 2)
    threads = power_of_two(-(-own * kept // each))
    most = threads if each > KEPT_BYTES else MAX_BLOCK_THREADS
    narrowest = min(ROW_BYTES // (vector * narrowest_item(program)), WARP)
    threads = min(max(threads, narrowest), widest, MAX_BLOCK_THREADS)
    threads = _fill_device(program, threads, cluster, min(widest, most), device)
    if cluster > 1:
        threads = min(threads, MAX_CLUSTER_THREADS)
        scheme = "cluster"
    else:
        scheme = "local" if threads == 1 else "warp" if threads <= WARP else "regional"
    rows = _rows_of_block(program, threads, device) if cluster == 1 else 1
    reach = columns + (vector - 1 if peeled else 0)
    idle = idle_threads(program, threads, vector)
    steps = -(-reach // (cluster * (threads - idle) * vector))
    return Mapping(scheme, threads, rows, vector, steps, cluster, peeled=peeled, idle=idle)


def idle_threads(program: Program, threads: int, vector: int) -> int:
    """Threads that are too many for a number of whole pieces, if they are few.

    A thread's elements then lie at the same place in every piece: no divisions, the same weights.
    """
    pieces = (constant(program.space.run) or 0) // vector
    if program.space.whole or not 0 < pieces <= threads:
        return 0
    idle = threads % pieces
    return idle if idle <= threads * IDLE_SHARE else 0


def vectors_of_rows(program: Program, columns: int) -> tuple[int, bool]:
    """Vector width, and whether vectors must be peeled to aligned addresses."""
    vector = vector_width(program)
    space = program.space
    if not space.whole:
        run = constant(space.run) or 1
        while run % vector:
            vector //= 2
        return vector, False
    modular = tvm.sym.Analyzer().modular_set(space.columns)
    exact = constant(space.columns)
    step, rest = (modular.coeff, modular.base) if exact is None else (0, exact)
    if step % vector == 0 and rest % vector == 0:
        return vector, False
    if exact is not None and columns < vector * WARP:
        while exact % vector:
            vector //= 2
        return vector, False
    return vector, True


def _fill_device(program: Program, threads: int, cluster: int, widest: int, device: Device) -> int:
    """More threads a row where there are too few rows to occupy the device."""
    rows = constant(program.space.rows)
    if rows is None:
        return threads
    wanted = device.multiprocessors * device.max_threads * BUSY_SHARE
    while rows * cluster * threads < wanted and threads < min(widest, MAX_BLOCK_THREADS):
        threads *= 2
    return threads


def _rows_of_block(program: Program, threads: int, device: Device) -> int:
    rows = max(1, BLOCK_THREADS // threads)
    total = constant(program.space.rows)
    fewest = max(1, WARP // threads)
    while total is not None and rows > fewest and -(-total // rows) < 2 * device.multiprocessors:
        rows //= 2
    return rows
