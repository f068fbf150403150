"""Legality and mapping: from a Program to the Schedule that suits its shape and the device.

In: a Program and a Device. Out: a Schedule, or why there is none. The only home of legality.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import tvm
from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.classify import is_product
from tvm_stitch.kernel.frame import Frame, Stride
from tvm_stitch.kernel.memory import Residency, item_bytes, plan_residency
from tvm_stitch.kernel.program import Program, Where
from tvm_stitch.kernel.schedule import Schedule
from tvm_stitch.kernel.stage import Refused, constant

WARP = 32
ACCESS_BYTES = 16  # the widest access of a thread
# A thread keeps at most this much of its row before more threads share the row. Measured: 32
# fp32 elements a thread reach the copy bandwidth with 8 loads in flight, fewer threads spill.
KEPT_BYTES = 128
ROW_BYTES = 128  # threads of a row read at least this much side by side
BLOCK_THREADS = 128  # short rows are packed until a block has this many threads
MAX_BLOCK_THREADS = 1024
FLAT_THREADS = 256
FLAT_BYTES = 32  # of each tensor, a thread of an element-wise kernel
OVERHEAD_REGISTERS = 28  # addresses, counters and scalars of a thread
SUPPORTED = ("float32", "float16", "bfloat16", "bool", "int8", "uint8", "int32", "int64")
SYMBOLIC_COLUMNS = 16384  # bound of a symbolic row length where the model states none


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


NO_BOUNDS = Bounds()


def choose(program: Program, device: Device, bounds: Bounds = NO_BOUNDS) -> Schedule | Refused:
    """The default schedule of a program on a device."""
    refused = _unsupported(program)
    if refused is not None:
        return refused
    if not program.reduces:
        return _flat_schedule(program)
    return _row_schedule(program, plan_residency(program), device, bounds)


def _unsupported(program: Program) -> Refused | None:
    for buffer in (*program.inputs, *program.outputs, *program.producer):
        if buffer.ty.dtype not in SUPPORTED:
            return Refused(f"{buffer.name} has dtype {buffer.ty.dtype}")
    frame = Frame(program)
    for stage in program.stages:
        if not stage.is_reduction:
            continue
        if is_product(stage):
            return Refused(f"{stage.name} is a matrix product")
        if stage.combiner in ("any", "all") and stage.output.ty.dtype != "bool":
            return Refused(f"{stage.name} combines {stage.output.ty.dtype} logically")
    for stage in program.stages:
        for read in stage.reads:
            if not program.reduces or program.place(stage, read) is not Where.OTHER:
                continue
            address = frame.address(stage, read)
            if address.stride is Stride.GATHER and not read.guarded:
                return Refused(f"{stage.name} reads {read.buffer.name} across the rows")
    return None


def vector_width(program: Program) -> int:
    """Elements of 16 bytes of the narrowest tensor that is read or written element by element."""
    sizes = [item_bytes(buffer.ty.dtype) for buffer in program.outputs if program.is_full(buffer)]
    for stage in program.stages:
        for read in stage.reads:
            if program.place(stage, read) is Where.SAME and read.buffer in program.inputs:
                sizes.append(item_bytes(read.buffer.ty.dtype))
    return ACCESS_BYTES // max(2, min(sizes, default=4))


def _flat_schedule(program: Program) -> Schedule | Refused:
    vector = vector_width(program)
    total = constant(program.space.columns)
    while total is not None and vector > 1 and total < vector * WARP:
        vector //= 2
    steps = max(1, FLAT_BYTES // ACCESS_BYTES)
    if total is not None and total < FLAT_THREADS * vector * steps:
        steps = 1
    return Schedule("local", FLAT_THREADS, 1, vector, steps, split=True)


def _row_schedule(
    program: Program, residency: Residency, device: Device, bounds: Bounds
) -> Schedule | Refused:
    columns = bounds.columns(program)
    if columns < 1:
        return Refused("rows without elements")
    vector, peeled = _vectors(program, columns)
    widest = _power_of_two(-(-columns // vector))
    kept = max(residency.live_bytes, 2)
    threads = _power_of_two(-(-columns * kept // KEPT_BYTES))
    narrowest = ROW_BYTES // (vector * min(kept, 4))
    threads = min(max(threads, narrowest, 1), widest, MAX_BLOCK_THREADS)
    threads = _fill_device(program, threads, widest, device)
    scheme = "local" if threads == 1 else "warp" if threads <= WARP else "regional"
    rows = _rows_of_block(program, threads, device)
    schedule = Schedule(scheme, threads, rows, vector, _steps(columns, threads, vector, peeled))
    schedule = replace(schedule, peeled=peeled)
    if registers(schedule, residency) <= _register_limit(schedule, device):
        return schedule
    schedule = replace(schedule, residence="shared")
    residency = residency_of(program, schedule)
    needed = shared_bytes(program, residency, schedule)
    if needed > device.shared_block:
        return Refused(
            f"a row of {columns} columns needs {needed} bytes of shared memory, "
            f"a block has {device.shared_block}"
        )
    return schedule


def _vectors(program: Program, columns: int) -> tuple[int, bool]:
    """Vector width, and whether vectors must be peeled to aligned addresses."""
    vector = vector_width(program)
    modular = tvm.sym.Analyzer().modular_set(program.space.columns)
    exact = constant(program.space.columns)
    step, rest = (modular.coeff, modular.base) if exact is None else (0, exact)
    if step % vector == 0 and rest % vector == 0:
        return vector, False
    if exact is not None and columns < vector * WARP:
        while exact % vector:
            vector //= 2
        return vector, False
    return vector, True


def _steps(columns: int, threads: int, vector: int, peeled: bool) -> int:
    reach = columns + (vector - 1 if peeled else 0)
    return -(-reach // (threads * vector))


def _fill_device(program: Program, threads: int, widest: int, device: Device) -> int:
    """More threads a row where there are too few rows to occupy the device."""
    rows = constant(program.space.rows)
    if rows is None:
        return threads
    wanted = device.multiprocessors * device.max_threads // 2
    while rows * threads < wanted and threads < min(widest, MAX_BLOCK_THREADS):
        threads *= 2
    return threads


def _rows_of_block(program: Program, threads: int, device: Device) -> int:
    rows = max(1, BLOCK_THREADS // threads)
    total = constant(program.space.rows)
    fewest = max(1, WARP // threads)
    while total is not None and rows > fewest and -(-total // rows) < 2 * device.multiprocessors:
        rows //= 2
    return rows


def residency_of(program: Program, schedule: Schedule) -> Residency:
    """What a schedule keeps. Shared memory is scarcer than registers: it holds the least."""
    return plan_residency(program, thrifty=schedule.residence == "shared")


def registers(schedule: Schedule, residency: Residency) -> int:
    """Registers of a thread: what it keeps, what is in flight, and overhead."""
    each = schedule.vector * schedule.steps
    waiting = -(-each * residency.live_bytes // 4) if schedule.residence == "register" else 0
    return waiting + 2 * schedule.vector + OVERHEAD_REGISTERS


def _register_limit(schedule: Schedule, device: Device) -> int:
    return min(255, device.registers // max(schedule.block_threads, 128) // 8 * 8)


def shared_bytes(program: Program, residency: Residency, schedule: Schedule) -> int:
    """Shared memory of a block: kept values and the scratch of block reductions."""
    kept = residency.kept_bytes * schedule.reach * schedule.rows
    warps = schedule.block_threads // WARP
    scratch = sum(8 * warps for stage in program.stages if stage.is_reduction)
    return (kept if schedule.residence == "shared" else 0) + scratch


def _power_of_two(number: int) -> int:
    """The smallest power of two that is not smaller."""
    return 1 << max(0, number - 1).bit_length()
