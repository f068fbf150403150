"""Rows that sum what indices send to them, as a kind of kernel: see analysis/kind.

The block that has a row adds up its updates, in their order and without atomics on sums: it lists
those of its rows, and takes a few rows at a time. Neighbouring rows belong to different blocks, and
neighbouring blocks share rows, each with a piece of the columns, so that one does not wait for
another that has the rows which many indices name. Either every block looks through all indices, so
that the fewer blocks there are the better: as many as are resident. Or blocks sort out the indices
for each other before a barrier of the grid, and add up what a chunk of them has of one row, where
there are so many that this takes less long (kernel/ir/listing).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.analysis.kind import POWERS, Kind, Limit, Problem, Search, unsupported
from tvm_stitch.kernel.analysis.profile import Profile, rows_profile
from tvm_stitch.kernel.codegen.footprint import (
    Footprint,
    aligned,
    not_resident,
    thread_registers,
    too_much_shared,
)
from tvm_stitch.kernel.codegen.thread_indexing import blocks_of_row, turns_of
from tvm_stitch.kernel.ir.instructions import instructions
from tvm_stitch.kernel.ir.listing import Listing
from tvm_stitch.kernel.ir.mapping import WARP, Mapping, Rows, power_of_two
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.footprint import footprint
from tvm_stitch.kernel.rows.legal import crowded, held_elements, misaligned, told
from tvm_stitch.kernel.rows.vector_width import is_aligned, vector_width
from tvm_stitch.kernel.scattered.emit import emit_scattered, workspace
from tvm_stitch.kernel.scattered.lists.chunk_layout import HOT, ChunkLayout
from tvm_stitch.kernel.scattered.lists.layout import list_layouts
from tvm_stitch.kernel.scattered.mapping import Scattered
from tvm_stitch.kernel.scattered.program import (
    ScatteredProgram,
    behind_sums,
    is_sorted,
    scattering_program,
)
from tvm_stitch.kernel.scattered.shared_rows import shared_sum_bytes
from tvm_stitch.kernel.scattered.updates import (
    added_buffers,
    at_once,
    fetched,
    held_bytes,
    loaded_bytes,
)
from tvm_stitch.stages.extents import NOMINAL, Extents
from tvm_stitch.stages.patterns.scattered_reduction import (
    MOST_UPDATES,
    ScatteredReduction,
    scattered_reduction,
)
from tvm_stitch.stages.stage import Read, Refused, constant, element_bytes, find_reads

BLOCK_THREADS = 1024
RESIDENT = 1  # blocks of a multiprocessor
# Elements of a row that a thread has where rows are not split.
THREAD_ELEMENTS = 16
FEWEST_THREADS = 256  # of a block, where there are few rows
SORTED_THREADS = (256, 128, 64, 32)  # the same where a kernel before has sorted the updates
SORTED_RESIDENT = 1024  # threads of a multiprocessor, which have 64 registers each
PIECE_THREADS = WARP  # of rows that are split
PIECE_STEPS = 2
SECTOR_ELEMENTS = 16  # of a piece, at least: of halves, what memory gives at least
MOST_WAVES = 64  # of blocks, each of which has less rows and so less to list
INDEX_BYTES = 8
# Of the multiprocessors that have rows, at least, if there are so many: fewer, where fewer threads
# are idle then and blocks have one iteration, not two. 40000 updates of 5000 rows of 4 take 11.1 us
# on an H200 in 79 groups of blocks, 12.4 in 132.
BUSY = (0.75, 0.5)
# Loads of an update whose place memory says, in those that wait for each other: of 40000 updates of
# 5600 rows, which add up what is computed of two such loads each, an H200 takes 11.6 us, and 4.5
# in two kernels of which the first computes it.
CHECKED = 3
LATE = Refused("sums of updates are needed behind a reduction alone")


def _unsupported(program: ScatteredProgram) -> Refused | None:
    inner = behind_sums(program)
    if (refused := unsupported(inner)) is not None:
        return refused
    loaded = phases_of(inner, Rows(WARP, 1, 1, 1)).phases[0].loads
    return None if all(each.stage.output in loaded for each in program.scattered) else LATE


def _candidates(problem: Problem[ScatteredProgram]) -> Iterator[Scattered]:
    """Rows of few threads each; split, unless something is reduced along them."""
    inner, columns = behind_sums(problem.program), problem.columns
    vector, whole = vector_width(inner), _is_whole(inner)
    while not is_aligned(inner, vector):
        vector //= 2
    if is_sorted(problem.program):
        yield from _of_sorted(problem, vector, whole)
        return
    if whole:
        least = power_of_two(-(-columns // max(vector, THREAD_ELEMENTS)))
    else:
        least = _piece_threads(problem, vector)
    for waves in POWERS[: MOST_WAVES.bit_length()]:
        for block in (BLOCK_THREADS, BLOCK_THREADS // 2, FEWEST_THREADS):
            for threads in (each for each in POWERS if least <= each <= block):
                steps = -(-columns // (threads * vector))
                found = []
                for most in (steps,) if whole else (PIECE_STEPS, 1):
                    rows, each = block // threads, min(steps, most)
                    mapping = Scattered(threads, rows, vector, each, 0)
                    found += [_grid_stride(problem, mapping, waves, share) for share in BUSY]
                ways = [tuple(_listed(problem, each)) for each in dict.fromkeys(found)]
                # The first is taken. Threads that work, then blocks, have loads on their way.
                ways.sort(key=lambda way: (way[0].idle / way[0].threads, -way[0].blocks))
                for way in ways:
                    yield from way


def _of_sorted(problem: Problem[ScatteredProgram], vector: int, whole: bool) -> Iterator[Scattered]:
    """Blocks of their own rows, small ones: there is nothing that they would have to list."""
    space, columns = problem.program.space, problem.columns
    most = THREAD_ELEMENTS // vector if whole else 1
    least = power_of_two(-(-columns // (vector * max(1, most))))
    found = []
    for block in SORTED_THREADS:
        threads = min(least, block if whole else PIECE_THREADS)
        steps = -(-columns // (threads * vector)) if whole else 1
        mapping = Scattered(threads, block // threads, vector, steps, 1)
        pieces = blocks_of_row(space, mapping)
        resident = max(1, SORTED_RESIDENT // block)
        blocks = pieces * turns_of(space, mapping)
        found.append(replace(mapping, blocks=blocks, min_blocks_per_sm=resident))
    enough = (each for each in found if each.blocks >= problem.device.multiprocessors)
    best = next(enough, found[-1])
    yield from (best, *(each for each in found if each is not best))


def _listed(problem: Problem[ScatteredProgram], mapping: Scattered) -> Iterator[Scattered]:
    """Blocks that sort out the indices for each other first, where that takes less long."""
    if "global" not in problem.schemes:
        yield mapping
        return
    # Those that have no rows of their own sort out indices, too.
    device, pieces = problem.device, blocks_of_row(problem.program.space, mapping)
    blocks = max(mapping.blocks, pieces * (device.multiprocessors // pieces))
    shared = replace(mapping, partitioned=True, blocks=blocks)
    if _adds_up_chunks(problem.program, shared):
        yield shared
        return
    own, other = (_listing(problem.program, each) for each in (mapping, shared))
    threads = mapping.block_threads
    if other.us(threads, device) < own.us(threads, device):
        yield shared
    yield mapping


def _adds_up_chunks(program: ScatteredProgram, mapping: Scattered) -> bool:
    """Whether each row gets enough updates of a chunk that they are added up there.

    Where only run time knows how many there are, blocks sort them out as well: many that all look
    through take longer than a barrier for few.
    """
    counts = [constant(each.count) for each in program.scattered]
    if None in counts:
        return True
    rows = constant(program.space.rows) or 0
    return any((count or 0) >= HOT * rows * mapping.blocks for count in counts)


def _listing(program: ScatteredProgram, mapping: Mapping, extents: Extents = NOMINAL) -> Listing:
    """Indices that a block looks through, twice where it sorts them out, and its updates."""
    if is_sorted(program):
        return Listing(waits=max(_waits(each, mapping, extents) for each in program.scattered))
    looked = listed = room = added = counted = 0
    layouts = list_layouts(program.scattered, program.space, mapping)
    for each, layout in zip(program.scattered, layouts, strict=True):
        count = extents.size(each.count)
        looked += _sorted_out(count, layout.chunks, mapping) if layout.chunks else count
        listed += -(-count // layout.groups)
        room += layout.room * layout.lists
        columns = extents.size(program.space.columns)
        added += count * columns * loaded_bytes(each)
        counted += sum(extents.bytes(buffer) for buffer in added_buffers(each))
    own, known = added // mapping.blocks, counted // mapping.blocks
    return Listing(looked, listed, room, own, known, mapping.partitioned)


def _waits(wanted: ScatteredReduction, mapping: Mapping, extents: Extents) -> int:
    """Loads of a row that wait for each other: its range, then numbers and updates by turns.

    What is no vector of an update is loaded where its element is computed, behind a branch each.
    """
    each = extents.size(wanted.count) / max(1, extents.size(wanted.rows))
    together = at_once(wanted, mapping)
    vectors = {found.read.key for found in fetched(wanted)}
    reads = [read for read in find_reads(wanted.value) if not read.nested]
    ahead = max((_depth_of(read) for read in reads if read.key in vectors), default=0)
    behind = max((_depth_of(read) for read in reads if read.key not in vectors), default=0)
    if ahead > 1:  # indices from memory are checked, and loads behind a check wait
        ahead *= CHECKED * together
    chain = 1 + ahead + together * mapping.elements * behind
    return 1 + -(-math.ceil(each) // together) * chain


def _depth_of(read: Read) -> int:
    """How many loads a load waits for, and itself."""
    inner = [each for index in read.load.indices for each in find_reads(index)]
    return 1 + max(map(_depth_of, inner), default=0)


def _of_updates(program: ScatteredProgram, extents: Extents) -> tuple[float, float]:
    """Operations and special functions of updates for each of the table's elements."""
    plain = special = 0.0
    for each in program.scattered:
        taken = instructions(each.stage)
        of_row = extents.size(each.count) / max(1, extents.size(each.rows))
        plain, special = plain + of_row * taken.plain, special + of_row * taken.special
    return plain, special


