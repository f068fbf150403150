"""Stages placed over common rows, where small matrix products give rows other columns.

In: Stages in order, some of them small products, and the buffers that must be written.
Out: a ProductProgram, in which every value is one element for each row or a row of as many columns
as it likes, and every stage reads what its own row produced; or the reason why there is none. Must
not know threads.

A product becomes two stages: its row's own factor, a value like others, and the sum over it. The
factor that rows share is computed from what is in memory alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import tvm
from tvm import tirx

from tvm_stitch.kernel.frame import COLUMN, ROW
from tvm_stitch.kernel.product import ACCUMULATED, MAX_OUTPUTS, Factors, small_product
from tvm_stitch.kernel.program import (
    MAX_INLINED,
    Program,
    Where,
    address_of,
    inlined,
    replace_loads,
    unit_reductions_as_elements,
)
from tvm_stitch.kernel.space import Space
from tvm_stitch.kernel.stage import (
    Expr,
    Read,
    Refused,
    Stage,
    Var,
    bind_axes,
    buffer_shape,
    constant,
    find_reads,
    flatten,
    handle,
    product,
    substitute,
    unflatten,
)

ENTRY = tirx.Var("entry", "int64")  # the number of the rows that share the same factors
SLOW = tirx.Var("slow", "int64")
FAST = tirx.Var("fast", "int64")
CHUNK = 4  # elements of a factor that come in one access


@dataclass(frozen=True, eq=False)
class Panel:
    """A factor that rows share, as a table in which neighbours along `fast` lie side by side.

    `value` is an expression of ENTRY, SLOW and FAST.
    """

    value: Expr
    slow: int
    fast: int

    @cached_property
    def copied(self) -> Expr | None:
        """The load that it is, perhaps cast, if its elements come in aligned vectors."""
        load = self.value.value if isinstance(self.value, tirx.Cast) else self.value
        if not isinstance(load, tvm.ir.TensorLoad) or self.fast % CHUNK:
            return None
        at = flatten(tuple(load.indices), buffer_shape(load.source))
        quotient, lane = tirx.Var("quotient", "int64"), tirx.Var("lane", "int64")
        extents = {SLOW: self.slow, quotient: self.fast // CHUNK, lane: CHUNK}
        analyzer = bound_to(extents)
        first = analyzer.simplify(substitute(at, {FAST: quotient * CHUNK}))
        moved = substitute(at, {FAST: quotient * CHUNK + lane})
        modular = analyzer.modular_set(first)
        aligned = modular.coeff % CHUNK == 0 and modular.base % CHUNK == 0
        return load if aligned and analyzer.can_prove_equal(moved - first, lane) else None

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Equal for the same table of the same buffers: keys and values of an attention may be."""
        buffers = tuple(handle(read.buffer) for read in find_reads(self.value))
        return str(self.value), buffers, self.slow, self.fast


@dataclass(frozen=True, eq=False)
class Contraction:
    """A product in a program: the sum over its depth of a row's value times a panel."""

    own: Var
    contracted: int
    panel: Panel
    by_depth: bool  # whether the depth is the panel's fast axis; else the column is


