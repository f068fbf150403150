"""What blocks of a grid with barriers take of a multiprocessor, and what waits in them.

In: a Program and its Mapping, or all parts of a kernel in rounds with the blocks of its grid. Out:
figures, on which rests that all blocks are resident at once; how much of each input waits in shared
memory for the next rounds, and why the rows of a schedule could not, if so. Which can persist is
kernel/cooperative/persistent_rows's to say.

Of a segment the first rows wait, of every segment that a block has. Whole rows wait as far as the
first iterations of the grid go, whatever tensors they belong to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.codegen.footprint import (
    SPARE_REGISTERS,
    SUM_BYTES,
    Footprint,
    aligned,
    all_asked_for,
    thread_registers,
)
from tvm_stitch.kernel.codegen.thread_indexing import blocks_of, iterations_of_segment, piece_of
from tvm_stitch.kernel.cooperative.hoisted_loads import column_bytes
from tvm_stitch.kernel.ir.mapping import ColumnSums, Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.footprint import exchange_bytes, footprint
from tvm_stitch.stages.stage import Var, constant, dtype_of, element_bytes, item_bytes

Parts = Sequence[tuple[Program, Mapping]]
NOT_READ_AGAIN = "rows that wait, which no other round reads"

# Where columns are symbolic, of addresses in 64 bits and the guards of every element: layer norm
# backward spills 228 bytes without, none with them (ptxas, sm_90).
GUARD_REGISTERS = 24


def sums_footprint(program: Program, mapping: ColumnSums) -> Footprint:
    """What a block takes: its threads' partial sums, too, and the next row."""
    held = phases_of(program, mapping).live_bytes + SUM_BYTES * len(program.column_reductions)
    if mapping.prefetch_next_row:
        held += phases_of(program, mapping).first_bytes
    registers = thread_registers(mapping.elements * held, mapping.vector)
    if constant(program.space.columns) is None:
        registers += GUARD_REGISTERS
    return Footprint(mapping.block_threads, registers, _sums_shared(program, mapping))


def _sums_shared(program: Program, mapping: ColumnSums) -> int:
    """Shared memory of a block: its rows' sums, the warps' partials, scratch of the rows."""
    rows = mapping.reach * mapping.rows * SUM_BYTES if mapping.rows > 1 else 0
    partials = len(program.column_reductions) * mapping.block_threads * SUM_BYTES
    return rows + partials + exchange_bytes(program, mapping)


def rounds_footprint(parts: Parts, blocks: int) -> Footprint:
    """What a block takes for all rounds, which are one kernel of a grid of so many blocks."""
    registers = max(_round_registers(program, mapping) for program, mapping in parts)
    shared = all_asked_for(static_bytes(parts), waiting_bytes(parts, blocks))
    return Footprint(parts[0][1].block_threads, registers, shared)


def static_bytes(parts: Parts) -> int:
    """Shared memory of a block of reductions."""
    scratch = sum(exchange_bytes(program, own) for program, own in parts)
    return scratch + max(_columns_bytes(program, mapping) for program, mapping in parts)


def round_footprint(program: Program, mapping: Mapping) -> Footprint:
    """What a block takes for one part; rows wait beside that."""
    shared = exchange_bytes(program, mapping) + _columns_bytes(program, mapping)
    return Footprint(mapping.block_threads, _round_registers(program, mapping), shared)


def _round_registers(program: Program, mapping: Mapping) -> int:
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
    return max(footprint(program, mapping).registers, loading)


def _columns_bytes(program: Program, mapping: Mapping) -> int:
    """Shared memory where rows side by side are combined; parts use it in turn."""
    if not program.column_reductions or mapping.rows == 1:
        return 0
    return aligned(mapping.vector * mapping.steps * mapping.block_threads * SUM_BYTES)


@dataclass(frozen=True)
class SmemSlot:
    """Shared memory of a block for one input, or for whole rows of several."""

    inputs: dict[Var, int]  # and where in a place each begins
    dtype: str
    iterations: int  # of the grid, each with a place of its own
    each: int  # elements of a place

    @property
    def elements(self) -> int:
        """Of all iterations."""
        return self.iterations * self.each


