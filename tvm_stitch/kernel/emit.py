"""A Program and a Schedule become one thread-bound TIR function.

In: the fused PrimFunc, its Program, a Schedule that kernel/choose found legal. Out: a PrimFunc with
the same parameters that TVM's CUDA target builds. Decides nothing: mapping comes from the Schedule,
what is kept from kernel/memory.

The kernel goes through the row once for each phase. In a phase, all elements of a thread are
computed one after the other from what it loads or has kept, and added to the phase's reductions;
these end the phase.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.tirx import IterVar

from tvm_stitch.kernel import reduce
from tvm_stitch.kernel.frame import COLUMN, ROW, Address, Frame, Stride
from tvm_stitch.kernel.memory import Residency, item_bytes
from tvm_stitch.kernel.program import Program, Where
from tvm_stitch.kernel.schedule import Schedule
from tvm_stitch.kernel.stage import (
    Expr,
    Read,
    Stage,
    Var,
    as_int64,
    buffer_shape,
    constant,
    handle,
    product,
    substitute,
)
from tvm_stitch.kernel.writer import Writer, int64

ACCESS_BYTES = 16
Element = Callable[[Expr, Expr], Expr]  # (step, lane) -> index of a thread's element


def emit(
    func: tirx.PrimFunc,
    program: Program,
    residency: Residency,
    schedule: Schedule,
    columns_bound: int,
) -> tirx.PrimFunc:
    """The kernel. `columns_bound` is the most columns it may meet where they are symbolic."""
    body = _Emitter(program, residency, schedule, columns_bound).kernel()
    emitted = tirx.PrimFunc(func.params, body, func.ret_type)
    for key, value in (func.attrs or {}).items():
        emitted = emitted.with_attr(key, value)
    return emitted.with_attrs({"tirx.noalias": True, "tirx.is_scheduled": True, "s_tir": True})


@dataclass(frozen=True)
class Steps:
    """Consecutive steps of a thread that need the same care at the row's ends."""

    start: int
    count: int
    care: str  # "none"; "vector": a whole vector may lie outside; "edge": a part of one may


@dataclass
class _Phase:
    """What a phase has at hand."""

    number: int
    loaded: dict[Var, tuple[Var, Element]] = field(default_factory=dict)
    accumulators: dict[Var, reduce.Accumulator] = field(default_factory=dict)


