"""Rows that are reduced, or kept whole, as a kind of kernel: see analysis/kind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tvm_stitch.device import REGISTERS
from tvm_stitch.kernel.analysis.addressing import Frame, Stride
from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.analysis.kind import MAX_ELEMENTS, Kind, Problem, fills_a_kernel, unsupported
from tvm_stitch.kernel.analysis.online_reduction import apply_online
from tvm_stitch.kernel.analysis.windows import reads_windows
from tvm_stitch.kernel.codegen.footprint import SPARE_REGISTERS, thread_registers
from tvm_stitch.kernel.codegen.thread_indexing import Position
from tvm_stitch.kernel.codegen.tir_builder import Place
from tvm_stitch.kernel.ir.mapping import WARP, Mapping, Rows
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.kernel.rows import async_copy
from tvm_stitch.kernel.rows.choose import CLUSTER_CAPABILITY, CLUSTERS, NO_ELEMENTS, row_mapping
from tvm_stitch.kernel.rows.emit import IteratedPart, emit_rows
from tvm_stitch.kernel.rows.footprint import fits, footprint, registers, registers_left
from tvm_stitch.kernel.rows.row_batching import MAX_BATCH, single_wave
from tvm_stitch.kernel.rows.space import SEARCH
from tvm_stitch.kernel.rows.vector_width import is_aligned, narrowest_item
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.stage import (
    Expr,
    Refused,
    Var,
    constant,
    elements_of,
    product,
    shown,
    tensor_bytes,
)

MAX_AHEAD_BYTES = 1024  # that a thread loads before it uses the first of them
# Memory comes in sectors of 32 bytes: shorter pieces than half of one waste what L2 can deliver.
PIECE_BYTES = 16
CACHED_BYTES = 8192


def unsupported_rows(program: Program) -> Refused | None:
    """Rows that are read in too short pieces, or across."""
    if (refused := unsupported(program)) is not None:
        return refused
    frame = Frame(program)
    # What an earlier round left is small: caches hold it.
    checked = program.reads_at(Where.OTHER) if program.reduces and not program.round else []
    for stage, read in checked:
        cached = read.guarded or is_small(read.buffer, program) or reads_windows(program)
        if frame.address(stage, read).stride is Stride.GATHER and not cached:
            return Refused(f"{stage.name} reads {read.buffer.name} across the rows")
    space = program.space
    if not space.whole and NOMINAL.size(space.run) * narrowest_item(program) < PIECE_BYTES:
        return Refused(f"rows lie in memory in pieces of {shown(space.run)} elements")
    return None


def is_small(buffer: Var, program: Program) -> bool:
    """Whether a buffer stays in L1, as weights do, from which rows are read again and again."""
    elements, size = elements_of(buffer), tensor_bytes(buffer)
    if elements is None or size is None or size > CACHED_BYTES:
        return False
    together = constant(product((program.space.rows, program.space.columns)))
    return together is None or elements < together


def _beside(program: Program, mapping: Rows, threads: int) -> Rows | Refused:
    """With more rows a block."""
    if mapping.cluster > 1 or mapping.blocks:
        return fills_a_kernel(program, mapping, threads)
    if mapping.block_threads == threads:
        return mapping
    if threads % mapping.threads:
        return Refused("its parts need blocks of different sizes")
    resident = mapping.min_blocks_per_sm * mapping.block_threads // threads  # as many threads
    mapping = replace(mapping, rows=threads // mapping.threads, min_blocks_per_sm=resident)
    return _with_registers(program, mapping, registers_left(REGISTERS, threads))


def _in_round(program: Program, mapping: Rows, threads: int) -> Rows | Refused:
    """With as many rows a block as it has room for, or fewer threads a row.

    Two blocks fit on a multiprocessor: one computes while the other waits for memory.
    """
    if mapping.residence == "shared" or mapping.cluster > 1:
        return Refused("rows of a round wait in registers of one block")
    each = min(mapping.threads, threads)
    steps = mapping.steps * mapping.threads // each
    own = replace(mapping, threads=each, rows=threads // each, steps=steps, min_blocks_per_sm=0)
    return _in_more_hands(program, own, registers_left(REGISTERS // 2, threads), _at_once)


def _at_once(program: Program, mapping: Rows) -> int:
    """Registers of a thread all of whose loads are on their way before it uses the first."""
    loaded = mapping.elements * phases_of(program, mapping).first_bytes
    return max(registers(program, mapping), thread_registers(loaded, 0) + SPARE_REGISTERS)


def _in_more_hands(
    program: Program,
    mapping: Rows,
    most: int,
    needed: Callable[[Program, Rows], int] = registers,
) -> Rows:
    """With more threads a row, as long as a block has several rows and too few registers."""
    while mapping.rows > 1 and needed(program, mapping) > most:
        own, rows, steps = 2 * mapping.threads, mapping.rows // 2, -(-mapping.steps // 2)
        mapping = replace(mapping, threads=own, rows=rows, steps=steps)
    return mapping


def _with_registers(program: Program, mapping: Rows, most: int) -> Rows:
    """The same in no more registers: no batches, more threads a row, at last a row that no thread
    keeps. Larger blocks leave fewer to each of their threads."""
    if registers(program, mapping) <= most:
        return mapping
    mapping = _in_more_hands(program, replace(mapping, batch=1, prefetch_weights=False), most)
    if registers(program, mapping) <= most:
        return mapping
    return replace(mapping, residence="nowhere", recompute=True)


def _illegal(problem: Problem[Program], mapping: Rows) -> Iterator[str]:
    program = problem.program
    if mapping.online and apply_online(program, mapping) is program:
        yield "one pass, where no sum is measured against a maximum or a mean"
        return
    if problem.columns < 1:
        yield NO_ELEMENTS.reason
    if mapping.cluster > 1:
        yield from _cluster(problem, mapping)
    if mapping.residence == "shared" and mapping.threads <= WARP:
        # No barrier of ours stands between the phases, and TVM finds no place for its own.
        yield "rows of a warp or less wait in registers"
    yield from uncovered(problem, mapping)
    whole = program.space.whole
    if mapping.peeled and not whole:
        yield "rows that lie in pieces cannot be peeled"
    if mapping.idle and whole:
        yield "idle threads, where rows do not lie in pieces"
    if mapping.batch > 1 or mapping.prefetch_weights:
        yield from _batch(mapping)
    if mapping.asynchronous:
        yield from _asynchronous(problem, mapping)
    if not mapping.peeled and not is_aligned(program, mapping.vector):
        yield f"rows that do not start at multiples of {mapping.vector} elements"
    yield from _room(problem, mapping)
    alone = (mapping.cluster, mapping.batch, mapping.prefetch_weights, mapping.residence)
    if mapping.blocks and alone != (1, 1, False, "register"):
        yield "blocks that iterate over the rows keep one a thread in registers"


def _emit(program: Program, mapping: Rows, place: Place) -> Expr:
    """Row by row, batch by batch, or in a grid-stride loop."""
    if mapping.blocks:
        return IteratedPart(program, mapping, place).emit()
    return emit_rows(program, mapping, place, Position)


def uncovered(problem: Problem[Program], mapping: Mapping) -> Iterator[str]:
    """Why rows are longer than what the steps of their threads reach."""
    if mapping.any_length:
        if not problem.is_open or mapping.residence != "nowhere":
            yield f"{mapping.steps} steps"
    elif mapping.capacity < (1 if problem.others_follow else problem.columns):
        yield f"rows of {problem.columns} columns, of which it covers {mapping.capacity}"


def held_elements(problem: Problem[Program], mapping: Mapping) -> Iterator[str]:
    """Why a thread cannot have all of its elements in registers."""
    if mapping.elements > MAX_ELEMENTS:
        yield f"{mapping.elements} elements a thread, more than {MAX_ELEMENTS}"
    first = phases_of(problem.program, mapping).first_bytes
    ahead = first * mapping.elements * (2 if mapping.prefetch_next_row else 1)
    if ahead > MAX_AHEAD_BYTES:
        yield f"{ahead} bytes that a thread loads ahead"


def _batch(mapping: Rows) -> Iterator[str]:
    if mapping.batch > MAX_BATCH:
        yield f"batches of {mapping.batch} rows"
    if mapping.row_scheme not in ("local", "warp") or mapping.residence != "register":
        yield "rows of a batch are those of a warp or less, and wait in registers"
    if mapping.prefetch_weights and (mapping.vector == 1 or mapping.peeled):
        yield "what is loaded ahead comes in aligned vectors"


def _asynchronous(problem: Problem[Program], mapping: Rows) -> Iterator[str]:
    if problem.device.capability < async_copy.CAPABILITY:
        yield f"asynchronous copies, which {problem.device.name} does not have"
    reason = async_copy.why_not(problem.program, mapping)
    if reason is not None:
        yield reason


def _cluster(problem: Problem[Program], mapping: Rows) -> Iterator[str]:
    if problem.device.capability < CLUSTER_CAPABILITY:
        yield f"clusters, which {problem.device.name} does not have"
    if mapping.cluster not in CLUSTERS:
        yield f"a cluster of {mapping.cluster} blocks"
    if mapping.block_rows > 1 or mapping.threads < WARP:
        yield "blocks of a cluster share one row, of which each has at least a warp's work"


def _scans(mapping: Rows) -> Iterator[str]:
    if mapping.residence != "register" or mapping.cluster > 1 or mapping.blocks:
        yield "what accumulates along a row waits in registers of one block, which has one row"


def _room(problem: Problem[Program], mapping: Rows) -> Iterator[str]:
    program, device = problem.program, problem.device
    if program.scans:
        yield from _scans(mapping)
    if mapping.residence == "register":
        yield from held_elements(problem, mapping)
    refused = fits(program, mapping, device, last=True)
    if refused is not None:
        yield refused.reason
    if mapping.unroll and mapping.residence == "register":
        yield "steps that are loaded at once, of a row that waits in registers"
    ahead = phases_of(program, mapping).first_bytes * mapping.vector * mapping.unroll
    if ahead > MAX_AHEAD_BYTES:
        yield f"{ahead} bytes that a thread loads ahead"
    yield from told(problem, mapping)


def told(problem: Problem[Program], mapping: Mapping) -> Iterator[str]:
    """Why a multiprocessor cannot have room for as many blocks as the compiler is told."""
    if mapping.min_blocks_per_sm * mapping.block_threads > problem.device.max_threads:
        asked = f"{mapping.min_blocks_per_sm} blocks of {mapping.block_threads} threads"
        yield f"{asked} a multiprocessor"


ROWS = Kind(
    mappings=(Rows,),
    holds=lambda _program: True,  # of whatever is of no other kind
    unsupported=unsupported_rows,
    choose=row_mapping,
    alone=single_wave,
    beside=_beside,
    in_round=_in_round,
    illegal=_illegal,
    search=SEARCH,
    footprint=footprint,
    emit=_emit,
    rounds_if_long=True,
)