@dataclass(frozen=True, eq=False, kw_only=True)
class ProductProgram(Program):
    """What one kernel with small matrix products computes; see the module's docstring.

    The space's columns are those of the widest value.
    """

    inner: int  # neighbouring rows that share their factors
    columns: dict[Var, int]  # of each value; 1 for one element a row
    axes: dict[Var, dict[Var, Expr]]  # of each stage, in terms of ROW and COLUMN
    column_of: dict[tuple[int, int], Expr]  # which column of its row a read takes from another
    contractions: dict[Var, Contraction]

    def holds(self, buffer: Var) -> Where:
        """Whether a buffer that a stage computes has a value for each element or row."""
        return Where.ROW if self.columns[buffer] == 1 else Where.SAME

    def walked(self, stage: Stage) -> int:
        """The columns that a stage goes through."""
        if stage.is_reduction and stage.output not in self.contractions:
            return constant(stage.reduced_size) or 1
        return self.columns[stage.output]

    def place_in_memory(self, buffer: Var) -> Expr:
        """Where an output's element lies, as an expression of ROW and COLUMN."""
        stage = self.producer[buffer]
        if self.columns[buffer] == 1:
            return ROW
        axes = {axis: self.axes[buffer][axis] for axis in stage.axes}
        return flatten(tuple(axes.values()), stage.extents)

    @cached_property
    def waiting(self) -> dict[Var, int]:
        """The values that other threads of their row read, and their columns."""
        own = [contraction.own for contraction in self.contractions.values()]
        read = [
            read.buffer
            for stage in self.stages
            for read in stage.reads
            if self.place(stage, read) is Where.ALONG
        ]
        return {buffer: self.columns[buffer] for buffer in (*own, *read)}

    @cached_property
    def reduces_along(self) -> bool:
        """Whether anything but products is reduced along a row."""
        return len(self.along) > len(self.contractions)

    @cached_property
    def panels(self) -> tuple[Panel, ...]:
        """The factors that rows share, each once."""
        found = {each.panel.key: each.panel for each in self.contractions.values()}
        return tuple(found.values())


def make_product_program(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...]
) -> ProductProgram | Refused:
    """Place stages over the rows of their products; refuse with the reason if they have others."""
    stages = unit_reductions_as_elements(stages)
    found = {s.output: f for s in stages if (f := small_product(s)) and rows_of(f) is not None}
    if not found:
        return Refused("no product is small enough for a stitched kernel")
    rows = min(rows_of(factors) or 1 for factors in found.values())
    products = {output: f for output, f in found.items() if rows_of(f) == rows}
    return _Placing(rows, stages, products, outputs).program()


def rows_of(factors: Factors) -> int | None:
    """The rows of a product, if that many are known."""
    return constant(product(factors.row_extents))


@dataclass(frozen=True, eq=False)
class _Axes:
    """A stage's axes, parted into those of its row and those along it."""

    rows: dict[Var, Expr]  # with their extents
    columns: dict[Var, Expr]
    count: int  # columns; 1 where the row has one value

    @property
    def row(self) -> Expr:
        return flatten(tuple(self.rows), tuple(self.rows.values()))

    @property
    def column(self) -> Expr:
        return flatten(tuple(self.columns), tuple(self.columns.values()))

    def in_space(self, analyzer: tvm.sym.Analyzer) -> dict[Var, Expr]:
        """All axes as expressions of ROW and COLUMN."""
        found = unflatten(ROW, tuple(self.rows), tuple(self.rows.values()))
        found |= unflatten(COLUMN, tuple(self.columns), tuple(self.columns.values()))
        return {axis: analyzer.simplify(expr) for axis, expr in found.items()}


