"""Emits a kernel with small matrix products: a ProductProgram by its Mapping.

In: the ProductProgram, its Mapping, the block's number among the part's blocks and the thread's in
the block. Writes TIR into a Writer. Decides nothing.

A block works on rows that share their factors. These wait as panels in shared memory, and so does
every value that other threads of its row read. The threads of a row have its columns in turns, for
each of a batch of rows: all values of a thread are registers, and a product reads each element of a
panel once for the whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as MappingOf
from contextlib import contextmanager
from functools import partial

import tvm_ffi
from tvm import ir, tirx
from tvm.script import tirx as T

from tvm_stitch.kernel import reduce
from tvm_stitch.kernel.choose_product import pitch, staged_panels
from tvm_stitch.kernel.frame import COLUMN, ROW
from tvm_stitch.kernel.product import ACCUMULATED
from tvm_stitch.kernel.product_panel import CHUNK, ENTRY, FAST, SLOW, Contraction, Panel
from tvm_stitch.kernel.product_program import ProductProgram
from tvm_stitch.kernel.program import Where
from tvm_stitch.kernel.schedule import Mapping
from tvm_stitch.kernel.stage import (
    Expr,
    Read,
    Stage,
    Var,
    constant,
    dtype_of,
    handle,
    substitute,
)
from tvm_stitch.kernel.writer import Writer, flat_load, int64

# TVM gives values that live one after the other the same place, with a barrier between.
SHARED = "shared.dyn"


class ProductPart:
    """One program on its way into TIR."""

    def __init__(
        self,
        program: ProductProgram,
        mapping: Mapping,
        views: MappingOf[Var, Var],
        block: Expr,
        thread: Expr,
        writer: Writer,
    ) -> None:
        self.program, self.mapping, self.views, self.writer = program, mapping, views, writer
        self.thread = thread
        self.team = tirx.floordiv(thread, mapping.threads)
        self.lane = tirx.floormod(thread, mapping.threads)
        pieces = -(-program.inner // mapping.block_rows)
        rows = constant(program.space.rows) or 1
        self.blocks = int64(rows // program.inner * pieces)
        self.entry = tirx.floordiv(block, pieces)
        self.first = tirx.floormod(block, pieces) * mapping.block_rows
        self.values: dict[Var, Var] = {}  # a thread's elements of each value
        self.waiting: dict[Var, Var] = {}
        self.panels: dict[object, Var] = {}
        self.unseen: set[Var] = set()  # what other threads may not have written yet

    def emit(self) -> None:
        """Write the kernel's body."""
        for panel in staged_panels(self.program, self.mapping):
            self._stage(panel)
        for buffer, columns in self.program.waiting.items():
            size = self.mapping.block_rows * pitch(columns)
            name = f"{buffer.name}_row"
            self.waiting[buffer] = self.writer.allocate(name, size, dtype_of(buffer), SHARED)
        for stage in self.program.stages:
            self._wait(stage)
            if stage.output in self.program.contractions:
                self._emit_product(stage)
            elif stage.is_reduction:
                self._emit_reduction(stage)
            else:
                self._emit_elements(stage)
            self._pass_on(stage.output)

    # Rows and columns of a thread

    def _local(self, number: Expr) -> Expr:
        """A row of the thread's batch, counted in the block."""
        return number * self.mapping.rows + self.team

    def _row(self, number: Expr) -> Expr:
        """The same in memory. A row past the end computes the last one again."""
        inside = self.first + self._local(number)
        if self.program.inner % self.mapping.block_rows:
            inside = tirx.min(inside, self.program.inner - 1)
        return self.entry * self.program.inner + inside

    def _row_exists(self, number: Expr) -> Expr | None:
        if self.program.inner % self.mapping.block_rows == 0:
            return None
        return self.first + self._local(number) < self.program.inner

    def _steps(self, columns: int) -> int:
        return -(-columns // self.mapping.threads)

    def _column(self, step: Expr, columns: int) -> Expr:
        """A column of a thread; past the row's end the last one."""
        column = step * self.mapping.threads + self.lane
        return tirx.min(column, columns - 1) if columns % self.mapping.threads else column

    def _column_exists(self, step: Expr, columns: int) -> Expr | None:
        if columns % self.mapping.threads == 0:
            return None
        return step * self.mapping.threads + self.lane < columns

    @contextmanager
    def _elements(self, columns: int) -> Iterator[tuple[Expr, Expr, Expr]]:
        """Loops over a thread's elements: the row's number, the step, the place in registers."""
        steps = self._steps(columns)
        with (
            self.writer.unrolled(self.mapping.batch, "row") as row,
            self.writer.unrolled(steps, "step") as step,
        ):
            yield row, step, row * steps + step

    # Between threads

    def _wait(self, stage: Stage) -> None:
        """A barrier, if the stage reads what others write."""
        contraction = self.program.contractions.get(stage.output)
        read = {
            self.waiting[each.buffer]
            for each in stage.reads
            if self.program.place(stage, each) is Where.ALONG
        }
        if contraction is not None and contraction.panel.key in self.panels:
            read.add(self.panels[contraction.panel.key])
        if read & self.unseen:
            self.writer.add(tirx.Evaluate(T.tvm_storage_sync(SHARED)))
            self.unseen.clear()

    def _stage(self, panel: Panel) -> None:
        """All threads of the block copy a panel."""
        writer, threads = self.writer, self.mapping.block_threads
        width = 1 if panel.copied is None else CHUNK
        accesses = panel.slow * panel.fast // width
        name = f"panel{len(self.panels)}"
        buffer = writer.allocate(name, panel.slow * pitch(panel.fast), ACCUMULATED, SHARED)
        with writer.unrolled(-(-accesses // threads), "copy") as copy:
            access = copy * threads + self.thread
            slow = tirx.floordiv(access * width, panel.fast)
            fast = tirx.floormod(access * width, panel.fast)
            with writer.when(access < accesses if accesses % threads else None):
                values = self._load_panel(panel, slow, fast)
                with writer.vectorized(width, "near") as near:
                    writer.store(buffer, slow * pitch(panel.fast) + fast + near, values[near])
        self.panels[panel.key] = buffer
        self.unseen.add(buffer)

    def _load_panel(self, panel: Panel, slow: Expr, fast: Expr) -> Var:
        """An element of a panel from memory, or as many as come in one access."""
        writer = self.writer
        if panel.copied is None:
            values = writer.allocate("copied", 1, ACCUMULATED)
            writer.store(values, int64(0), self._from_memory(panel, slow, fast))
            return values
        load = substitute(panel.copied, {ENTRY: self.entry, SLOW: slow, FAST: fast})
        flat = self._flat(load)
        loaded = writer.allocate("loaded", CHUNK, dtype_of(load.source))
        with writer.vectorized(CHUNK, "near") as near:
            writer.store(loaded, near, flat.source[flat.indices[0] + near])
        if dtype_of(load.source) == ACCUMULATED:
            return loaded
        values = writer.allocate("copied", CHUNK, ACCUMULATED)
        with writer.unrolled(CHUNK, "near") as near:
            writer.store(values, near, loaded[near].astype(ACCUMULATED))
        return values

    def _from_memory(self, panel: Panel, slow: Expr, fast: Expr) -> Expr:
        return self._flat(substitute(panel.value, {ENTRY: self.entry, SLOW: slow, FAST: fast}))

    def _pass_on(self, buffer: Var) -> None:
        """A value goes where others read it: other threads, and memory."""
        columns = self.program.columns[buffer]
        if buffer in self.waiting:
            waiting = self.waiting[buffer]
            with (
                self._elements(columns) as (row, step, place),
                self.writer.when(self._column_exists(step, columns)),
            ):
                at = self._local(row) * pitch(columns) + self._column(step, columns)
                self.writer.store(waiting, at, self.values[buffer][place])
            self.unseen.add(waiting)
        if buffer in self.program.outputs:
            with (
                self._elements(columns) as (row, step, place),
                self.writer.when(self._writes(row, step, columns)),
            ):
                here = {ROW: self._row(row), COLUMN: self._column(step, columns)}
                at = substitute(self.program.place_in_memory(buffer), here)
                self.writer.store(self.views[buffer], at, self.values[buffer][place])

    def _writes(self, row: Expr, step: Expr, columns: int) -> Expr | None:
        """Whether a thread writes an element; None: all do."""
        column = self.lane == 0 if columns == 1 else self._column_exists(step, columns)
        found = [each for each in (self._row_exists(row), column) if each is not None]
        return tirx.all(*found) if found else None

    # Stages

    def _emit_elements(self, stage: Stage) -> None:
        columns = self.program.columns[stage.output]
        each = self.mapping.batch * self._steps(columns)
        values = self.writer.allocate(stage.name, each, dtype_of(stage.output))
        with self._elements(columns) as (row, step, place):
            self.writer.store(values, place, self._value(stage, row, step))
        self.values[stage.output] = values

    def _emit_reduction(self, stage: Stage) -> None:
        """Along each row of the batch; every thread of the row gets the result."""
        columns = self.program.walked(stage)
        dtype = dtype_of(stage.output)
        values = self.writer.allocate(stage.name, self.mapping.batch, dtype)
        for number in map(int64, range(self.mapping.batch)):
            accumulator = reduce.start(self.writer, stage, self.mapping)
            with (
                self.writer.unrolled(self._steps(columns), "step") as step,
                self.writer.when(self._column_exists(step, columns)),
            ):
                accumulator.add(self.writer, int64(0), self._value(stage, number, step))
            result = reduce.finish_in_warp(self.writer, accumulator, self.mapping.threads)
            self.writer.store(values, number, result)
        self.values[stage.output] = values

    def _emit_product(self, stage: Stage) -> None:
        contraction = self.program.contractions[stage.output]
        columns = self.program.columns[stage.output]
        each = self.mapping.batch * self._steps(columns)
        totals = self.writer.allocate(f"{stage.name}_total", each, ACCUMULATED)
        with self.writer.unrolled(each, "element") as element:
            self.writer.store(totals, element, tirx.const(0.0, ACCUMULATED))
        chunks, rest = divmod(contraction.contracted, CHUNK)
        if chunks:
            with self.writer.serial(chunks, "chunk") as chunk:
                self._multiply(contraction, totals, columns, chunk * CHUNK, CHUNK)
        for depth in range(chunks * CHUNK, chunks * CHUNK + rest):
            self._multiply(contraction, totals, columns, int64(depth), 1)
        values = totals
        if dtype_of(stage.output) != ACCUMULATED:
            values = self.writer.allocate(stage.name, each, dtype_of(stage.output))
            with self.writer.unrolled(each, "element") as element:
                self.writer.store(values, element, reduce.result(stage, totals[element]))
        self.values[stage.output] = values

    def _multiply(
        self, contraction: Contraction, totals: Var, columns: int, depth: Expr, count: int
    ) -> None:
        """Add the products of some neighbouring elements along the depth."""
        writer, batch, steps = self.writer, self.mapping.batch, self._steps(columns)
        waiting, own_pitch = self.waiting[contraction.own], pitch(contraction.contracted)
        own = writer.allocate("own", batch * count, ACCUMULATED)
        with writer.unrolled(batch, "row") as row, writer.vectorized(count, "near") as near:
            at = self._local(row) * own_pitch + depth + near
            writer.store(own, row * count + near, waiting[at])
        shared = writer.allocate("shared", count, ACCUMULATED)
        with writer.unrolled(steps, "step") as step:
            self._load_shared(contraction, shared, self._column(step, columns), depth, count)
            with writer.unrolled(batch, "row") as row, writer.unrolled(count, "near") as near:
                at = row * steps + step
                added = own[row * count + near] * shared[near]
                writer.store(totals, at, totals[at] + added)

    def _load_shared(
        self, contraction: Contraction, target: Var, column: Expr, depth: Expr, count: int
    ) -> None:
        """Elements of the rows' common factor, in one access where they lie side by side."""
        writer, panel = self.writer, contraction.panel
        staged = self.panels.get(panel.key)
        loop = writer.vectorized if staged is not None and contraction.by_depth else writer.unrolled
        with loop(count, "near") as near:
            slow, fast = depth + near, column
            if contraction.by_depth:
                slow, fast = fast, slow
            if staged is None:
                value = self._from_memory(panel, slow, fast)
            else:
                value = staged[slow * pitch(panel.fast) + fast]
            writer.store(target, near, value)

    # Values

    def _value(self, stage: Stage, row: Expr, step: Expr) -> Expr:
        """A stage's value, loads replaced by what is known of them."""
        columns = self.program.walked(stage)
        column = self._column(step, columns)
        place = row * self._steps(columns) + step
        known = {
            read.key: self._computed(stage, read, row, column, place)
            for read in stage.reads
            if read.buffer in self.program.producer
        }
        axes = {
            axis: substitute(expr, {ROW: self._row(row), COLUMN: column})
            for axis, expr in self.program.axes[stage.output].items()
        }

        def visit(node: Expr) -> Expr:
            if isinstance(node, ir.TensorLoad):
                return known.get(handle(node), node)
            return axes.get(node, node)

        visitors = [(ir.TensorLoad, visit), (tirx.Var, visit)]
        return self._flat(tvm_ffi.structural_map(stage.value, visitors, order="pre"))

    def _computed(self, stage: Stage, read: Read, row: Expr, column: Expr, place: Expr) -> Expr:
        """What another stage of the kernel has computed of a row."""
        where = self.program.place(stage, read)
        if where is Where.SAME:
            return self.values[read.buffer][place]
        if where is Where.ROW:
            return self.values[read.buffer][row]
        other = self.program.column_of[handle(stage.output), read.key]
        pitched = self._local(row) * pitch(self.program.columns[read.buffer])
        return self.waiting[read.buffer][pitched + substitute(other, {COLUMN: column})]

    def _flat(self, expr: Expr) -> Expr:
        """The expression with loads from parameters as loads from their flat views."""
        return tvm_ffi.structural_map(expr, (ir.TensorLoad, partial(flat_load, self.views)))