class _Emitter:
    def __init__(
        self, program: Program, residency: Residency, schedule: Schedule, columns_bound: int
    ) -> None:
        self.program, self.residency, self.schedule = program, residency, schedule
        self.columns_bound = columns_bound
        self.frame = Frame(program)
        self.writer = Writer()
        self.thread_var = tirx.Var("thread", "int32")
        self.row_var = tirx.Var("row_of_block", "int32")
        self.block_var = tirx.Var("block", "int32")
        self.thread = self.thread_var.astype("int64")
        self.views: dict[Var, Var] = {}
        self.row_values: dict[Var, Expr] = {}
        self.row_loads: dict[tuple[Var, str], Expr] = {}
        self.kept: dict[Var, Var] = {}
        self._place_rows()

    def _place_rows(self) -> None:
        """The row of a thread, where it starts, and whether it exists."""
        space, schedule = self.program.space, self.schedule
        block = self.block_var.astype("int64")
        self.row_exists: Expr | None = None
        if schedule.split:
            self.row: Expr = int64(0)
            self.first_column: Expr = block * schedule.reach
        else:
            self.row = block
            if schedule.rows > 1:
                self.row = block * schedule.rows + self.row_var.astype("int64")
            rows = constant(space.rows)
            if schedule.rows > 1 and (rows is None or rows % schedule.rows):
                # A row past the end computes the last one again and does not write it: no thread
                # leaves, so barriers and shuffles stay whole.
                self.row_exists = self.row < space.rows
                self.row = tirx.min(self.row, space.rows - 1)
            self.first_column = int64(0)
        start = self.row * space.columns
        self.origin: Expr = start + self.first_column
        if schedule.peeled:
            self.origin = tirx.floordiv(start, schedule.vector) * schedule.vector
            # Not an expression of the row: TVM would simplify the guards of the row's ends with it,
            # to divisions by the row's length.
            first = (self.origin - start).astype("int32")
            stored = self.writer.value("first_column", first).astype("int64")
            # The bounds let TVM compute in 32 bits.
            self.first_column = tirx.max(tirx.min(stored, 0), 1 - schedule.vector)

    def kernel(self) -> tirx.Stmt:
        for buffer in (*self.program.inputs, *self.program.outputs):
            self.views[buffer] = self.writer.view(buffer, product(buffer_shape(buffer)))
        self._allocate_kept()
        for number in range(self.residency.phases):
            self._emit_phase(number)
        body = self.writer.done()
        # Loops stay loops in the source, for the CUDA compiler to unroll: TVM would write them out.
        body = tirx.AttrStmt(0, "pragma_unroll_explicit", tirx.const(False, "bool"), body)
        for stmt in self._launch():
            body = stmt(body)
        # TVM's passes over scheduled functions look for a root block.
        root = s_tir.SBlock([], [], [], "root", body)
        return s_tir.SBlockRealize([], tirx.const(True, "bool"), root)

    def _launch(self) -> list[Callable[[tirx.Stmt], tirx.Stmt]]:
        schedule, space = self.schedule, self.program.space
        if schedule.split:
            blocks = tirx.floordiv(space.columns + (schedule.reach - 1), schedule.reach)
        else:
            blocks = tirx.floordiv(space.rows + (schedule.rows - 1), schedule.rows)
        extents = [
            (self.thread_var, "threadIdx.x", int64(schedule.threads)),
            (self.block_var, "blockIdx.x", self.frame.analyzer.simplify(blocks)),
        ]
        if schedule.rows > 1:
            extents.insert(1, (self.row_var, "threadIdx.y", int64(schedule.rows)))

        def bind(var: Var, tag: str, extent: Expr) -> Callable[[tirx.Stmt], tirx.Stmt]:
            size = constant(extent)
            extent = extent if size is None else tirx.IntImm("int32", size)
            axis = IterVar(None, var, IterVar.ThreadIndex, tag)
            return lambda body: tirx.AttrStmt(axis, "thread_extent", extent, body)

        return [bind(*entry) for entry in extents]

    # Kept values

    def _allocate_kept(self) -> None:
        schedule = self.schedule
        each = schedule.vector * schedule.steps
        for buffer in self.residency.kept:
            if schedule.residence == "register":
                tile = self._tile(f"{buffer.name}_kept", buffer.ty.dtype)
            else:
                size = each * schedule.block_threads
                tile = self.writer.allocate(
                    f"{buffer.name}_kept", size, buffer.ty.dtype, "shared.dyn"
                )
            self.kept[buffer] = tile

    def _tile(self, name: str, dtype: str) -> Var:
        """Registers for all elements of a thread.

        Where not all of them exist, they are set to zero first: TVM would otherwise allocate only
        those that are seen to be used, and count them from one that it finds at run time.
        """
        each = self.schedule.vector * self.schedule.steps
        tile = self.writer.allocate(name, each, dtype)
        if any(steps.care == "edge" for steps in self._steps()):
            with self.writer.unrolled(each, "element") as element:
                self.writer.store(tile, element, tirx.const(0, dtype))
        return tile

    def _slot(self, step: Expr, lane: Expr) -> Expr:
        """Where a thread keeps an element. In shared memory, neighbours take neighbouring banks."""
        element = step * self.schedule.vector + lane
        if self.schedule.residence == "register":
            return element
        thread = self.thread
        if self.schedule.rows > 1:
            thread = self.row_var.astype("int64") * self.schedule.threads + thread
        return element * self.schedule.block_threads + thread

    # Phases

    def _emit_phase(self, number: int) -> None:
        phase = _Phase(number)
        self._emit_row_stages(number)
        for stage in self.program.stages:
            if stage.is_reduction and self.residency.available[stage.output] - 1 == number:
                started = reduce.start(self.writer, stage, self.schedule)
                phase.accumulators[stage.output] = started
        roots = self._roots(phase)
        if not roots:
            return
        needed = self._needed(roots, number)
        self._load_row_scalars(needed)
        if self.schedule.residence == "register" and number == 0:
            self._load_ahead(phase)
        unroll = self.schedule.residence == "register"
        for steps in self._steps():
            loop = self.writer.unrolled if unroll else self.writer.serial
            with loop(steps.count, "step", steps.start) as step:
                _Step(self, phase, needed, step, steps.care).emit()
        if phase.accumulators:
            results = reduce.finish(
                self.writer,
                list(phase.accumulators.values()),
                self.schedule,
                self.thread,
                self.row_var.astype("int64") if self.schedule.rows > 1 else int64(0),
            )
            self.row_values.update(results)
            for output, value in results.items():
                self._store_row(output, value)

    def _roots(self, phase: _Phase) -> list[Stage]:
        """Reductions and outputs of a phase."""
        available = self.residency.available
        return [
            stage
            for stage in self.program.stages
            if stage.output in phase.accumulators
            or (
                stage.output in self.program.outputs
                and self.program.is_full(stage.output)
                and available[stage.output] == phase.number
            )
        ]

    def _needed(self, roots: list[Stage], number: int) -> list[Stage]:
        """The stages whose elements a phase computes, in order."""
        wanted = {stage.output for stage in roots}
        for stage in reversed(self.program.stages):
            if stage.output in wanted and not self._waits(stage.output, number):
                for read in stage.reads:
                    if self.program.place(stage, read) is Where.SAME:
                        wanted.add(read.buffer)
        return [
            stage
            for stage in self.program.stages
            if stage.output in wanted and not self._waits(stage.output, number)
        ]

    def _waits(self, buffer: Var, number: int) -> bool:
        """Whether a value has been kept by an earlier phase."""
        return buffer in self.residency.kept and self.residency.kept[buffer][0] < number

    def _emit_row_stages(self, number: int) -> None:
        for stage in self.program.stages:
            buffer = stage.output
            if stage.is_reduction or self.program.is_full(buffer):
                continue
            if self.residency.available[buffer] != number:
                continue
            self._load_row_scalars([stage])
            known = partial(self.row_value, stage)
            self.row_values[buffer] = self.writer.value(
                stage.name, self.value(stage, known, int64(0))
            )
            self._store_row(buffer, self.row_values[buffer])

    def _store_row(self, buffer: Var, value: Expr) -> None:
        if buffer not in self.program.outputs:
            return
        first = self.thread == 0
        if self.schedule.split:
            first = tirx.all(first, self.block_var == 0)
        if self.row_exists is not None:
            first = tirx.all(first, self.row_exists)
        with self.writer.when(first):
            self.writer.store(self.views[buffer], self.row, value)

    def _load_row_scalars(self, stages: list[Stage]) -> None:
        """Loads that do not depend on the column, once for the row."""
        inputs = self.program.inputs
        for stage in stages:
            for read in stage.reads:
                if read.guarded or read.buffer not in inputs or self._is_same(stage, read):
                    continue
                address = self.frame.address(stage, read)
                if address.stride is Stride.STILL and address.key not in self.row_loads:
                    name = f"{read.buffer.name}_of_row"
                    value = self.load(address, int64(0))
                    self.row_loads[address.key] = self.writer.value(name, value)

    def _is_same(self, stage: Stage, read: Read) -> bool:
        return self.program.place(stage, read) is Where.SAME

    def _load_ahead(self, phase: _Phase) -> None:
        """All loads of the row in the first phase are issued before their first use."""
        for buffer in self.program.inputs:
            if phase.number not in self.residency.needed.get(buffer, ()):
                continue
            tile = self.kept.get(buffer)
            if tile is None:
                tile = self._tile(f"{buffer.name}_ahead", buffer.ty.dtype)
            phase.loaded[buffer] = (tile, self._slot_of_thread)
        for steps in self._steps():
            with self.writer.unrolled(steps.count, "step", steps.start) as step:
                for buffer, (tile, element) in phase.loaded.items():
                    self.copy_in(buffer, tile, step, steps.care, element)

    def _slot_of_thread(self, step: Expr, lane: Expr) -> Expr:
        return step * self.schedule.vector + lane

    def _steps(self) -> list[Steps]:
        """Steps grouped by the care that they need."""
        groups: list[Steps] = []
        for step in range(self.schedule.steps):
            care = self._care(step)
            if groups and groups[-1].care == care:
                last = groups.pop()
                groups.append(Steps(last.start, last.count + 1, care))
            else:
                groups.append(Steps(step, 1, care))
        return groups

    def _care(self, step: int) -> str:
        schedule, space = self.schedule, self.program.space
        columns = constant(space.columns)
        per_step = schedule.threads * schedule.vector
        if columns is not None:
            if schedule.split:
                covered = columns % schedule.reach == 0
            else:
                covered = (step + 1) * per_step <= columns
            if covered and not (schedule.peeled and step == 0):
                return "none"
        modular = self.frame.analyzer.modular_set(space.columns)
        whole = modular.coeff % schedule.vector == 0 and modular.base % schedule.vector == 0
        return "vector" if whole and not schedule.peeled else "edge"

    # Positions

    def offset(self, step: Expr) -> Expr:
        """Of a thread's vector in the row, counted from the first aligned element."""
        return (step * self.schedule.threads + self.thread) * self.schedule.vector

    def column(self, step: Expr, lane: Expr) -> Expr:
        """The column of an element; may lie outside of the row at its ends."""
        return self.first_column + self.offset(step) + lane

    def inside(self, step: Expr, lane: Expr) -> Expr:
        """Whether an element exists."""
        column = self.column(step, lane)
        below = column < self.program.space.columns
        return tirx.all(column >= 0, below) if self.schedule.peeled else below

    def whole(self, step: Expr) -> Expr:
        """Whether a vector lies inside of the row altogether."""
        last = self.inside(step, int64(self.schedule.vector - 1))
        if not self.schedule.peeled:
            return last
        return tirx.all(self.column(step, int64(0)) >= 0, last)

    # Copies between device memory and a thread's registers

    def copy_in(self, buffer: Var, tile: Var, step: Expr, care: str, element: Element) -> None:
        """A vector of an input into a tile."""

        def move(writer: Writer, lane: Expr) -> None:
            at = self.origin + self.offset(step) + lane
            writer.store(tile, element(step, lane), self.views[buffer][at])

        self._copy(buffer.ty.dtype, step, care, move)

    def copy_out(self, buffer: Var, tile: Var, step: Expr, care: str, element: Element) -> None:
        """A vector of a tile into an output."""

        def move(writer: Writer, lane: Expr) -> None:
            at = self.origin + self.offset(step) + lane
            writer.store(self.views[buffer], at, tile[element(step, lane)])

        self._copy(buffer.ty.dtype, step, care, move)

    def _copy(
        self, dtype: str, step: Expr, care: str, move: Callable[[Writer, Expr], None]
    ) -> None:
        vector = self.schedule.vector
        if vector == 1:
            with self.writer.when(None if care == "none" else self.inside(step, int64(0))):
                move(self.writer, int64(0))
        elif care == "edge":
            with self.writer.branch(self.whole(step)) as (then, otherwise):
                _vector_copy(then, dtype, vector, move)
                with (
                    otherwise.unrolled(vector, "lane") as lane,
                    otherwise.when(self.inside(step, lane)),
                ):
                    move(otherwise, lane)
        else:
            with self.writer.when(self.inside(step, int64(0)) if care == "vector" else None):
                _vector_copy(self.writer, dtype, vector, move)

    # Values

    def load(self, address: Address, column: Expr) -> Expr:
        """A load of one element; loads inside of its index are redirected as well."""
        index = address.at(self.row, column)
        return self._redirected(self.views[address.buffer][index])

    def _redirected(self, expr: Expr) -> Expr:
        """The expression with loads from parameters as loads from their flat views."""

        def visit(load: Expr) -> Expr:
            view = self.views.get(load.source)
            if view is None:
                return load
            flat: Expr = int64(0)
            for index, extent in zip(load.indices, buffer_shape(load.source), strict=True):
                flat = flat * as_int64(extent) + as_int64(index)
            return view[flat]

        return tvm_ffi.structural_map(expr, (ir.TensorLoad, visit))

    def row_value(self, stage: Stage, read: Read) -> Expr | None:
        """What a load gives where that is one value for the row."""
        if read.buffer in self.row_values:
            return self.row_values[read.buffer]
        address = self.frame.address(stage, read)
        return self.row_loads.get(address.key)

    def value(self, stage: Stage, known: Callable[[Read], Expr | None], column: Expr) -> Expr:
        """A stage's value at a column, loads replaced by what is known of them."""
        replacements: dict[int, Expr] = {}
        for read in stage.reads:
            found = known(read)
            if found is None:
                found = self.load(self.frame.address(stage, read), column)
            replacements[read.key] = found
        axes = {
            axis: substitute(expr, {ROW: self.row, COLUMN: column})
            for axis, expr in self.frame.axes(stage).items()
        }

        def visit(node: Expr) -> Expr:
            if isinstance(node, ir.TensorLoad):
                return replacements.get(handle(node), node)
            return axes.get(node, node)

        return tvm_ffi.structural_map(
            stage.value, [(ir.TensorLoad, visit), (tirx.Var, visit)], order="pre"
        )


