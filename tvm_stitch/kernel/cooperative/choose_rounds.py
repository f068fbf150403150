"""The schedule of programs in rounds: a grid whose blocks are all resident, and each round's share.

In: Programs with their rounds, their Mappings for kernels of their own where they reduce along rows
or nothing, a Device. Out: a Schedule, or why there is none. Part of kernel/choose, the home of
legality.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_stitch.device import RESERVED_SHARED, Device
from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.analysis.kind import Problem
from tvm_stitch.kernel.codegen.footprint import (
    SPARE_REGISTERS,
    STATIC_SHARED,
    SUM_BYTES,
    Footprint,
    scratch_bytes,
    thread_registers,
)
from tvm_stitch.kernel.codegen.thread_indexing import blocks_of, piece_of, row_segment_iterations
from tvm_stitch.kernel.cooperative.hoisted_loads import column_bytes
from tvm_stitch.kernel.cooperative.persistent_shared import (
    loads_inputs_separately,
    waiting_bytes,
    why_not,
)
from tvm_stitch.kernel.ir.mapping import WARP, Flat, Mapping, Rows, RowSegment, power_of_two
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.rows.footprint import registers
from tvm_stitch.kernel.rows.vector_width import vector_width
from tvm_stitch.stages.stage import Refused, constant, element_bytes

BLOCK_THREADS = 512
MOST_RESIDENT = 4
MOST_REGISTERS = 128  # of a thread: fewer threads would not keep memory busy
SHARE_THREADS = 8  # neighbours that read a whole line of memory
MOST_BATCH = 4  # rows that a thread of a segment loads before it uses the first

InRounds = Flat | Rows | RowSegment


def row_segment_mapping(problem: Problem[Program]) -> RowSegment:
    """A block has a piece of the columns of a segment, some of its rows side by side."""
    program, vector = problem.program, vector_width(problem.program)
    columns = constant(program.space.columns) or 1
    while columns % vector:
        vector //= 2
    rows = constant(program.space.segment_rows) or 1
    threads = min(BLOCK_THREADS, power_of_two(-(-columns // vector)))
    # Shares of all segments are few: what matters is that all of a column are loaded at once.
    narrowest = SHARE_THREADS if constant(program.space.row_segments) == 1 else WARP
    least = max(narrowest, BLOCK_THREADS // power_of_two(rows))
    while threads > least and columns % (threads // 2 * vector) == 0:
        threads //= 2
    side_by_side = BLOCK_THREADS // threads
    batch = 1
    while batch < MOST_BATCH and rows % (2 * batch * side_by_side) == 0:
        batch *= 2
    return RowSegment(threads, side_by_side, vector, 1, batch)


def in_rounds(
    programs: tuple[Program, ...], mappings: list[Mapping], device: Device
) -> Schedule | Refused:
    """Blocks of one size for all parts, as many as are resident at once."""
    parts: list[InRounds] = []
    for resized in map(_resized, mappings):
        if isinstance(resized, Refused):
            return resized
        parts.append(resized)
    parts = _alike(programs, parts, device)
    resident = room_of_rounds(programs, tuple(parts), device)
    if isinstance(resident, Refused):
        return resident
    blocks = resident * device.multiprocessors
    parts = with_persistent_rows(programs, parts, resident, device)
    return Schedule(tuple(parts), blocks=blocks, min_blocks_per_sm=resident)


def _alike(programs: tuple[Program, ...], parts: list[InRounds], device: Device) -> list[InRounds]:
    """Programs in the same rows have equal mappings, so that threads find theirs again.

    Fewer rows are loaded at once where the registers of two blocks would not do.
    """
    pairs = [*zip(programs, parts, strict=True)]
    common: dict[tuple[str, ...], Rows | RowSegment] = {}
    for program, mapping in pairs:
        key = program.space.key
        if isinstance(mapping, RowSegment):
            common[key] = min(common.get(key, mapping), mapping, key=lambda each: each.vector)
        elif (
            isinstance(mapping, Rows)
            and program.persistent_inputs
            and (program.reduces or key not in common)
        ):
            common[key] = mapping
    for program in programs:
        key = program.space.key
        while key in common and common[key].batch > 1 and _is_crowded(program, common[key], device):
            common[key] = replace(common[key], batch=common[key].batch // 2)
    own = [p.space.row_segment is not None or bool(p.persistent_inputs) for p in programs]
    return [common[p.space.key] if o else m for o, (p, m) in zip(own, pairs, strict=True)]


def _is_crowded(program: Program, mapping: Mapping, device: Device) -> bool:
    return 2 * mapping.block_threads * round_registers(program, mapping) > device.registers


def with_persistent_rows(
    programs: tuple[Program, ...], parts: list[InRounds], resident: int, device: Device
) -> list[InRounds]:
    """As many rows as there is room for: the same share of all segments, else first whole rows."""
    most = min(device.shared_block, device.shared_total // resident - RESERVED_SHARED)
    room = most - static_bytes(programs, tuple(parts))
    pairs = [*zip(programs, parts, strict=True)]
    blocks = resident * device.multiprocessors
    whole = [
        replace(m, persistent_rows=m.block_rows * row_segment_iterations(p.space, m))
        if p.persistent_inputs and isinstance(m, RowSegment)
        else m
        for p, m in pairs
    ]
    wanted = waiting_bytes(tuple(zip(programs, whole, strict=True)), blocks)
    if wanted:
        share = min(1.0, room / wanted)
        found = [
            replace(m, persistent_rows=int(share * m.persistent_rows) // m.rows * m.rows)
            if isinstance(m, RowSegment)
            else m
            for m in whole
        ]
    else:
        found = _with_whole_rows(programs, parts, room, blocks)
    return parts if why_not(tuple(zip(programs, found, strict=True))) is not None else found


def _with_whole_rows(
    programs: tuple[Program, ...], parts: list[InRounds], room: int, blocks: int
) -> list[InRounds]:
    """The rows of the first turns of a grid wait."""
    pairs = [*zip(programs, parts, strict=True)]
    staying = [(p, m) for p, m in pairs if p.persistent_inputs]
    each = [m.block_rows * piece_of(p.space, m) * _widest(p) for p, m in staying]
    left = dict.fromkeys((p.round for p in programs), blocks * (room // max(each, default=1)))
    found = []
    for program, mapping in pairs:
        if program.persistent_inputs and isinstance(mapping, Rows):
            own = min(blocks_of(program.space, mapping), left[program.round])
            left[program.round] -= own
            rows = min(own * mapping.block_rows, constant(program.space.rows) or 0)
            mapping = replace(mapping, persistent_rows=rows)
        found.append(mapping)
    return found


def _widest(program: Program) -> int:
    return max(element_bytes(buffer) for buffer in program.persistent_inputs)


def static_bytes(programs: tuple[Program, ...], parts: tuple[Mapping, ...]) -> int:
    """Shared memory of a block where reductions meet."""
    own = zip(programs, parts, strict=True)
    scratch = sum(scratch_bytes(len(program.row_reductions), mapping) for program, mapping in own)
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
    needed = Footprint(parts[0].block_threads, max(map(round_registers, programs, parts)), memory)
    if needed.registers > MOST_REGISTERS:
        return Refused(f"rounds of a grid need {needed.registers} registers a thread")
    return min(needed.blocks_per_sm(device), MOST_RESIDENT)


def _resized(mapping: Mapping) -> InRounds | Refused:
    """The mapping in blocks of as many threads as all have."""
    if isinstance(mapping, RowSegment):
        return mapping
    if not isinstance(mapping, (Flat, Rows)):
        return Refused("sums over all rows meet at a barrier of their own")
    if mapping.residence == "shared" or mapping.cluster > 1:
        return Refused("rows of a round wait in registers of one block")
    if mapping.tile:
        return Refused("what is read transposed comes through tiles, in a kernel of its own")
    if mapping.threads > BLOCK_THREADS:
        steps = mapping.steps * mapping.threads // BLOCK_THREADS
        mapping = replace(mapping, threads=BLOCK_THREADS, steps=steps)
    if isinstance(mapping, Flat):
        return replace(mapping, threads=BLOCK_THREADS, min_blocks_per_sm=0)
    return replace(mapping, rows=BLOCK_THREADS // mapping.threads, min_blocks_per_sm=0)


def round_footprint(program: Program, mapping: Mapping) -> Footprint:
    """What a block takes for one part; rows wait beside that."""
    shared = scratch_bytes(len(program.row_reductions), mapping) + meeting_bytes(program, mapping)
    return Footprint(mapping.block_threads, round_registers(program, mapping), shared)


def round_registers(program: Program, mapping: Mapping) -> int:
    """Registers of a thread."""
    each = mapping.vector * mapping.steps
    held = mapping.batch * phases_of(program, mapping).first_bytes
    held += SUM_BYTES * len(program.column_reductions)
    if program.space.row_segment is not None:
        held += column_bytes(program)
    if loads_inputs_separately(program):
        whole = sum(element_bytes(buffer) for buffer in program.persistent_inputs)
        held = whole + -(-(held - whole) // mapping.steps)
    loading = thread_registers(each * held, 0) + SPARE_REGISTERS
    return max(registers(program, mapping), loading)


def meeting_bytes(program: Program, mapping: Mapping) -> int:
    """Shared memory where rows side by side meet; parts use it in turn."""
    if not program.column_reductions or mapping.rows == 1:
        return 0
    return mapping.vector * mapping.steps * mapping.block_threads * SUM_BYTES
