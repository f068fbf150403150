"""Emits a kernel with small matrix products: a ProductProgram by its Mapping.

In: the ProductProgram, its Mapping, the block's number among the part's blocks and the thread's in
the block. Writes TIR into a Writer. Decides nothing.

A block works on rows that share their factors. These wait as tables in shared memory, and so does
every value that other threads of its row read. The threads of a row have its columns in strides,
for each of a batch of rows: all values of a thread are registers, and a product reads each element
of a table once for the whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from contextlib import contextmanager

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.analysis.addressing import COLUMN, ROW
from tvm_stitch.kernel.codegen import reduction
from tvm_stitch.kernel.codegen.placed_loads import load_now
from tvm_stitch.kernel.codegen.tir_builder import Place, all_of, evaluated
from tvm_stitch.kernel.ir.mapping import SmallMatmul
from tvm_stitch.kernel.ir.program import Where
from tvm_stitch.kernel.small_matmul.column_slices import STEP, waiting
from tvm_stitch.kernel.small_matmul.early_loads import early_loads
from tvm_stitch.kernel.small_matmul.footprint import staged_tables
from tvm_stitch.kernel.small_matmul.program import ProductProgram
from tvm_stitch.kernel.small_matmul.shared_operand import CHUNK, Contraction
from tvm_stitch.kernel.small_matmul.smem_copy import SHARED, ProductCopies
from tvm_stitch.kernel.small_matmul.smem_layout import Table, pitch
from tvm_stitch.kernel.small_matmul.thread_indexing import Columns, ProductPosition
from tvm_stitch.stages.patterns.matmul_pattern import ACCUMULATED
from tvm_stitch.stages.stage import Expr, Read, Stage, Var, dtype_of, handle, substitute
from tvm_stitch.stages.symbolic_analyzer import int64


class ProductPart:
    """One program on its way into TIR."""

    def __init__(self, program: ProductProgram, mapping: SmallMatmul, place: Place) -> None:
        self.program, self.mapping = program, mapping
        self.views, self.writer = place.views, place.writer
        self.position = ProductPosition(program, mapping, place.block, place.thread)
        self.copies = ProductCopies(self.position, place.views, place.writer)
        self.values: dict[Var, Var] = {}  # a thread's elements of each value
        self.waiting: dict[Var, Var] = {}
        self.tables: dict[object, tuple[Table, Var]] = {}
        self.early: dict[int, Var] = {}  # loads that were issued ahead, by their keys
        self.fetched: set[Var] = set()  # rows' factors that memory holds as they are
        self.unseen: set[Var] = set()  # what other threads may not have written yet

    def emit(self) -> Expr:
        """Write the kernel's body; the number of blocks."""
        self._copy_in()
        for buffer, columns in waiting(self.program, self.position.slices).items():
            if buffer not in self.waiting:
                size = self.mapping.block_rows * pitch(columns)
                name = f"{buffer.name}_row"
                self.waiting[buffer] = self.writer.allocate(name, size, dtype_of(buffer), SHARED)
        self._load_early()
        for stage in self.program.stages:
            if stage.output in self.fetched:
                continue
            self._wait(stage)
            if stage.output in self.program.contractions:
                self._emit_product(stage)
            elif stage.is_reduction:
                self._emit_reduction(stage)
            else:
                self._emit_elements(stage)
            self._pass_on(stage.output)
        return self.position.blocks

    @contextmanager
    def _elements(
        self, columns: Columns, rows: int | None = None
    ) -> Iterator[tuple[Expr, Expr, Expr]]:
        """Loops over a thread's elements: the row's number, the step, the place in registers."""
        with (
            self.writer.unrolled(self.mapping.batch if rows is None else rows, "row") as row,
            self.writer.unrolled(columns.steps, "step") as step,
        ):
            yield row, step, row * columns.steps + step

    # From memory

    def _copy_in(self) -> None:
        """Everything that is copied into shared memory; nothing waits for it yet."""
        for table in staged_tables(self.program, self.mapping):
            buffer = self.copies.stage(table, f"panel{len(self.tables)}")
            self.tables[table.panel.key] = table, buffer
            self.unseen.add(buffer)
        copied: dict[object, Var] = {}
        for contraction in self.program.contractions.values():
            panel = contraction.async_input
            if panel is None:
                continue
            if panel.key not in copied:
                copied[panel.key] = self.copies.fetch(contraction, panel)
            self.waiting[contraction.own] = copied[panel.key]
            self.fetched.add(contraction.own)
        self.unseen |= set(copied.values())

    def _load_early(self) -> None:
        """Loads whose latency would otherwise come on top of that of the products."""
        for stage, read in early_loads(self.program, self.mapping):
            columns = self.position.walked(stage)
            rows = 1 if self.program.is_common(stage, read) else self.mapping.batch
            name, each = f"{read.buffer.name}_early", rows * columns.steps
            loaded = self.writer.allocate(name, each, dtype_of(read.buffer))
            with self._elements(columns, rows) as (row, step, place):
                value = self._placed(stage, read.load, row, columns.at(step, self.position.lane))
                self.writer.store(loaded, place, load_now(value))
            self.early[read.key] = loaded

    # Between threads

    def _wait(self, stage: Stage) -> None:
        """A barrier, if the stage reads what others write."""
        contraction = self.program.contractions.get(stage.output)
        read = {self.waiting[each.buffer] for each in stage.reads if self._from_others(stage, each)}
        if contraction is not None and contraction.panel.key in self.tables:
            read.add(self.tables[contraction.panel.key][1])
        if read & self.unseen:
            self.copies.wait()
            self.writer.add(tirx.Evaluate(T.tvm_storage_sync(SHARED)))
            self.unseen.clear()

    def _from_others(self, stage: Stage, read: Read) -> bool:
        """Whether a read is of what a thread of the row has passed on."""
        if read.buffer not in self.program.producer or self.position.is_sliced(read.buffer):
            return False
        where = self.program.place(stage, read)
        sliced = self.position.is_sliced(stage.output)
        return where is Where.ALONG or (where is Where.SAME and sliced)

    def _pass_on(self, buffer: Var) -> None:
        """A value goes where others read it: other threads, and memory."""
        columns, lane = self.position.columns(buffer), self.position.lane
        if buffer in self.waiting:
            with (
                self._elements(columns) as (row, step, place),
                self.writer.when(all_of(columns.exists(step, lane), self.position.leads)),
            ):
                at = self.position.local(row) * pitch(columns.count) + columns.at(step, lane)
                self.writer.store(self.waiting[buffer], at, self.values[buffer][place])
            self.unseen.add(self.waiting[buffer])
        if self.program.writes(buffer):
            with (
                self._elements(columns) as (row, step, place),
                self.writer.when(self.position.writes(buffer, row, step)),
            ):
                here = {ROW: self._row(row), COLUMN: columns.at(step, lane)}
                at = substitute(self.program.place_in_memory(buffer), here)
                self.writer.store(self.views[buffer], at, self.values[buffer][place])

    def _row(self, number: Expr) -> Expr:
        return self.position.row(self.position.local(number))

    # Stages

    def _emit_elements(self, stage: Stage) -> None:
        columns = self.position.columns(stage.output)
        each = self.mapping.batch * columns.steps
        values = self.writer.allocate(stage.name, each, dtype_of(stage.output))
        with self._elements(columns) as (row, step, place):
            self.writer.store(values, place, self._value(stage, row, step))
        self.values[stage.output] = values

    def _emit_reduction(self, stage: Stage) -> None:
        """Along each row of the batch; every thread of the row gets the result."""
        columns = self.position.walked(stage)
        dtype = dtype_of(stage.output)
        values = self.writer.allocate(stage.name, self.mapping.batch, dtype)
        for number in map(int64, range(self.mapping.batch)):
            accumulator = reduction.start(self.writer, stage, self.mapping)
            with (
                self.writer.unrolled(columns.steps, "step") as step,
                self.writer.when(columns.exists(step, self.position.lane)),
            ):
                accumulator.add(self.writer, int64(0), self._value(stage, number, step))
            result = reduction.finish_in_warp(
                self.writer, accumulator, self.mapping.threads, self.position.apart
            )
            self.writer.store(values, number, result)
        self.values[stage.output] = values

    def _emit_product(self, stage: Stage) -> None:
        contraction = self.program.contractions[stage.output]
        columns = self.position.columns(stage.output)
        each = self.mapping.batch * columns.steps
        totals = self.writer.allocate(f"{stage.name}_total", each, ACCUMULATED)
        with self.writer.unrolled(each, "element") as element:
            self.writer.store(totals, element, tirx.const(0.0, ACCUMULATED))
        chunks, rest = divmod(contraction.contracted, CHUNK)
        parts = self.mapping.depth_split
        if chunks:
            with self.writer.serial(chunks // parts, "chunk") as iteration:
                chunk = iteration * parts + self.position.depth_part
                self._multiply(contraction, totals, columns, chunk * CHUNK, CHUNK)
        for depth in range(chunks * CHUNK, chunks * CHUNK + rest):
            self._multiply(contraction, totals, columns, int64(depth), 1)
        if parts > 1:
            self._add_partials(stage, totals, each)
        values = totals
        if dtype_of(stage.output) != ACCUMULATED:
            values = self.writer.allocate(stage.name, each, dtype_of(stage.output))
            with self.writer.unrolled(each, "element") as element:
                self.writer.store(values, element, reduction.result(stage, totals[element]))
        self.values[stage.output] = values

    def _add_partials(self, stage: Stage, totals: Var, each: int) -> None:
        """Every thread adds up what those that share its depth have found, in one order."""
        writer, threads = self.writer, self.mapping.block_threads
        partial = writer.allocate(f"{stage.name}_partials", threads * each, ACCUMULATED, SHARED)
        own = self.position.thread * each
        with writer.unrolled(each, "element") as element:
            writer.store(partial, own + element, totals[element])
        writer.add(tirx.Evaluate(T.tvm_storage_sync(SHARED)))
        first = tirx.floormod(self.position.thread, self.mapping.row_threads) * each
        with writer.unrolled(each, "element") as element:
            found = [
                partial[first + part * self.mapping.row_threads * each + element]
                for part in range(self.mapping.depth_split)
            ]
            writer.store(totals, element, sum(found[1:], found[0]))

    def _multiply(
        self, contraction: Contraction, totals: Var, columns: Columns, depth: Expr, count: int
    ) -> None:
        """Add the products of some neighbouring elements along the depth."""
        writer, batch = self.writer, self.mapping.batch
        waiting, own_pitch = self.waiting[contraction.own], pitch(contraction.contracted)
        own = writer.allocate("own", batch * count, ACCUMULATED)
        with writer.unrolled(batch, "row") as row, writer.vectorized(count, "near") as near:
            at = self.position.local(row) * own_pitch + depth + near
            writer.store(own, row * count + near, waiting[at])
        table = self.tables.get(contraction.panel.key)
        group = 1 if table is None else table[0].group
        shared = writer.allocate("shared", count * group, ACCUMULATED)
        with writer.unrolled(columns.steps // group, "step") as step:
            self._load_shared(contraction, shared, columns, step * group, depth, count)
            with (
                writer.unrolled(batch, "row") as row,
                writer.unrolled(count, "near") as near,
                writer.unrolled(group, "beside") as beside,
            ):
                at = row * columns.steps + step * group + beside
                added = own[row * count + near] * shared[near * group + beside]
                writer.store(totals, at, totals[at] + added)

    def _load_shared(
        self,
        contraction: Contraction,
        target: Var,
        columns: Columns,
        step: Expr,
        depth: Expr,
        count: int,
    ) -> None:
        """Elements of the rows' common factor, in one access where they lie side by side."""
        writer, panel, lane = self.writer, contraction.panel, self.position.lane
        found = self.tables.get(panel.key)
        if found is None:
            column = columns.at(step, lane)
            with writer.unrolled(count, "near") as near:
                place = contraction.place(depth + near, column)
                writer.store(target, near, self.copies.from_memory(panel, *place))
            return
        table, staged = found
        if table.group > 1:
            start = table.grouped(step, lane)
            with (
                writer.unrolled(count, "near") as near,
                writer.vectorized(table.group, "beside") as beside,
            ):
                at = (depth + near) * table.pitch + start + beside
                writer.store(target, near * table.group + beside, staged[at])
            return
        own = columns.at if table.sliced is None else columns.place
        column = own(step, lane)
        loop = writer.vectorized if contraction.by_depth else writer.unrolled
        with loop(count, "near") as near:
            slow, fast = contraction.place(depth + near, column)
            writer.store(target, near, staged[slow * table.pitch + fast])

    # Values

    def _value(self, stage: Stage, row: Expr, step: Expr) -> Expr:
        """A stage's value, loads replaced by what is known of them."""
        columns = self.position.walked(stage)
        column = columns.at(step, self.position.lane)
        known = {}
        for read in stage.reads:
            if read.key in self.early:
                first = 0 if self.program.is_common(stage, read) else row * columns.steps
                known[read.key] = self.early[read.key][first + step]
            elif read.buffer in self.program.producer:
                known[read.key] = self._computed(stage, read, row, step, column)
        return self._placed(stage, stage.value, row, column, known)

    def _placed(
        self,
        stage: Stage,
        value: Expr,
        row: Expr,
        column: Expr,
        known: MappingOf[int, Expr] | None = None,
    ) -> Expr:
        """An expression of a stage's axes at a row and column, loads as far as they are known."""
        here = {ROW: self._row(row), COLUMN: column}
        return evaluated(self.views, value, known or {}, self.program.axes[stage.output], here)

    def _computed(self, stage: Stage, read: Read, row: Expr, step: Expr, column: Expr) -> Expr:
        """What another stage of the kernel has computed of a row."""
        key, where = (handle(stage.output), read.key), self.program.place(stage, read)
        if self._from_others(stage, read):
            other = column
            if where is Where.ALONG:
                other = substitute(self.program.column_of[key], {COLUMN: column})
            at = self.position.local(row) * pitch(self.program.columns[read.buffer])
            return self.waiting[read.buffer][at + other]
        steps = self.position.columns(read.buffer).steps
        if where is Where.ALONG:
            assert self.position.slices is not None, "a thread's own columns are known by slices"
            step = substitute(self.position.slices.step_of[key], {STEP: step})
        return self.values[read.buffer][row if where is Where.ROW else row * steps + step]