class _Placing:
    """Works backwards from the outputs, inlining what is not of the same row."""

    def __init__(
        self,
        rows: int,
        stages: tuple[Stage, ...],
        products: dict[Var, Factors],
        outputs: tuple[Var, ...],
    ) -> None:
        self.rows, self.products, self.outputs = rows, products, outputs
        self.order: dict[Var, float] = {stage.output: number for number, stage in enumerate(stages)}
        self.producer = {stage.output: stage for stage in stages}
        self.placed: dict[Var, Stage] = {}
        self.moved: dict[Var, _Axes] = {}
        self.where: dict[tuple[int, int], Where] = {}
        self.column_of: dict[tuple[int, int], Expr] = {}
        self.contractions: dict[Var, tuple[Factors, Var, Expr]] = {}
        self.inner = rows
        self.moved = self._find_moved()

    def program(self) -> ProductProgram | Refused:
        """All stages that the outputs need."""
        pending = list(self.outputs)
        while pending:
            buffer = pending.pop()
            if buffer in self.placed:
                continue
            if buffer not in self.producer:
                return Refused(f"output {buffer} is computed by no stage")
            stage = self._place(self.producer[buffer])
            if isinstance(stage, Refused):
                return stage
            self.placed[buffer] = stage
            pending.extend(r.buffer for r in stage.reads if r.buffer in self.producer)
        return self._made() if self.contractions else Refused("it holds no product")

    def _made(self) -> ProductProgram | Refused:
        stages = tuple(sorted(self.placed.values(), key=lambda stage: self.order[stage.output]))
        inputs = [read.buffer for stage in stages for read in stage.reads]
        axes = {stage.output: self._axes(stage) for stage in stages}
        columns = {
            stage.output: 1 if self._is_reduction(stage) else found.count
            for stage in stages
            if (found := axes[stage.output])
        }
        analyzer = bound_to({ROW: self.rows, COLUMN: MAX_OUTPUTS})
        widest = tirx.IntImm("int64", max(columns.values()))
        return ProductProgram(
            stages,
            tuple(buffer for buffer in dict.fromkeys(inputs) if buffer not in self.placed),
            self.outputs,
            Space(tirx.IntImm("int64", self.rows), widest, widest),
            True,
            self.where,
            inner=self.inner,
            columns=columns,
            axes={
                stage.output: self._in_space(stage, found, analyzer)
                for stage in stages
                if (found := axes[stage.output])
            },
            column_of=self.column_of,
            contractions={
                output: self._contraction(*parts) for output, parts in self.contractions.items()
            },
        )

    def _in_space(self, stage: Stage, axes: _Axes, analyzer: tvm.sym.Analyzer) -> dict[Var, Expr]:
        key = "in space", self.rows, stage.output in self.moved, stage.output in self.products
        return remembered(stage, key, lambda: axes.in_space(analyzer))

    def _is_reduction(self, stage: Stage) -> bool:
        return stage.is_reduction and stage.output not in self.products

    # Where a stage's elements are

    def _find_moved(self) -> dict[Var, _Axes]:
        """Outputs that hold a value's elements in another order, as heads that meet again do.

        Their axes go through rows and columns in the value's order, and their place in memory
        follows from that.
        """
        found = {}
        for output in self.outputs:
            stage = self.producer.get(output)
            if stage is None or stage.is_reduction:
                continue
            for read in stage.reads:
                source = self.producer.get(read.buffer)
                if source is None or self._is_reduction(source):
                    continue
                axes, order = self._axes(source), tuple(read.load.indices)
                if axes is None or not _permutes(order, stage.axes):
                    continue
                split = len(axes.rows)
                rows_first = constant(product(source.extents[:split])) == self.rows
                if rows_first:
                    extents = dict(zip(stage.axes, stage.extents, strict=True))
                    rows = {axis: extents[axis] for axis in order[:split]}
                    columns = {axis: extents[axis] for axis in order[split:]}
                    found[output] = _Axes(rows, columns, axes.count)
        return found

    def _axes(self, stage: Stage) -> _Axes | None:
        """None: they are not those of these rows."""
        if stage.output in self.moved:
            return self.moved[stage.output]
        key = "rows and columns", self.rows, stage.output in self.products
        return remembered(stage, key, lambda: self._find_axes(stage))

    def _find_axes(self, stage: Stage) -> _Axes | None:
        factors = self.products.get(stage.output)
        if factors is not None:
            rows = dict(zip(factors.rows, factors.row_extents, strict=True))
            return _Axes(
                rows, {factors.column: tirx.IntImm("int64", factors.columns)}, factors.columns
            )
        own = dict(zip(stage.axes, stage.extents, strict=True))
        size = constant(stage.size)
        if stage.is_reduction:
            reduced = dict(zip(stage.reduced, stage.reduced_extents, strict=True))
            count = constant(stage.reduced_size)
            fits = size == self.rows and count is not None and count <= MAX_OUTPUTS
            return _Axes(own, reduced, count) if fits and count else None
        if not size or size % self.rows or size // self.rows > MAX_OUTPUTS:
            return None
        count = size // self.rows
        for split in range(len(stage.axes), -1, -1):
            if constant(product(stage.extents[:split])) == self.rows:
                items = list(own.items())
                return _Axes(dict(items[:split]), dict(items[split:]), count)
        return None

    # What a stage reads

    def _place(self, stage: Stage) -> Stage | Refused:
        """Inline until every computed value is read from the stage's own row."""
        if stage.output in self.products:
            return self._place_product(stage)
        axes = self._axes(stage)
        if axes is None:
            return Refused(f"{stage.name} has other rows than {self.rows} of a product")
        for _ in range(MAX_INLINED):
            inline: dict[int, Expr] = {}
            analyzer = bind_axes(stage)
            for read in stage.reads:
                if read.buffer not in self.producer:
                    self.where[handle(stage.output), read.key] = Where.OTHER
                    continue
                if self._place_read(stage, axes, read, analyzer):
                    continue
                source = self.producer[read.buffer]
                if source.is_reduction:
                    return Refused(f"{stage.name} needs {source.name} of other rows")
                inline[read.key] = inlined(source, read, analyzer)
            if not inline:
                return stage
            if len(inline) > MAX_INLINED:
                break
            stage = replace(stage, value=replace_loads(stage.value, inline))
        return Refused(f"{stage.name} reads computed values at too many places")

    def _place_read(
        self, stage: Stage, axes: _Axes, read: Read, analyzer: tvm.sym.Analyzer
    ) -> bool:
        """Note which element of its row a read takes; whether it does so at all."""
        source = self.producer[read.buffer]
        found = self._axes(source)
        if found is None or read.buffer in self.moved:
            return False
        count = 1 if self._is_reduction(source) else found.count
        asked = "place", read.key, self.rows, count, stage.output in self.moved
        answer = remembered(stage, asked, lambda: _place_in_row(axes, read, count, analyzer))
        if answer is None:
            return False
        key = handle(stage.output), read.key
        self.where[key], column = answer
        if column is not None:
            self.column_of[key] = column
        return True

    # Products

    def _place_product(self, stage: Stage) -> Stage | Refused:
        """The sum over a value of the row, which becomes a stage of its own, times a panel."""
        factors = self.products[stage.output]
        shared = self._from_memory(stage, factors.shared)
        if isinstance(shared, Refused):
            return shared
        used = tirx.analysis.undefined_vars(shared)
        last = max((n for n, axis in enumerate(factors.rows) if axis in used), default=-1)
        inner = constant(product(factors.row_extents[last + 1 :])) or 1
        if self.inner % inner and inner % self.inner:
            return Refused(f"{stage.name} shares its factor among other rows than another product")
        self.inner = min(self.inner, inner)
        own = remembered(factors.stage, "own factor", lambda: self._own_factor(factors))
        # What comes from memory is read before anything waits for the first of it.
        computed = any(read.buffer in self.producer for read in own.reads)
        self.order[own.output] = self.order[stage.output] - 0.5 if computed else -1
        self.producer[own.output] = own
        self.contractions[stage.output] = factors, own.output, shared
        value = own.output[own.axes] * shared.astype(ACCUMULATED)
        stage = replace(stage, value=value)
        for read in stage.reads:
            place = Where.ALONG if read.buffer == own.output else Where.OTHER
            self.where[handle(stage.output), read.key] = place
        return stage

    def _own_factor(self, factors: Factors) -> Stage:
        name = f"{factors.stage.name}_own"
        extents = (*factors.row_extents, tirx.IntImm("int64", factors.contracted))
        output = tirx.decl_buffer(extents, ACCUMULATED, name, layout=None)
        axes = (*factors.rows, factors.depth)
        return Stage(name, output, axes, extents, factors.own.astype(ACCUMULATED))

    def _from_memory(self, stage: Stage, value: Expr) -> Expr | Refused:
        """A factor with everything inlined that is computed on the way."""
        analyzer = bind_axes(stage)
        for _ in range(MAX_INLINED):
            computed = [read for read in find_reads(value) if read.buffer in self.producer]
            if not computed:
                return value
            for read in computed:
                source = self.producer[read.buffer]
                if source.is_reduction:
                    return Refused(f"{stage.name} needs {source.name} of other rows")
            places = {r.key: inlined(self.producer[r.buffer], r, analyzer) for r in computed}
            value = replace_loads(value, places)
        return Refused(f"{stage.name} reads computed values at too many places")

    def _contraction(self, factors: Factors, own: Var, shared: Expr) -> Contraction:
        if shared is not factors.shared:
            return self._find_contraction(factors, own, shared)
        return remembered(
            factors.stage,
            ("contraction", self.rows, self.inner),
            lambda: self._find_contraction(factors, own, shared),
        )

    def _find_contraction(self, factors: Factors, own: Var, shared: Expr) -> Contraction:
        by_depth = _moves_by_one(shared, factors.depth) and not _moves_by_one(
            shared, factors.column
        )
        fast, slow = factors.depth, factors.column
        sizes = factors.columns, factors.contracted
        if not by_depth:
            (fast, slow), sizes = (slow, fast), sizes[::-1]
        analyzer = bound_to({ENTRY: self.rows // self.inner, SLOW: sizes[0], FAST: sizes[1]})
        names = unflatten(ENTRY * self.inner, factors.rows, factors.row_extents)
        value = substitute(shared.astype(ACCUMULATED), {**names, slow: SLOW, fast: FAST})
        panel = Panel(analyzer.simplify(value), *sizes)
        return Contraction(own, factors.contracted, panel, by_depth)


Answer = TypeVar("Answer")


def remembered(stage: Stage, key: object, find: Callable[[], Answer]) -> Answer:
    """Planners ask for the same stages in many company: answers stay with the stage."""
    if key not in stage.memo:
        stage.memo[key] = find()
    answer: Answer = stage.memo[key]
    return answer


def _place_in_row(
    axes: _Axes, read: Read, count: int, analyzer: tvm.sym.Analyzer
) -> tuple[Where, Expr | None] | None:
    """Which of its row's elements a read takes, and the column of another; None: no such one."""
    at = address_of(read)
    if at is None:
        return None
    column = analyzer.simplify(at - axes.row * count)
    if any(axis in axes.rows for axis in tirx.analysis.undefined_vars(column)):
        return None
    bound = analyzer.const_int_bound(column)
    if bound.min_value < 0 or bound.max_value >= count:
        return None
    if count == 1:
        return Where.ROW, None
    if count == axes.count and analyzer.can_prove_equal(column, axes.column):
        return Where.SAME, None
    names = unflatten(COLUMN, tuple(axes.columns), tuple(axes.columns.values()))
    return Where.ALONG, substitute(column, names)


def _permutes(indices: tuple[Expr, ...], axes: tuple[Var, ...]) -> bool:
    """Whether a load's indices are a stage's axes in another order."""
    if len(indices) != len(axes) or not all(isinstance(each, tirx.Var) for each in indices):
        return False
    return indices != axes and set(indices) == set(axes)


def _moves_by_one(value: Expr, axis: Var) -> bool:
    """Whether some load of a value takes neighbours in memory for neighbours along an axis."""
    analyzer = tvm.sym.Analyzer()
    for read in find_reads(value):
        at = flatten(tuple(read.load.indices), buffer_shape(read.buffer))
        step = analyzer.simplify(substitute(at, {axis: axis + 1}) - at)
        if constant(step) == 1:
            return True
    return False


def bound_to(extents: dict[Var, int]) -> tvm.sym.Analyzer:
    """An analyzer that knows the ranges of variables."""
    analyzer = tvm.sym.Analyzer()
    for var, extent in extents.items():
        analyzer.bind(var, tvm.ir.Range(tirx.IntImm("int64", 0), tirx.IntImm("int64", extent)))
    return analyzer