def smem_slots(parts: Parts, blocks: int) -> list[SmemSlot]:
    """Where rows wait in a block, of a grid of so many."""
    found: dict[Var | str, SmemSlot] = {}
    for program, mapping, first in _places(parts):
        for buffer in program.persistent_inputs if mapping.persistent_rows else ():
            dtype, piece = dtype_of(buffer), piece_of(program.space, mapping)
            if program.space.row_segment is not None:
                iterations = -(-(first + blocks_of(program.space, mapping)) // blocks)
                found[buffer] = SmemSlot(
                    {buffer: 0}, dtype, iterations, mapping.persistent_rows * piece
                )
                continue
            iterations = -(-(first + -(-mapping.persistent_rows // mapping.block_rows)) // blocks)
            shared = found.get(dtype, SmemSlot({}, dtype, 0, 0))
            alike = [each for each in program.persistent_inputs if dtype_of(each) == dtype]
            rows = mapping.block_rows * piece
            inputs = {**shared.inputs}
            inputs.setdefault(buffer, rows * alike.index(buffer))
            each = max(shared.each, rows * len(alike))
            found[dtype] = SmemSlot(inputs, dtype, max(shared.iterations, iterations), each)
    return list(found.values())


def loads_inputs_separately(program: Program) -> bool:
    """Whether a thread loads what persists of its row as a whole, and other inputs step by step.

    Rows have as many elements a thread as where they were reduced: of several inputs that would
    take the registers of other blocks.
    """
    return (
        bool(program.persistent_inputs)
        and program.space.row_segment is None
        and not program.reduces
    )


def waiting_bytes(parts: Parts, blocks: int) -> int:
    """Bytes of shared memory of a block."""
    return sum(item_bytes(slot.dtype) * slot.elements for slot in smem_slots(parts, blocks))


def why_not(parts: Parts) -> str | None:
    """Why a block would not find the rows that it has left, if so."""
    places: dict[Var, tuple[int, Mapping]] = {}
    rounds: set[tuple[Var, int]] = set()
    filled: set[int] = set()  # rounds that leave whole rows, one place an iteration
    if any(mapping.persistent_rows and not program.persistent_inputs for program, mapping in parts):
        return NOT_READ_AGAIN
    for program, mapping, first in _places(parts):
        reason = _cannot_wait(program, mapping) if mapping.persistent_rows else None
        if reason is not None:
            return reason
        for buffer in program.persistent_inputs:
            moved = places.setdefault(buffer, (first, mapping)) != (first, mapping)
            if mapping.persistent_rows and (moved or (buffer, program.round) in rounds):
                return "rows that wait in other blocks than those that want them"
            rounds.add((buffer, program.round))
            if program.space.row_segment is None and buffer not in program.reused_inputs:
                filled.add(program.round)
    return "rows that wait in each other's place" if len(filled) > 1 else None


def _cannot_wait(program: Program, mapping: Mapping) -> str | None:
    leaving = set(program.persistent_inputs) - set(program.reused_inputs)
    if not leaving <= set(phases_of(program, mapping).phases[0].loads):
        return "rows that wait are loaded before the first reduction"
    if program.space.row_segment is not None:
        most, each = mapping.rows * iterations_of_segment(program.space, mapping), mapping.rows
    else:
        most, each = constant(program.space.rows) or 0, 1
        plain = (mapping.residence, mapping.batch, mapping.peeled, mapping.idle)
        if plain != ("register", 1, False, 0):
            return "rows that wait come one by one, in aligned vectors, through registers"
    if mapping.persistent_rows % each or not 0 <= mapping.persistent_rows <= most:
        return f"{mapping.persistent_rows} of {most} rows wait, of which {each} come at once"
    return None


def _places(parts: Parts) -> Iterator[tuple[Program, Mapping, int]]:
    """The parts whose rows may wait, each with the number of its first block in its round."""
    first = dict.fromkeys((program.round for program, _ in parts), 0)
    for program, mapping in parts:
        if not program.persistent_inputs:
            continue
        yield program, mapping, first[program.round]
        first[program.round] += blocks_of(program.space, mapping)
