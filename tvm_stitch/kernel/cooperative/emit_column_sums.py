"""Emits a part whose blocks iterate over the rows, and the sums over all rows where it has any.

In: a Program, its Mapping with a fixed number of blocks, in the global scheme a workspace in device
memory. Writes TIR into a Writer. Decides nothing.

The rows are worked on as in any other part; the next one can be on its way meanwhile. In the global
scheme each thread adds up its own columns in registers while the rows go by. Then every block
writes its partials into the workspace, once, and a barrier of the grid follows. After it the
blocks divide the columns among them; the partials are combined in a fixed order, so that equal
inputs give equal results to the bit. Columns of rows of any length are added up in the workspace
itself, each by the same thread from the first row to the last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from collections.abc import Mapping as MappingOf
from functools import cached_property

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen import reduction
from tvm_stitch.kernel.codegen.thread_indexing import Position, blocks_of_row
from tvm_stitch.kernel.codegen.tir_builder import Writer, vector_copy
from tvm_stitch.kernel.codegen.warp_shuffle import chained, combine
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.emit import IteratedPart, Part
from tvm_stitch.stages.extremes import EXTREMES
from tvm_stitch.stages.stage import Expr, Stage, Var, constant, dtype_of
from tvm_stitch.stages.symbolic_analyzer import int64

# A warp reads this many neighbouring columns of a partial: a whole line of memory, at least.
TASK = 32
# Rows side by side of which a thread adds up a column, where there are so many.
ADDED = 4


def workspace(program: Program, mapping: Mapping) -> Var:
    """Room for the partials of every reduction that each group of blocks has collected."""
    reductions, partials = (
        int64(len(program.column_reductions)),
        int64(mapping.blocks // blocks_of_row(program.space, mapping)),
    )
    dtype = reduction.accumulator_dtype(program.column_reductions[0])
    return tirx.decl_buffer((reductions, partials, program.space.columns), dtype, "workspace")


class ColumnSumsPart(IteratedPart):
    """One program on its way into TIR."""

    def emit(self) -> Expr:
        """Write the whole part."""
        in_memory = not self.mapping.steps
        start = start_sums if not in_memory else self._start_in_memory
        self.sums = start(self.program, self.mapping, self.writer)
        blocks = super().emit()
        if not in_memory:
            self._write_partials()
        self.writer.add(tirx.Evaluate(T.cuda.grid_sync()))
        self._finish()
        return blocks

    # Partials

    def _start_in_memory(
        self, program: Program, _mapping: Mapping, writer: Writer
    ) -> dict[Var, Var]:
        """A block's partials of every reduction over the rows, in the workspace."""
        columns, position = program.space.columns, self.position
        assert self.place.workspace is not None, "sums over the rows have a workspace"
        found = {}
        for number, stage in enumerate(program.column_reductions):
            first = (self.place.block + number * self.count) * columns
            own = found[stage.output] = writer.view(self.place.workspace, columns, first)
            nothing = stage.identity.astype(dtype_of(own))
            for steps in position.steps():
                with writer.serial(steps.count, "step") as step:
                    for lane in map(int64, range(self.mapping.vector)):
                        with writer.when(position.inside(step, lane)):
                            writer.store(own, position.column(step, lane), nothing)
        return found

    def _write_partials(self) -> None:
        """What the rows of a block collected, out to the workspace."""
        program, mapping, writer = self.program, self.mapping, self.writer
        tile = rows_tile(program, mapping, writer) if mapping.rows > 1 else None
        with self.writer.when(add_rows(program, mapping, self.sums, self.position, writer, tile)):
            for number, stage in enumerate(self.program.column_reductions):
                self._copy_partial(number, self.sums[stage.output])

    def _copy_partial(self, number: int, own: Var) -> None:
        mapping, position = self.mapping, self.position
        partial = tirx.floordiv(self.place.block, self.pieces) + number * self.count
        start = partial * self.program.space.columns
        for steps in position.steps():
            with self.writer.unrolled(steps.count, "step", steps.start) as step:

                def move(writer: Writer, lane: Expr, step: Expr = step) -> None:
                    value = own[step * mapping.vector + lane]
                    writer.store(self.place.workspace, start + position.column(step, lane), value)

                with self.writer.when(position.exists(step, steps.guard)):
                    vector_copy(self.writer, dtype_of(own), mapping.vector, move)

    # After the barrier

    def _finish(self) -> None:
        """The blocks divide the columns among them; a block's threads, the partials of each."""
        writer, columns = self.writer, self.program.space.columns
        width, blocks = self.width, self.mapping.blocks
        tasks = tirx.floordiv(columns + (width - 1), width)
        rounds = tirx.floordiv(tasks + (blocks - 1) - self.place.block, blocks)
        tiles = {stage.output: self._tile(stage) for stage in self.program.column_reductions}
        sync = tirx.Evaluate(T.tvm_storage_sync(reduction.scratch_scope(self.mapping)))
        with writer.serial(rounds, "task") as task:
            lane = tirx.floormod(self.place.thread, width)
            column = (task * blocks + self.place.block) * width + lane
            exact = constant(columns)
            exists = column < columns if exact is None or exact % width else None
            for number, stage in enumerate(self.program.column_reductions):
                value = self._own_partials(number, stage, column, exists)
                writer.store(tiles[stage.output], self.place.thread, value)
            writer.add(sync)
            first = self.place.thread < width
            with writer.when(first if exists is None else tirx.all(first, exists)):
                self._finish_column(tiles, lane, column)
            writer.add(sync)

    @cached_property
    def sharing(self) -> int:
        """How many threads share the partials of a column: fewer, if all have columns then."""
        warps, columns = self.mapping.block_threads // TASK, constant(self.program.space.columns)
        threads = self.mapping.blocks * self.mapping.block_threads
        most = threads // columns if columns else warps
        return next((each for each in range(min(warps, most), 1, -1) if warps % each == 0), 1)

    @property
    def width(self) -> int:
        """Columns that a block finishes in a round."""
        return self.mapping.block_threads // self.sharing

    def _tile(self, stage: Stage) -> Var:
        size, dtype = self.mapping.block_threads, reduction.accumulator_dtype(stage)
        scope = reduction.scratch_scope(self.mapping)
        return self.writer.allocate(f"{stage.name}_partials", size, dtype, scope)

    def _own_partials(self, number: int, stage: Stage, column: Expr, exists: Expr | None) -> Expr:
        """The sum of every so many partials of a column, by the threads that share it."""
        writer, sharing = self.writer, self.sharing
        dtype = reduction.accumulator_dtype(stage)
        partials = self.place.workspace
        assert partials is not None, "sums over the rows have a workspace"
        own = writer.allocate(f"{stage.name}_own", 1, dtype)
        writer.store(own, int64(0), stage.identity.astype(dtype))
        start, end = number * self.count, (number + 1) * self.count
        first = tirx.floordiv(self.place.thread, self.width)
        with (
            writer.when(exists),
            writer.serial(-(-self.count // sharing), "iteration") as iteration,
        ):
            partial = start + iteration * sharing + first
            with writer.when(partial < end if self.count % sharing else None):
                value = partials[partial * self.program.space.columns + column]
                writer.store(own, int64(0), combine(stage.combiner, own[int64(0)], value))
        return own[int64(0)]

    def _finish_column(self, tiles: dict[Var, Var], lane: Expr, column: Expr) -> None:
        """One thread has a column's results, and what is computed from them."""
        writer, values = self.writer, dict[Var, Expr]()
        part = self.part(int64(0))
        for stage in self.program.column_reductions:
            tile = tiles[stage.output]
            total = writer.allocate(stage.name, 1, dtype_of(tile))
            writer.store(total, int64(0), tile[lane])
            with writer.serial(self.sharing - 1, "other", start=1) as other:
                value = tile[other * self.width + lane]
                writer.store(total, int64(0), combine(stage.combiner, total[int64(0)], value))
            values[stage.output] = reduction.result(stage, total[int64(0)])
        finish_column(part, lambda stage: values[stage.output], column, column)


def start_sums(program: Program, mapping: Mapping, writer: Writer) -> dict[Var, Var]:
    """A thread's partials of every reduction over the rows, with nothing in it yet."""
    each, sums = mapping.vector * mapping.steps, {}
    for stage in program.column_reductions:
        dtype = reduction.accumulator_dtype(stage)
        sums[stage.output] = writer.allocate(f"{stage.name}_sums", each, dtype)
        with writer.unrolled(each, "element") as element:
            writer.store(sums[stage.output], element, stage.identity.astype(dtype))
    return sums


def rows_tile(program: Program, mapping: Mapping, writer: Writer) -> Var:
    """Room in shared memory for what the threads of a block have added up."""
    scope, size = reduction.scratch_scope(mapping), mapping.vector * mapping.steps
    dtype = reduction.accumulator_dtype(program.column_reductions[0])
    return writer.allocate("rows", size * mapping.block_threads, dtype, scope)


def add_rows(
    program: Program,
    mapping: Mapping,
    sums: MappingOf[Var, Var],
    position: Position,
    writer: Writer,
    tile: Var | None,
) -> Expr | None:
    """The first row's threads get the sums of what those of all rows hold of the same columns.

    What holds of them; None: there are no others.
    """
    if mapping.rows == 1:
        return None
    assert tile is not None, "rows side by side are combined in shared memory"
    scope, each = reduction.scratch_scope(mapping), mapping.vector * mapping.steps
    sync = tirx.Evaluate(T.tvm_storage_sync(scope))
    row, thread = position.row_of_block, position.thread

    def slot(row: Expr, element: Expr) -> Expr:
        return (row * each + element) * mapping.threads + thread

    def largest(element: Expr) -> Expr:
        return tile[slot(int64(0), element)]

    for stage in program.column_reductions:
        own = sums[stage.output]
        behind = [sums[s] for s, maximum in program.online_after.items() if maximum == stage.output]
        before = copied(own, each, writer) if behind else own
        with writer.unrolled(each, "element") as element:
            writer.store(tile, slot(row, element), own[element])
        writer.add(sync)
        left = _fewer_rows(stage, mapping, tile, row * mapping.threads + thread, writer)
        with writer.when(row == 0), writer.unrolled(each, "element") as element:
            others = [tile[slot(int64(other), element)] for other in range(1, left)]
            first = tile[slot(int64(0), element)] if left < mapping.rows else own[element]
            writer.store(own, element, chained(writer, stage, [first, *others]))
        writer.add(sync)
        if behind:
            with writer.when(row == 0), writer.unrolled(each, "element") as element:
                writer.store(tile, slot(int64(0), element), own[element])
            writer.add(sync)
            lower_sums(writer, before, behind, largest, each)
            writer.add(sync)
    return row == 0


def _fewer_rows(stage: Stage, mapping: Mapping, tile: Var, thread: Expr, writer: Writer) -> int:
    """The rows that are left in the tile once all threads of a block have added up of its columns.

    Each takes every so many rows of one column, and leaves their sum where it found the first. That
    must be one statement: behind several, TVM would place a barrier, in a branch.
    """
    if stage.combiner in EXTREMES:
        return mapping.rows
    rows, columns = mapping.rows, mapping.vector * mapping.steps * mapping.threads
    while rows >= ADDED and columns <= mapping.block_threads:
        most = min(mapping.block_threads // columns, rows // ADDED)
        left = next(count for count in range(most, 0, -1) if rows % count == 0)
        busy = left * columns
        with writer.when(thread < busy if busy < mapping.block_threads else None):
            own = [tile[thread + other * columns] for other in range(0, rows, left)]
            writer.store(tile, thread, chained(writer, stage, own))
        writer.add(tirx.Evaluate(T.tvm_storage_sync(reduction.scratch_scope(mapping))))
        rows = left
    return rows


def copied(own: Var, each: int, writer: Writer) -> Var:
    """What a thread has found so far."""
    tile = writer.allocate("before", each, dtype_of(own))
    with writer.unrolled(each, "element") as element:
        writer.store(tile, element, own[element])
    return tile


def lower_sums(
    writer: Writer, before: Var, sums: Iterable[Var], largest: Callable[[Expr], Expr], each: int
) -> None:
    """Sums behind the maxima that there were before, as sums behind larger ones."""
    with writer.unrolled(each, "element") as element:
        factor = writer.value("lowered", tirx.exp(before[element] - largest(element)))
        for total in sums:
            writer.store(total, element, total[element] * factor)


def finish_column(part: Part, total: Callable[[Stage], Expr], column: Expr, at: Expr) -> None:
    """What is computed from a column's totals, and what of it is written."""
    program, values = part.program, dict[Var, Expr]()
    for stage in program.stages:
        buffer = stage.output
        if buffer not in program.columnwise:
            continue
        if stage.is_reduction:
            values[buffer] = total(stage)
        else:
            value = part.value(stage, lambda read: values.get(read.buffer), part.at_column(column))
            values[buffer] = part.writer.value(stage.name, value)
        if program.writes(buffer):
            part.writer.store(part.views[buffer], at, values[buffer])