def _vector_copy(
    writer: Writer, dtype: str, vector: int, move: Callable[[Writer, Expr], None]
) -> None:
    """Copies of at most 16 bytes each; TVM has no vectors of bool."""
    width = 1 if dtype == "bool" else min(vector, ACCESS_BYTES // item_bytes(dtype))
    with writer.unrolled(vector // width, "part") as part, writer.vectorized(width, "lane") as lane:
        move(writer, part * width + lane)


class _Step:
    """One vector of a thread in one phase."""

    def __init__(
        self, emitter: _Emitter, phase: _Phase, needed: list[Stage], step: Expr, care: str
    ) -> None:
        self.emitter, self.phase, self.needed = emitter, phase, needed
        self.step, self.care = step, care
        self.writer = emitter.writer
        self.vector = emitter.schedule.vector
        self.fragments: dict[tuple[Var, str], Var] = {}
        self.loaded = dict(phase.loaded)
        self.outputs: dict[Var, Var] = {}

    def emit(self) -> None:
        emitter, vector = self.emitter, self.care == "vector"
        # Inside of the guard of a whole vector, copies need none of their own.
        care = "none" if vector else self.care
        with self.writer.when(emitter.inside(self.step, int64(0)) if vector else None):
            self._load(care)
            for stage in self.needed:
                if self._is_output(stage) and self.vector > 1:
                    name = f"{stage.output.name}_out"
                    dtype = stage.output.ty.dtype
                    self.outputs[stage.output] = self.writer.allocate(name, self.vector, dtype)
            with self.writer.unrolled(self.vector, "lane") as lane:
                edge = self.care == "edge"
                with self.writer.when(emitter.inside(self.step, lane) if edge else None):
                    self._compute(lane)
            for buffer, tile in self.outputs.items():
                with self.writer.when(emitter.row_exists):
                    emitter.copy_out(buffer, tile, self.step, care, lambda _, lane: lane)

    def _is_output(self, stage: Stage) -> bool:
        emitter = self.emitter
        return (
            stage.output in emitter.program.outputs
            and emitter.program.is_full(stage.output)
            and emitter.residency.available[stage.output] == self.phase.number
        )

    def _load(self, care: str) -> None:
        """Inputs that this phase is the first to need, and vectors along the columns."""
        emitter = self.emitter
        for stage in self.needed:
            for read in stage.reads:
                buffer = read.buffer
                if buffer not in emitter.program.inputs or read.guarded:
                    continue
                if emitter.program.place(stage, read) is Where.SAME:
                    waits = emitter.residency.kept.get(buffer, (self.phase.number,))[0]
                    if buffer not in self.loaded and waits == self.phase.number:
                        self._load_fragment(buffer, care)
                else:
                    self._load_along(emitter.frame.address(stage, read))

    def _load_fragment(self, buffer: Var, care: str) -> None:
        """An input's vector; a phase after the first keeps it in its tile."""
        emitter = self.emitter
        in_tile = buffer in emitter.kept and emitter.schedule.residence == "register"
        if in_tile:
            self.loaded[buffer] = (emitter.kept[buffer], emitter._slot_of_thread)
        else:
            fragment = self.writer.allocate(f"{buffer.name}_in", self.vector, buffer.ty.dtype)
            self.loaded[buffer] = (fragment, lambda _, lane: lane)
        tile, element = self.loaded[buffer]
        emitter.copy_in(buffer, tile, self.step, care, element)

    def _load_along(self, address: Address) -> None:
        """A vector along the columns, where it is aligned."""
        emitter, frame = self.emitter, self.emitter.frame
        fits = address.stride is Stride.UNIT and self.vector > 1 and self.care != "edge"
        if not fits or emitter.schedule.peeled or address.key in self.fragments:
            return
        dtype = address.buffer.ty.dtype
        if not frame.contiguous(address.index, self.vector):
            return
        if dtype == "bool" or not frame.aligned(address.index, self.vector):
            return
        fragment = self.writer.allocate(f"{address.buffer.name}_along", self.vector, dtype)

        def move(writer: Writer, lane: Expr) -> None:
            writer.store(fragment, lane, emitter.load(address, emitter.column(self.step, lane)))

        _vector_copy(self.writer, dtype, self.vector, move)
        self.fragments[address.key] = fragment

    def _compute(self, lane: Expr) -> None:
        """All values of one element, each once."""
        emitter = self.emitter
        column = emitter.column(self.step, lane)
        values: dict[Var, Expr] = {}
        for stage in self.needed:
            buffer = stage.output
            known = partial(self._known, stage, values, lane)
            value = emitter.value(stage, known, column)
            if stage.is_reduction:
                self.phase.accumulators[buffer].add(self.writer, lane, value)
                continue
            values[buffer] = self.writer.value(stage.name, value)
            if buffer in emitter.kept:
                slot = emitter._slot(self.step, lane)
                self.writer.store(emitter.kept[buffer], slot, values[buffer])
            if buffer in self.outputs:
                self.writer.store(self.outputs[buffer], lane, values[buffer])
            elif self._is_output(stage):
                at = emitter.origin + emitter.offset(self.step)
                with self.writer.when(emitter.row_exists):
                    self.writer.store(emitter.views[buffer], at, values[buffer])
        self._keep_fragments(values, lane)

    def _known(self, stage: Stage, values: dict[Var, Expr], lane: Expr, read: Read) -> Expr | None:
        emitter, buffer = self.emitter, read.buffer
        if emitter.program.place(stage, read) is Where.SAME:
            if buffer in values:
                return values[buffer]
            if buffer in self.loaded:
                tile, element = self.loaded[buffer]
                return tile[element(self.step, lane)]
            if emitter._waits(buffer, self.phase.number):
                return emitter.kept[buffer][emitter._slot(self.step, lane)]
            return None
        if buffer in emitter.row_values:
            return emitter.row_values[buffer]
        address = emitter.frame.address(stage, read)
        if address.key in self.fragments:
            return self.fragments[address.key][lane]
        return emitter.row_loads.get(address.key)

    def _keep_fragments(self, values: dict[Var, Expr], lane: Expr) -> None:
        """Inputs that wait in shared memory go there from their registers."""
        emitter = self.emitter
        for buffer, (tile, element) in self.loaded.items():
            kept = emitter.kept.get(buffer)
            if kept is not None and kept is not tile and buffer not in values:
                slot = emitter._slot(self.step, lane)
                self.writer.store(kept, slot, tile[element(self.step, lane)])