def _sorted_out(count: int, chunks: ChunkLayout, mapping: Mapping) -> int:
    """Indices that a block looks at to sort them out."""
    number = -(-count // chunks.size)
    shares = -(-number // mapping.blocks)
    return 2 * chunks.size * shares


def _piece_threads(problem: Problem[ScatteredProgram], vector: int) -> int:
    """Threads of a piece of a row: fewer where the rows are too few to be there for all."""
    threads = min(PIECE_THREADS, power_of_two(-(-problem.columns // vector)))
    found: dict[int, int] = {}  # the blocks that there are then
    while not found or threads * vector >= SECTOR_ELEMENTS:
        mapping = Scattered(threads, BLOCK_THREADS // threads, vector, 1, 0)
        found[threads] = _grid_stride(problem, mapping, 1).blocks
        if found[threads] > problem.device.multiprocessors // 2:
            break
        threads //= 2
    return max(found, key=lambda each: found[each])


def _is_whole(program: Program) -> bool:
    """Whether the threads of a row must have all of it: they reduce along it."""
    return bool(program.row_reductions or program.scans)


def _grid_stride(
    problem: Problem[ScatteredProgram], mapping: Scattered, waves: int, share: float = BUSY[0]
) -> Scattered:
    """As many blocks as are resident, or so many times more; no more than have rows.

    Few rows at a time, where there are too few for a share of the multiprocessors: the others of a
    block's threads, as many as there are updates to list, are idle then.
    """
    device, space = problem.device, problem.program.space
    total, pieces = constant(space.rows) or 0, blocks_of_row(space, mapping)
    working, listing = mapping.working, mapping.block_threads
    counts = [constant(each.count) for each in problem.program.scattered]
    if None not in counts:
        listing = min(listing, power_of_two(sum(count or 0 for count in counts)))
    listing = max(listing, FEWEST_THREADS)
    enough = int(share * device.multiprocessors)
    while mapping.rows > 1 and -(-total // mapping.rows) * pieces < enough:
        fewer = replace(mapping, rows=mapping.rows // 2)
        if fewer.block_threads < listing:
            if _is_whole(problem.program):
                break
            threads = 2 * mapping.threads
            fewer = replace(fewer, threads=threads, idle=threads - working)
        mapping = fewer
    groups = -(-total // mapping.rows)
    most = max(1, waves * RESIDENT * device.multiprocessors // pieces)
    return replace(mapping, blocks=pieces * min(groups, most), min_blocks_per_sm=RESIDENT)


def _footprint(program: ScatteredProgram, mapping: Mapping) -> Footprint:
    """What rows take, with the updates in flight, a share of a row and the lists of updates."""
    inner = behind_sums(program)
    needed = footprint(inner, mapping)
    held = phases_of(inner, mapping).first_bytes * mapping.elements
    fetched = max((held_bytes(each, mapping) for each in program.scattered), default=0)
    share = mapping.elements * sum(element_bytes(each.stage.output) for each in program.scattered)
    registers = max(needed.registers, thread_registers(held + fetched + share, mapping.vector))
    shared = needed.shared
    if not is_sorted(program):
        layouts = list_layouts(program.scattered, program.space, mapping)
        shared += sum(aligned(layout.bytes) for layout in layouts)
    shared += sum(aligned(shared_sum_bytes(each, mapping)) for each in program.scattered)
    return Footprint(mapping.block_threads, registers, shared)


def _illegal(problem: Problem[ScatteredProgram], mapping: Scattered) -> Iterator[str]:
    whole: Problem[Program] = problem
    inner = replace(whole, program=behind_sums(problem.program))
    pieces = blocks_of_row(inner.program.space, mapping) if mapping.steps else 0
    if not pieces or not mapping.blocks or mapping.blocks % pieces:
        yield f"{mapping.blocks} blocks for {pieces} pieces of a row"
        return
    if pieces > 1 and _is_whole(inner.program):
        yield "rows that are reduced along, and split"
    yield from misaligned(inner, mapping)
    yield from held_elements(inner, mapping)
    yield from told(inner, mapping)
    needed = _footprint(problem.program, mapping)
    if mapping.partitioned:
        yield from _not_shared(problem, mapping, needed)
    yield from crowded(needed, mapping)
    yield from too_much_shared("lists of updates need", needed.shared, problem.device)


def _not_shared(
    problem: Problem[ScatteredProgram], mapping: Scattered, needed: Footprint
) -> Iterator[str]:
    """Why blocks cannot sort out the indices for each other."""
    if mapping.blocks >= mapping.block_threads:
        yield f"{mapping.blocks} blocks, for each of which a thread of a block counts"
    room = needed.blocks_per_sm(problem.device)
    yield from not_resident(mapping.blocks, mapping.min_blocks_per_sm, room, problem.device)


def _profile(program: ScatteredProgram, mapping: Mapping, extents: Extents = NOMINAL) -> Profile:
    """Updates are read once; indices by those who look through them, who find them in the L2."""
    found = rows_profile(behind_sums(program), mapping, extents)
    first, *others = found.phases
    reads, other, listing = (
        list(first.reads),
        found.other_bytes,
        _listing(program, mapping, extents),
    )
    looked = listing.looked * INDEX_BYTES * mapping.blocks / found.elements
    for each in program.scattered:
        reads.remove(element_bytes(each.stage.output))
        for buffer in dict.fromkeys(read.buffer for read in each.stage.reads):
            # Of a tensor that nobody reads, the profile counts no more than the table's elements.
            beyond = max(0, extents.elements(buffer) - found.elements)
            other += beyond * element_bytes(buffer)
    along = (*first.along, round(looked)) if looked >= 1 else first.along
    first = replace(first, reads=tuple(reads), along=along)
    if is_sorted(program):
        plain, special = _of_updates(program, extents)
        first = replace(
            first, operations=first.operations + plain, specials=first.specials + special
        )
    phases = (first, *others)
    return replace(found, phases=phases, other_bytes=other, listing=listing)


def _why(program: ScatteredProgram, mapping: Mapping) -> str:
    if is_sorted(program):
        return "rows add up their updates, which are sorted by a kernel before, in their order"
    groups = mapping.blocks // blocks_of_row(program.space, mapping)
    rows = -(-(constant(program.space.rows) or 0) // groups)
    known = [constant(each.count) for each in program.scattered]
    updates = "all" if None in known else str(sum(count or 0 for count in known))
    shared = ", which all blocks sort out," if mapping.partitioned else ""
    return (
        f"a block of {rows} rows lists those of {updates} updates{shared} that indices send to "
        "them and adds them up in their order, without atomics on sums"
    )


def _limits(program: ScatteredProgram) -> Iterator[Limit]:
    """Numbers of updates that only run time knows; the others were asked when they were planned."""
    message = f"this stitched kernel sums at most {MOST_UPDATES} updates of a table's rows"
    for each in program.scattered:
        if constant(each.count) is None:
            yield each.count, MOST_UPDATES, message


SCATTERED = Kind(
    mappings=(Scattered,),
    program=scattering_program,
    claims=lambda stage: scattered_reduction(stage) is not None,
    holds=lambda program: isinstance(program, ScatteredProgram),
    unsupported=_unsupported,
    candidates=_candidates,
    illegal=_illegal,
    search=Search(),
    phases=lambda program, mapping: phases_of(behind_sums(program), mapping),
    footprint=_footprint,
    workspace=workspace,
    profile=_profile,
    emit=emit_scattered,
    why=_why,
    limits=_limits,
)
"""Its threads hold rows as those of rows that are reduced do."""
