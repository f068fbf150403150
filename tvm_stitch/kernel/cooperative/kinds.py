"""Rows that are summed over, and rows that wait for the next round, as kinds: see analysis/kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tvm_stitch.kernel.analysis.kind import ALONE, IN_ROUNDS, Problem
from tvm_stitch.kernel.analysis.why import why_rows, why_sums
from tvm_stitch.kernel.codegen.footprint import STATIC_SHARED, not_resident
from tvm_stitch.kernel.codegen.thread_indexing import Position, blocks_of, blocks_of_row
from tvm_stitch.kernel.codegen.tir_builder import Place
from tvm_stitch.kernel.cooperative.choose_column_sums import (
    resident_blocks,
    sums_mappings,
    unsupported_sums,
)
from tvm_stitch.kernel.cooperative.choose_rounds import row_segment_mapping
from tvm_stitch.kernel.cooperative.emit_column_sums import ColumnSumsPart, workspace
from tvm_stitch.kernel.cooperative.emit_persistent_row import PersistentRow, RoundPlace
from tvm_stitch.kernel.cooperative.emit_row_segment import RowSegmentPart
from tvm_stitch.kernel.cooperative.footprint import round_footprint, sums_footprint
from tvm_stitch.kernel.cooperative.space import SEGMENT_SEARCH, SUMS_SEARCH
from tvm_stitch.kernel.ir.mapping import ColumnSums, Rows, RowSegment
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.emit import emit_batch
from tvm_stitch.kernel.rows.kind import ROWS
from tvm_stitch.kernel.rows.legal import held_elements, misaligned, no_elements, uncovered
from tvm_stitch.stages.stage import Expr
from tvm_stitch.stages.symbolic_analyzer import int64

_SPLIT = "a row that is reduced cannot be split over blocks"


def _illegal_sums(problem: Problem[Program], mapping: ColumnSums) -> Iterator[str]:
    program, device = problem.program, problem.device
    if mapping.blocks < 1:
        yield "sums over the rows need blocks that iterate over the rows"
        return
    yield from no_elements(problem)
    if (mapping.residence == "nowhere") != (mapping.steps == 0) or mapping.residence == "shared":
        yield f"{mapping.steps} steps of rows that wait in {mapping.residence}"
    if not mapping.steps and (mapping.rows > 1 or mapping.prefetch_next_row or mapping.split):
        yield "rows of any length side by side, loaded ahead or in pieces"
    if mapping.split and problem.is_open:
        yield "pieces of rows whose number only run time knows"
    yield from misaligned(problem, mapping)
    if mapping.split and program.row_reductions:
        yield _SPLIT
    if not mapping.split:
        yield from uncovered(problem, mapping)
    yield from held_elements(problem, mapping)
    needed = sums_footprint(program, mapping).shared
    if needed > STATIC_SHARED:
        yield f"{needed} bytes of shared memory for the sums over the rows"
    if mapping.blocks % blocks_of_row(program.space, mapping):
        yield f"{mapping.blocks} blocks cannot share the pieces of a row evenly"
    room = resident_blocks(program, mapping, device)
    yield from not_resident(mapping.blocks, mapping.min_blocks_per_sm, room, device)


def _illegal_segment(problem: Problem[Program], mapping: RowSegment) -> Iterator[str]:
    if problem.program.row_reductions:
        if mapping.threads & (mapping.threads - 1):
            yield f"{mapping.threads} threads reduce a row, which are no power of two"
        if mapping.reach < problem.columns:
            yield _SPLIT
    yield from misaligned(problem, mapping)
    yield from held_elements(problem, mapping)


def _emit_segment(program: Program, mapping: RowSegment, place: Place) -> Expr:
    assert isinstance(place, RoundPlace), "segments are reduced in rounds"
    return RowSegmentPart(program, mapping, place).emit()


def _why_segment(program: Program, mapping: RowSegment) -> str:
    if program.column_reductions:
        return why_sums(program, mapping, "in shared memory")
    return why_rows(program, mapping)


def _emit_persistent(program: Program, mapping: Rows, place: Place) -> Expr:
    """Whole rows of which the first wait, each iteration of the grid in a place of its own."""
    assert isinstance(place, RoundPlace), "rows wait between rounds"
    position = Position(program.space, mapping, place)
    row = PersistentRow(program, mapping, place, position)
    blocks = -(-mapping.persistent_rows // mapping.block_rows)
    if blocks:
        row.slot_of_row = int64(0)
        all_wait = blocks >= blocks_of(program.space, mapping)
        row.waits_if = None if all_wait else place.block < blocks
    emit_batch([row])
    row.leave()
    return position.blocks


COLUMN_SUMS = replace(
    ROWS,
    mappings=(ColumnSums,),
    holds=lambda program: bool(program.column_reductions),
    unsupported=unsupported_sums,
    candidates=sums_mappings,
    places=(ALONE,),
    illegal=_illegal_sums,
    search=SUMS_SEARCH,
    footprint=sums_footprint,
    workspace=workspace,
    emit=lambda program, mapping, place: ColumnSumsPart(program, mapping, place).emit(),
    why=lambda program, mapping: why_sums(program, mapping, "behind a barrier of the grid"),
)
# Of a kernel in rounds, which is tuned as a whole.
ROW_SEGMENT = replace(
    ROWS,
    mappings=(RowSegment,),
    holds=lambda program: program.space.row_segment is not None,
    candidates=lambda problem: (row_segment_mapping(problem),),
    places=(IN_ROUNDS,),
    illegal=_illegal_segment,
    search=SEGMENT_SEARCH,
    footprint=round_footprint,
    emit=_emit_segment,
    why=_why_segment,
)
PERSISTENT_ROWS = replace(
    ROWS,
    holds=lambda program: bool(program.persistent_inputs),
    places=(IN_ROUNDS,),
    footprint=round_footprint,
    emit=_emit_persistent,
)
