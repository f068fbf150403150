"""Rows that sum what indices send to them, as a kind of kernel: see analysis/kind.

The block that has a row adds up its updates, in their order and without atomics: all threads of a
block look through the indices for those of its rows, and the threads of each row add what is found
to what they have in registers. Every block goes through all indices, so that the more rows it has
the better: as many blocks as are resident take turns at the rows, a few at a time, and list the
updates of all their turns at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.analysis.kind import Kind, Problem, unsupported
from tvm_stitch.kernel.analysis.profile import Profile, rows_profile
from tvm_stitch.kernel.codegen.footprint import Footprint, thread_registers
from tvm_stitch.kernel.ir.mapping import MAX_BLOCK_THREADS, WARP, Mapping, Rows, power_of_two
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.footprint import footprint
from tvm_stitch.kernel.rows.legal import crowded, held_elements, told, uncovered
from tvm_stitch.kernel.rows.space import SEARCH
from tvm_stitch.kernel.rows.vector_width import is_aligned, vector_width
from tvm_stitch.kernel.scattered.emit import FETCHED, MOST_LOOKED_AT, emit_scattered, found_bytes
from tvm_stitch.kernel.scattered.program import behind_sums
from tvm_stitch.stages.extents import NOMINAL, Extents
from tvm_stitch.stages.stage import Refused, constant, element_bytes

BLOCK_THREADS = 512
# Elements of a row that a thread has: with what is in flight, in the registers of two blocks.
THREAD_ELEMENTS = 16
# Of a list's room, so that blocks may be sent four times as many as others.
EXPECTED = MOST_LOOKED_AT // 4
MOST_RESIDENT = 4  # blocks of a multiprocessor: with more, every index is looked at more often
INDEX_BYTES = 8
LATE = Refused("sums of updates are needed behind a reduction alone")


def _unsupported(program: Program) -> Refused | None:
    inner = behind_sums(program)
    if (refused := unsupported(inner)) is not None:
        return refused
    loaded = phases_of(inner, Rows(WARP, 1, 1, 1)).phases[0].loads
    return None if all(each.stage.output in loaded for each in program.scattered) else LATE


def _candidates(problem: Problem[Program]) -> Iterator[Rows]:
    """Rows of few threads each, and as many of them as a block has registers for."""
    inner, columns = behind_sums(problem.program), problem.columns
    vector = vector_width(inner)
    while not is_aligned(inner, vector):
        vector //= 2
    threads = min(power_of_two(-(-columns // max(vector, THREAD_ELEMENTS))), MAX_BLOCK_THREADS)
    while threads <= MAX_BLOCK_THREADS:
        rows = max(1, BLOCK_THREADS // threads)
        mapping = Rows(threads, rows, vector, -(-columns // (threads * vector)))
        if (turns := _taking_turns(problem, mapping)) is not None:
            yield turns
        yield _spread(problem, mapping)
        threads *= 2


def _taking_turns(problem: Problem[Program], mapping: Rows) -> Rows | None:
    """One wave of blocks; None where that is all, or where a block would be sent more than it
    can list."""
    resident = min(
        MOST_RESIDENT, _footprint(problem.program, mapping).blocks_per_sm(problem.device)
    )
    blocks = resident * problem.device.multiprocessors
    total = constant(problem.program.space.rows) or 0
    if not resident or -(-total // mapping.rows) <= blocks:
        return None
    if max(each.count for each in problem.program.scattered) > EXPECTED * blocks:
        return None
    return replace(mapping, blocks=blocks, min_blocks_per_sm=resident)


def _spread(problem: Problem[Program], mapping: Rows) -> Rows:
    """With fewer rows a block, where there are too few for all multiprocessors."""
    total = constant(problem.program.space.rows) or 0
    while mapping.rows > 1 and mapping.block_threads > WARP:
        if -(-total // mapping.rows) >= problem.device.multiprocessors:
            break
        mapping = replace(mapping, rows=mapping.rows // 2)
    return mapping


def _footprint(program: Program, mapping: Mapping) -> Footprint:
    """What rows take, with the updates that are in flight and the list of what was found."""
    inner = behind_sums(program)
    needed = footprint(inner, mapping)
    held = phases_of(inner, mapping).first_bytes * mapping.elements
    fetched = 4 * FETCHED * mapping.vector
    registers = max(needed.registers, thread_registers(held + fetched, mapping.vector))
    shared = needed.shared + found_bytes(mapping)
    return Footprint(mapping.block_threads, registers, shared)


def _illegal(problem: Problem[Program], mapping: Rows) -> Iterator[str]:
    inner = replace(problem, program=behind_sums(problem.program))
    plain = Rows(mapping.threads, mapping.rows, mapping.vector, mapping.steps)
    if replace(mapping, blocks=0, min_blocks_per_sm=0, recompute=False) != plain:
        yield "rows that are sent updates wait in registers, one of a thread at a time"
    if not is_aligned(inner.program, mapping.vector):
        yield f"rows that do not start at multiples of {mapping.vector} elements"
    yield from uncovered(inner, mapping)
    yield from held_elements(inner, mapping)
    yield from told(inner, mapping)
    yield from crowded(_footprint(problem.program, mapping), mapping, problem.device)


def _profile(program: Program, mapping: Mapping, extents: Extents = NOMINAL) -> Profile:
    """Updates are read once; all indices by every block, which finds them in the L2."""
    found = rows_profile(behind_sums(program), mapping, extents)
    first, *others = found.phases
    reads, other, looked = list(first.reads), found.other_bytes, 0.0
    for each in program.scattered:
        reads.remove(element_bytes(each.stage.output))
        looked += each.count * INDEX_BYTES / (_rows_of_block(mapping, found) * found.columns)
        for buffer in dict.fromkeys(read.buffer for read in each.stage.reads):
            # Of a tensor that nobody reads, the profile counts no more than the table's elements.
            beyond = max(0, extents.elements(buffer) - found.elements)
            other += beyond * element_bytes(buffer)
    along = (*first.along, round(looked)) if looked >= 1 else first.along
    phases = (replace(first, reads=tuple(reads), along=along), *others)
    return replace(found, phases=phases, other_bytes=other)


def _rows_of_block(mapping: Mapping, found: Profile) -> float:
    """In all its turns."""
    return found.rows / mapping.blocks if mapping.blocks else mapping.block_rows


def _why(program: Program, mapping: Mapping) -> str:
    count = sum(each.count for each in program.scattered)
    rows = mapping.block_rows
    if mapping.blocks:
        rows = -(-(constant(program.space.rows) or 0) // mapping.blocks)
    return (
        f"a block of {rows} rows finds those of {count} updates that indices send to "
        "them and adds them up in their order, without atomics"
    )


SCATTERED = Kind(
    mappings=(Rows,),
    holds=lambda program: bool(program.scattered),
    unsupported=_unsupported,
    candidates=_candidates,
    illegal=_illegal,
    search=SEARCH,
    phases=lambda program, mapping: phases_of(behind_sums(program), mapping),
    footprint=_footprint,
    profile=_profile,
    emit=emit_scattered,
    why=_why,
)
"""Its threads hold rows as those of rows that are reduced do."""
