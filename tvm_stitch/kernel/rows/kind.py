"""Rows that are reduced, or kept whole, as a kind of kernel: see analysis/kind."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tvm_stitch.device import REGISTERS
from tvm_stitch.kernel.analysis.addressing import Frame, Stride
from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.analysis.kind import Kind, fills_a_kernel, unsupported
from tvm_stitch.kernel.analysis.windows import reads_windows
from tvm_stitch.kernel.codegen.footprint import SPARE_REGISTERS, thread_registers
from tvm_stitch.kernel.codegen.thread_indexing import Position
from tvm_stitch.kernel.codegen.tir_builder import Place
from tvm_stitch.kernel.ir.mapping import Rows
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.kernel.rows.choose import row_mappings
from tvm_stitch.kernel.rows.emit import IteratedPart, emit_rows
from tvm_stitch.kernel.rows.footprint import footprint, registers_left
from tvm_stitch.kernel.rows.legal import illegal_rows
from tvm_stitch.kernel.rows.row_batching import single_wave
from tvm_stitch.kernel.rows.space import SEARCH
from tvm_stitch.kernel.rows.vector_width import narrowest_item
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


def _kept(program: Program, mapping: Rows) -> int:
    """Registers of a thread that keeps its share of a row."""
    return footprint(program, mapping).registers


def _at_once(program: Program, mapping: Rows) -> int:
    """Registers of a thread all of whose loads are on their way before it uses the first."""
    loaded = mapping.elements * phases_of(program, mapping).first_bytes
    loading = thread_registers(loaded, 0) + SPARE_REGISTERS
    return max(_kept(program, mapping), loading)


def _in_more_hands(
    program: Program,
    mapping: Rows,
    most: int,
    needed: Callable[[Program, Rows], int] = _kept,
) -> Rows:
    """With more threads a row, as long as a block has several rows and too few registers."""
    while mapping.rows > 1 and needed(program, mapping) > most:
        own, rows, steps = 2 * mapping.threads, mapping.rows // 2, -(-mapping.steps // 2)
        mapping = replace(mapping, threads=own, rows=rows, steps=steps)
    return mapping


def _with_registers(program: Program, mapping: Rows, most: int) -> Rows:
    """The same in no more registers: no batches, more threads a row, at last a row that no thread
    keeps. Larger blocks leave fewer to each of their threads."""
    if _kept(program, mapping) <= most:
        return mapping
    mapping = _in_more_hands(program, replace(mapping, batch=1, prefetch_weights=False), most)
    if _kept(program, mapping) <= most:
        return mapping
    return replace(mapping, residence="nowhere", recompute=True)


def _emit(program: Program, mapping: Rows, place: Place) -> Expr:
    """Row by row, batch by batch, or in a grid-stride loop."""
    if mapping.blocks:
        return IteratedPart(program, mapping, place).emit()
    return emit_rows(program, mapping, place, Position)


ROWS = Kind(
    mappings=(Rows,),
    holds=lambda _program: True,  # of whatever is of no other kind
    unsupported=unsupported_rows,
    candidates=row_mappings,
    alone=single_wave,
    beside=_beside,
    in_round=_in_round,
    illegal=illegal_rows,
    search=SEARCH,
    footprint=footprint,
    emit=_emit,
    rounds_if_long=True,
)
