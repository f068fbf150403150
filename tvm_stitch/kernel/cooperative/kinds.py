"""Rows that are summed over, and rows that wait for the next round, as kinds: see analysis/kind."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tvm_stitch.kernel.analysis.kind import POWERS, Axes, Problem, Values
from tvm_stitch.kernel.codegen.footprint import STATIC_SHARED
from tvm_stitch.kernel.codegen.thread_indexing import Position, blocks_of, blocks_of_row
from tvm_stitch.kernel.codegen.tir_builder import Place, int64
from tvm_stitch.kernel.cooperative.choose_column_sums import (
    grid_mapping,
    grid_shared_bytes,
    resident_blocks,
    with_blocks,
)
from tvm_stitch.kernel.cooperative.choose_rounds import row_segment_mapping
from tvm_stitch.kernel.cooperative.emit_column_sums import ColumnSumsPart, workspace
from tvm_stitch.kernel.cooperative.emit_persistent_row import PersistentRow, RoundPlace
from tvm_stitch.kernel.cooperative.emit_row_segment import RowSegmentPart
from tvm_stitch.kernel.ir.mapping import MAX_BLOCK_THREADS, WARP, ColumnSums, Mapping, RowSegment
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.stage import Expr, Refused, Var
from tvm_stitch.kernel.rows.emit import emit_batch
from tvm_stitch.kernel.rows.kind import RowsKind, held_elements, steps_of
from tvm_stitch.kernel.rows.vector_width import vector_width


class ColumnSumsKind(RowsKind):
    """A grid whose blocks are all resident, and meet once all rows have gone by."""

    mappings = (ColumnSums,)
    flags = ()

    def holds(self, program: Program) -> bool:
        """Anything is reduced over the rows."""
        return bool(program.column_reductions)

    def choose(self, problem: Problem[Program]) -> Mapping | Refused:
        """See cooperative/choose_column_sums."""
        program = problem.program
        return grid_mapping(program, problem.device, vector_width(program), problem.columns)

    def alone(self, _problem: Problem[Program], mapping: Any) -> Any:
        """It always is."""
        return mapping

    def illegal(self, problem: Problem[Program], mapping: Any) -> Iterator[str]:
        """See Kind."""
        program, device = problem.program, problem.device
        if mapping.blocks < 1:
            yield "sums over the rows need blocks that iterate over the rows"
            return
        if problem.is_open:
            yield "sums over rows of unknown length"
        if not problem.aligned(mapping.vector):
            yield f"rows that do not start at multiples of {mapping.vector} elements"
        if mapping.split and program.row_reductions:
            yield "a row that is reduced cannot be split over blocks"
        if not mapping.split and mapping.capacity < problem.columns:
            yield f"rows of {problem.columns} columns, of which it covers {mapping.capacity}"
        yield from held_elements(problem, mapping)
        needed = grid_shared_bytes(program, mapping)
        if needed > STATIC_SHARED:
            yield f"{needed} bytes of shared memory for the sums over the rows"
        if mapping.blocks % blocks_of_row(program.space, mapping):
            yield f"{mapping.blocks} blocks cannot share the pieces of a row evenly"
        # A block that waits for room would keep the others waiting for it at the barrier.
        room = resident_blocks(program, mapping, device)
        if not 1 <= mapping.min_blocks_per_sm <= room:
            asked = f"{mapping.min_blocks_per_sm} blocks of a multiprocessor"
            yield f"{asked}, which has room for {room}"
        if mapping.blocks > device.multiprocessors * mapping.min_blocks_per_sm:
            yield f"{mapping.blocks} blocks, more than are resident at once"

    def workspace(self, program: Program, mapping: Any) -> Var | None:
        """Where blocks leave their shares of the sums."""
        return workspace(program, mapping)

    def emit(self, program: Program, mapping: Any, place: Place) -> Expr:
        """Write its statements."""
        part = ColumnSumsPart(program, mapping, place)
        part.emit()
        return part.position.blocks

    def axes(self, _program: Program) -> Axes:
        """Blocks follow from how many are resident; steps too, where rows are not split."""
        return {
            "threads": POWERS,
            "rows": POWERS,
            "vector": POWERS[:5],
            "split": (False, True),
            "steps": POWERS[:4],
            "recompute": (False, True),
            "prefetch_next_row": (False, True),
            "min_blocks_per_sm": (1, 2, 3, 4, 6, 8),
        }

    def values(self, program: Program, mapping: Any) -> Values:
        """See Kind."""
        return {name: getattr(mapping, name) for name in self.axes(program)}

    def fitted(self, problem: Problem[Program], values: Values) -> Any:
        """With as many blocks as may be resident, if other values do not say the same."""
        mapping, wanted = ColumnSums(**values), values["min_blocks_per_sm"]
        if not WARP <= mapping.block_threads <= MAX_BLOCK_THREADS:
            return None
        program, device, columns = problem.program, problem.device, problem.columns
        if not mapping.split:
            mapping = replace(mapping, steps=steps_of(mapping, columns))
        found = with_blocks(program, mapping, device, columns, wanted)
        return found if found is not None and found.min_blocks_per_sm == wanted else None


class RowSegmentKind(RowsKind):
    """A round in which a block goes through some columns of a segment of rows."""

    mappings = (RowSegment,)

    def holds(self, program: Program) -> bool:
        """Rows are reduced over segment by segment."""
        return program.space.row_segment is not None

    def choose(self, problem: Problem[Program]) -> Mapping | Refused:
        """See cooperative/choose_rounds."""
        return row_segment_mapping(problem.program, vector_width(problem.program))

    def illegal(self, problem: Problem[Program], mapping: Any) -> Iterator[str]:
        """See Kind."""
        if not problem.aligned(mapping.vector):
            yield f"rows that do not start at multiples of {mapping.vector} elements"
        yield from held_elements(problem, mapping)

    def emit(self, program: Program, mapping: Any, place: Place) -> Expr:
        """Write its statements."""
        assert isinstance(place, RoundPlace), "segments are reduced in rounds"
        part = RowSegmentPart(program, mapping, place)
        part.emit()
        return part.position.blocks


class PersistentRowsKind(RowsKind):
    """Whole rows of which the first wait, each turn of the grid in a place of its own."""

    def holds(self, program: Program) -> bool:
        """Several rounds read the same rows."""
        return bool(program.persistent_inputs)

    def emit(self, program: Program, mapping: Any, place: Place) -> Expr:
        """Write its statements."""
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
