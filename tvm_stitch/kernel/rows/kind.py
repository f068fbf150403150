"""Rows that are reduced, or kept whole, as a kind of kernel: see analysis/kind."""

from __future__ import annotations

from dataclasses import replace

from tvm_stitch.kernel.analysis.addressing import Frame, Stride
from tvm_stitch.kernel.analysis.kind import ALONE, BESIDE, IN_ROUNDS, Kind, unsupported
from tvm_stitch.kernel.analysis.windows import reads_windows
from tvm_stitch.kernel.codegen.thread_indexing import Position
from tvm_stitch.kernel.codegen.tir_builder import Place
from tvm_stitch.kernel.ir.accumulating import accumulating_program
from tvm_stitch.kernel.ir.mapping import Rows
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.kernel.ir.scan_pattern import is_scan
from tvm_stitch.kernel.rows.choose import row_mappings
from tvm_stitch.kernel.rows.emit import IteratedPart, emit_chunks, emit_rows
from tvm_stitch.kernel.rows.footprint import footprint
from tvm_stitch.kernel.rows.legal import illegal_rows
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
SHORT_ROW = 256  # columns of windows, some of which a block has
# Of rows so few and long, partials are reduced in one round of blocks and summed up in the next.
FEW_ROWS, LONG_ROW = 8, 1 << 18
GROUP = 32  # columns that are reduced together where they are kept in groups, at most


def unsupported_rows(program: Program) -> Refused | None:
    """Rows that are read in too short pieces, or across."""
    if (refused := unsupported(program)) is not None:
        return refused
    frame = Frame(program)
    # What an earlier round left is small: caches hold it.
    checked = program.reads_at(Where.OTHER) if program.reduces and not program.round else []
    for stage, read in checked:
        cached = read.guarded or is_small(read.buffer, program) or reads_windows(program)
        if not cached and frame.address(stage, read).stride is Stride.GATHER:
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


def _wants_rounds(program: Program, rows: int | None, columns: int | None) -> bool:
    """Few long rows, or such in short pieces."""
    space = program.space
    if not space.whole:
        run, beside = constant(space.run) or GROUP, constant(space.inner) or 1
        # Short rows of one block lie side by side, piece by piece, as a pooling's windows do.
        is_short = columns is not None and columns <= SHORT_ROW
        return run < GROUP and not (is_short and run * beside >= GROUP)
    return (rows is None or rows <= FEW_ROWS) and (columns is None or columns >= LONG_ROW)


def _emit(program: Program, mapping: Rows, place: Place) -> Expr:
    """Row by row, batch by batch, in a grid-stride loop, or chunk by chunk."""
    if mapping.chunked:
        return emit_chunks(program, mapping, place)
    if mapping.blocks:
        return IteratedPart(program, mapping, place).emit()
    return emit_rows(program, mapping, place, Position)


ROWS = Kind(
    mappings=(Rows,),
    holds=lambda _program: True,  # of whatever is of no other kind
    unsupported=unsupported_rows,
    candidates=row_mappings,
    places=(ALONE, BESIDE, IN_ROUNDS),
    illegal=illegal_rows,
    search=SEARCH,
    footprint=footprint,
    emit=_emit,
    wants_rounds=_wants_rounds,
)
SCANNED_ROWS = replace(
    ROWS,
    program=accumulating_program,
    claims=is_scan,
    holds=lambda program: bool(program.scans),
)
