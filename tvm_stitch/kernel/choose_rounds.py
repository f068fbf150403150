"""The schedule of programs in rounds: a grid whose blocks are all resident, and each round's share.

In: Programs with their rounds, their Mappings for kernels of their own where they reduce along rows
or nothing, a Device. Out: a Schedule, or why there is none. Part of kernel/choose, the home of
legality.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_stitch.device import RESERVED_SHARED, Device
from tvm_stitch.kernel.check import STATIC_SHARED
from tvm_stitch.kernel.columns import column_bytes
from tvm_stitch.kernel.flight import loaded_bytes
from tvm_stitch.kernel.memory import residency_of
from tvm_stitch.kernel.position import band_turns
from tvm_stitch.kernel.program import Program
from tvm_stitch.kernel.room import registers, scratch_bytes
from tvm_stitch.kernel.schedule import WARP, Mapping, Schedule, power_of_two
from tvm_stitch.kernel.stage import Refused, constant
from tvm_stitch.kernel.waiting import waiting_bytes, why_not

BLOCK_THREADS = 512
MOST_RESIDENT = 4
OVERHEAD_REGISTERS = 28  # addresses, counters and scalars of a thread
MOST_REGISTERS = 128  # of a thread: fewer threads would not keep memory busy
BAND_WIDTH = 512  # bytes of a row that neighbouring threads read at least, where it is as long
ROWS_SIDE_BY_SIDE = 8  # in a block, at most: what they hold meets in shared memory
MOST_BATCH = 4  # rows that a thread of a band loads before it uses the first
SUM_BYTES = 4


def band_mapping(program: Program, vector: int) -> Mapping:
    """A block has a piece of the columns of a band, some of its rows side by side."""
    columns = constant(program.space.columns) or 1
    while columns % vector:
        vector //= 2
    rows = constant(program.space.band_rows) or 1
    side_by_side = min(power_of_two(rows), ROWS_SIDE_BY_SIDE)
    threads = max(WARP, BLOCK_THREADS // side_by_side)
    threads = min(threads, max(1, power_of_two(-(-columns // vector))))
    side_by_side = BLOCK_THREADS // threads
    batch = 1
    while batch < MOST_BATCH and rows % (2 * batch * side_by_side) == 0:
        batch *= 2
    return Mapping(
        "global", threads, side_by_side, vector, 1, recompute=True, split=True, batch=batch
    )


def in_rounds(
    programs: tuple[Program, ...], mappings: list[Mapping], device: Device
) -> Schedule | Refused:
    """Blocks of one size for all parts, as many as are resident at once."""
    parts: list[Mapping] = []
    for program, mapping in zip(programs, mappings, strict=True):
        resized = _resized(program, mapping)
        if isinstance(resized, Refused):
            return resized
        parts.append(resized)
    parts = _alike(programs, parts, device)
    resident = room_of_rounds(programs, tuple(parts), device)
    if isinstance(resident, Refused):
        return resident
    blocks = resident * device.multiprocessors
    parts = with_staying(programs, parts, resident, device)
    return Schedule(tuple(parts), blocks=blocks, resident=resident)


def _alike(programs: tuple[Program, ...], parts: list[Mapping], device: Device) -> list[Mapping]:
    """Programs in the same bands have equal mappings, so that threads find their rows again.

    Fewer rows are loaded at once where the registers of two blocks would not do.
    """
    pairs = [*zip(programs, parts, strict=True)]
    common: dict[tuple[str, ...], Mapping] = {}
    for program, mapping in pairs:
        if program.space.band is not None:
            known = common.setdefault(program.space.key, mapping)
            common[program.space.key] = min(known, mapping, key=lambda each: each.vector)
    for program in programs:
        key = program.space.key
        while key in common and common[key].batch > 1 and _is_crowded(program, common[key], device):
            common[key] = replace(common[key], batch=common[key].batch // 2)
    return [common.get(program.space.key, mapping) for program, mapping in pairs]


def _is_crowded(program: Program, mapping: Mapping, device: Device) -> bool:
    return 2 * mapping.block_threads * thread_registers(program, mapping) > device.registers


def with_staying(
    programs: tuple[Program, ...], parts: list[Mapping], resident: int, device: Device
) -> list[Mapping]:
    """As many rows of the bands as there is room for, the same share of all tensors."""
    whole = [
        replace(m, staying=m.block_rows * band_turns(p.space, m)) if p.staying else m
        for p, m in zip(programs, parts, strict=True)
    ]
    pairs = tuple(zip(programs, whole, strict=True))
    wanted = waiting_bytes(pairs, resident * device.multiprocessors)
    if not wanted or why_not(pairs) is not None:
        return parts
    most = min(device.shared_block, device.shared_total // resident - RESERVED_SHARED)
    share = min(1.0, (most - static_bytes(programs, tuple(parts))) / wanted)
    return [replace(m, staying=int(share * m.staying) // m.rows * m.rows) for m in whole]


def static_bytes(programs: tuple[Program, ...], parts: tuple[Mapping, ...]) -> int:
    """Shared memory of a block where reductions meet."""
    own = zip(programs, parts, strict=True)
    scratch = sum(scratch_bytes(len(program.along), mapping) for program, mapping in own)
    return scratch + max(map(meeting_bytes, programs, parts))


def room_of_rounds(
    programs: tuple[Program, ...], parts: tuple[Mapping, ...], device: Device, blocks: int = 1
) -> int | Refused:
    """Blocks of a grid that a multiprocessor has room for at once; all rounds are one kernel."""
    memory = static_bytes(programs, parts)
    if memory > STATIC_SHARED:
        return Refused(f"rounds of a grid need {memory} bytes of shared memory a block")
    memory += waiting_bytes(tuple(zip(programs, parts, strict=True)), blocks)
    if memory > device.shared_block:
        return Refused(f"rounds of a grid need {memory} bytes of shared memory a block")
    needed = max(map(thread_registers, programs, parts))
    if needed > MOST_REGISTERS:
        return Refused(f"rounds of a grid need {needed} registers a thread")
    threads = parts[0].block_threads
    return min(
        device.registers // (-(-needed // 8) * 8 * threads),
        device.max_threads // threads,
        device.shared_total // (memory + RESERVED_SHARED),
        MOST_RESIDENT,
    )


def _resized(program: Program, mapping: Mapping) -> Mapping | Refused:
    """The mapping in blocks of as many threads as all have."""
    if mapping.residence == "shared" or mapping.cluster > 1:
        return Refused("rows of a round wait in registers of one block")
    if mapping.tile:
        return Refused("what is read transposed comes through tiles, in a kernel of its own")
    if mapping.threads > BLOCK_THREADS:
        steps = mapping.steps * mapping.threads // BLOCK_THREADS
        mapping = replace(mapping, threads=BLOCK_THREADS, steps=steps)
    if not program.reduces and program.space.band is None:
        return replace(mapping, threads=BLOCK_THREADS, resident=0)
    return replace(mapping, rows=BLOCK_THREADS // mapping.threads, resident=0)


def thread_registers(program: Program, mapping: Mapping) -> int:
    """Registers of a thread."""
    residency = residency_of(program, mapping)
    each = mapping.vector * mapping.steps
    held = mapping.batch * loaded_bytes(program, residency) + SUM_BYTES * len(program.across)
    if program.space.band is not None:
        held += column_bytes(program)
    return max(registers(program, mapping, residency), -(-each * held // 4) + OVERHEAD_REGISTERS)


def meeting_bytes(program: Program, mapping: Mapping) -> int:
    """Shared memory where rows side by side meet; parts use it in turn."""
    if not program.across or mapping.rows == 1:
        return 0
    return mapping.vector * mapping.steps * mapping.block_threads * SUM_BYTES
