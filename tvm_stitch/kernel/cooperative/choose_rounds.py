"""The schedule of programs in rounds: a grid whose blocks are all resident, and each round's share.

In: Programs with their rounds, their Mappings for kernels of their own where they reduce along rows
or nothing, a Device. Out: a Schedule, or why there is none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.kind import Problem
from tvm_stitch.kernel.codegen.footprint import (
    STATIC_SHARED,
    dynamic_left,
    registers_left,
    shared_left,
    too_much_shared,
)
from tvm_stitch.kernel.codegen.thread_indexing import blocks_of, iterations_of_segment, piece_of
from tvm_stitch.kernel.cooperative.footprint import (
    Parts,
    round_footprint,
    rounds_footprint,
    static_bytes,
    waiting_bytes,
    why_not,
)
from tvm_stitch.kernel.cooperative.rounds import CROSSING
from tvm_stitch.kernel.ir.mapping import WARP, Mapping, RowSegment, power_of_two
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.rows.choose import steps_of
from tvm_stitch.kernel.rows.vector_width import vector_width, vectors_of_rows
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.stage import Refused, constant, element_bytes

ROUND_THREADS = 512  # of a block, at most
FEWEST_THREADS = 448  # of one that is cut so that none of them is idle
MOST_RESIDENT = 4
MOST_REGISTERS = 128  # of a thread: fewer threads would not keep memory busy
SHARE_THREADS = 8  # neighbours that read a whole line of memory
SECTOR_VECTORS = 4  # of a piece of a row, or a multiple of them
FEWEST_PARTIALS = 16  # of a column, side by side
VECTORS = 2  # of a row that is reduced, as where it is summed over in a kernel of its own
MOST_BATCH = 4  # rows that a thread of a segment loads before it uses the first
ALONE_BATCH = 2  # the same where registers are left for one block: more is code without end
# Of a row that a warp reduces, for each lane: more would take the registers of other blocks.
LANE_ELEMENTS, LANE_VECTORS = 16, 8
MANY_ROWS = 1024  # of a segment of which nobody says how many it has


def round_threads(programs: Sequence[Program]) -> int:
    """Threads of a block for all of these rounds: as many as leave none of them idle.

    Channels are rarely a power of two: of 144 halves, 32 threads a row would have 18 vectors. Where
    there are short rows as well, such as partials of groups, a warp has one of these.
    """
    in_segments = [program for program in programs if program.space.row_segment is not None]
    others = [program for program in programs if program.space.row_segment is None]
    largest = max(map(_size, programs))
    if not all(_suits_warps(program, largest) for program in others):
        return ROUND_THREADS
    if any(program.row_reductions for program in in_segments):
        return ROUND_THREADS
    shares = [_share(program) for program in in_segments]
    whole_warps = any(program.row_reductions for program in others)
    for threads in range(ROUND_THREADS, FEWEST_THREADS - 1, -WARP if whole_warps else -1):
        if all(_busy_threads(*share, threads) for share in shares):
            return threads
    return ROUND_THREADS


def _suits_warps(program: Program, largest: int) -> bool:
    """Whether rows are few and short enough for a warp each."""
    columns = constant(program.space.columns)
    if columns is None or _size(program) > CROSSING * largest:
        return False
    vector, _ = vectors_of_rows(program, columns)
    return columns <= WARP * min(LANE_ELEMENTS, LANE_VECTORS * vector)


def _size(program: Program) -> int:
    return NOMINAL.size(program.space.size)


def row_segment_mapping(problem: Problem[Program]) -> RowSegment:
    """A block has a piece of the columns of a segment, some of its rows side by side."""
    program, block = problem.program, problem.context.threads
    columns, vector = _vectors(program)
    rows = _rows_expected(program)
    if program.row_reductions:
        return _whole_rows(columns, vector, rows)
    idle = min(ROUND_THREADS, power_of_two(columns // vector))
    threads = _busy_threads(*_share(program), block) or idle
    side_by_side = block // threads
    batch = 1
    while batch < MOST_BATCH and rows >= 2 * batch * side_by_side:
        batch *= 2
    return RowSegment(threads, side_by_side, vector, 1, batch)


def _vectors(program: Program) -> tuple[int, int]:
    """Elements of a row, and how many of them are a vector."""
    columns, vector = constant(program.space.columns) or 1, vector_width(program)
    while columns % vector:
        vector //= 2
    return columns, vector


def _share(program: Program) -> tuple[int, int, int]:
    """Vectors of a row, how many of them a piece has at least, and rows of a segment, about.

    Partials of all segments are few: what matters is that all of a column are loaded at once.
    """
    columns, vector = _vectors(program)
    narrowest = SHARE_THREADS if constant(program.space.row_segments) == 1 else WARP
    return columns // vector, narrowest, power_of_two(_rows_expected(program))


@cache
def _busy_threads(vectors: int, narrowest: int, rows: int, block: int) -> int | None:
    """The fewest threads of a row, or of a piece that begins at a sector, without idle ones.

    Partials are added up by pieces that begin anywhere, if few of them would lie side by side.
    """
    least = min(vectors, max(narrowest, block // rows))
    fits = [n for n in range(least, min(vectors, block) + 1) if vectors % n == 0 == block % n]
    aligned = next((n for n in fits if n == vectors or n % SECTOR_VECTORS == 0), None)
    if narrowest == SHARE_THREADS and (aligned is None or block // aligned < FEWEST_PARTIALS):
        return next(iter(fits), None)
    return aligned


def _rows_expected(program: Program) -> int:
    """Rows of a segment; where only run time knows, as likely, or enough to occupy a block."""
    known = constant(program.space.segment_rows)
    if known is None:
        likely = program.likely
        return MANY_ROWS if likely is None else likely.size(program.space.segment_rows)
    return known or 1


def _whole_rows(columns: int, vector: int, rows: int) -> RowSegment:
    """A block has whole rows, which it reduces as well; as many of its segment as there are."""
    vectors, least = -(-columns // vector), ROUND_THREADS // power_of_two(rows)
    threads = max(power_of_two(-(-vectors // VECTORS)), min(least, power_of_two(vectors)))
    threads = min(ROUND_THREADS, threads)
    mapping = RowSegment(threads, ROUND_THREADS // threads, vector, 1)
    return replace(mapping, steps=steps_of(mapping, columns))


def in_rounds(parts: Parts, device: Device) -> Schedule | Refused:
    """As many blocks of a size as are resident at once, for all parts."""
    parts = _alike(parts)
    resident = room_of_rounds(parts, device)
    if isinstance(resident, Refused):
        return resident
    parts = with_persistent_rows(parts, resident, device)
    return Schedule(
        tuple(mapping for _, mapping in parts),
        blocks=resident * device.multiprocessors,
        min_blocks_per_sm=resident,
    )


def none_waits(mapping: Mapping) -> Mapping:
    """The mapping where no rows wait for the next rounds."""
    return _with_fields(mapping, persistent_rows=0) if mapping.persistent_rows else mapping


def _with_fields(mapping: Any, **changes: int) -> Mapping:
    """A mapping of a kind that has these fields, with others in their place."""
    changed: Mapping = replace(mapping, **changes)
    return changed


def segment_of_threads(program: Program, mapping: RowSegment, threads: int) -> RowSegment:
    """The mapping in blocks of so many threads; rows that are reduced stay whole."""
    rows = min(mapping.rows, threads)
    mapping = replace(mapping, threads=threads // rows, rows=rows)
    if program.row_reductions:
        columns, _ = _vectors(program)
        mapping = replace(mapping, steps=steps_of(mapping, columns))
    return mapping


def _alike(parts: Parts) -> Parts:
    """Programs in the same rows have equal mappings, so that threads find theirs again."""
    common: dict[tuple[str, ...], Mapping] = {}
    for program, mapping in parts:
        key = program.space.key
        if program.space.row_segment is not None:
            common[key] = min(common.get(key, mapping), mapping, key=_narrowness)
        elif program.persistent_inputs and (program.reduces or key not in common):
            common[key] = mapping
    for key, mapping in common.items():
        programs = [program for program, _ in parts if program.space.key == key]
        common[key] = _with_room(programs, mapping)
    return [(p, common[p.space.key] if _finds_rows(p) else mapping) for p, mapping in parts]


def _with_room(programs: Sequence[Program], mapping: Mapping) -> Mapping:
    """With as many rows loaded at once as leave registers for two blocks, or else for one."""
    fewer = [mapping]
    while fewer[-1].batch > 1:
        fewer.append(_with_fields(mapping, batch=fewer[-1].batch // 2))
    for blocks, most in ((2, mapping.batch), (1, ALONE_BATCH)):
        for own in fewer:
            room = registers_left(blocks * own.block_threads)
            needed = (round_footprint(program, own).registers for program in programs)
            if own.batch <= most and all(registers <= room for registers in needed):
                return own
    return fewer[-1]


def _narrowness(mapping: Mapping) -> tuple[int, int]:
    """Those come first that others can follow: whole rows, then narrow vectors."""
    return -mapping.reach, mapping.vector


def _finds_rows(program: Program) -> bool:
    """Whether its threads must find rows that others of the same space have left."""
    return program.space.row_segment is not None or bool(program.persistent_inputs)


def with_persistent_rows(parts: Parts, resident: int, device: Device) -> Parts:
    """As many rows as there is room for: the same share of all segments, else first whole rows."""
    room, blocks = shared_left(device, resident), resident * device.multiprocessors
    room = dynamic_left(static_bytes(parts), room)
    wanted = waiting_bytes(_with_share(parts, 1.0), blocks)
    if wanted:
        found = _with_share(parts, min(1.0, room / wanted))
    else:
        found = _with_whole_rows(parts, room, blocks)
    return parts if why_not(found) is not None else found


def _with_share(parts: Parts, share: float) -> Parts:
    """That share of the rows of every segment waits."""
    found: list[tuple[Program, Mapping]] = []
    for program, mapping in parts:
        if program.persistent_inputs and program.space.row_segment is not None:
            rows = mapping.rows * iterations_of_segment(program.space, mapping)
            rows = int(share * rows) // mapping.rows * mapping.rows
            mapping = _with_fields(mapping, persistent_rows=rows)
        found.append((program, mapping))
    return found


def _with_whole_rows(parts: Parts, room: int, blocks: int) -> Parts:
    """The rows of the first iterations of a grid wait."""
    persistent = [(p, m) for p, m in parts if p.persistent_inputs]
    each = [m.block_rows * piece_of(p.space, m) * _row_bytes(p) for p, m in persistent]
    left = dict.fromkeys((p.round for p, _ in parts), blocks * (room // max(each, default=1)))
    found: list[tuple[Program, Mapping]] = []
    for program, mapping in parts:
        if program.persistent_inputs and program.space.row_segment is None:
            own = min(blocks_of(program.space, mapping), left[program.round])
            left[program.round] -= own
            rows = min(own * mapping.block_rows, constant(program.space.rows) or 0)
            mapping = _with_fields(mapping, persistent_rows=rows)
        found.append((program, mapping))
    return found


def _row_bytes(program: Program) -> int:
    """Of what persists, for each column of a row."""
    return sum(element_bytes(buffer) for buffer in program.persistent_inputs)


def room_of_rounds(parts: Parts, device: Device, blocks: int = 1) -> int | Refused:
    """Blocks of a grid that a multiprocessor has room for at once; all rounds are one kernel."""
    needed = rounds_footprint(parts, blocks)
    for reason in too_much_shared("rounds of a grid need", needed.shared, device):
        return Refused(reason)
    if static_bytes(parts) > STATIC_SHARED:
        return Refused(f"rounds of a grid need {static_bytes(parts)} bytes of static shared memory")
    if needed.registers > MOST_REGISTERS:
        return Refused(f"rounds of a grid need {needed.registers} registers a thread")
    return min(needed.blocks_per_sm(device), MOST_RESIDENT)
