"""Stages placed over common rows, where small matrix products give rows other columns.

In: Stages in order, some of them small products, and the buffers that must be written.
Out: a ProductProgram, in which every value is one element for each row or a row of as many columns
as it likes, and every stage reads what its own row produced; or the reason why there is none. Must
not know threads.

A product becomes two stages: its row's own factor, a value like others, and the sum over it. The
factor that rows share is computed from what is in memory alone.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, partial

from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import COLUMN, ROW
from tvm_stitch.kernel.analysis.contiguity import bound_to
from tvm_stitch.kernel.ir.inlining import Reads, all_reads, by_buffer, with_inlined
from tvm_stitch.kernel.ir.iteration_space import Space
from tvm_stitch.kernel.ir.placing import (
    MAX_INLINED,
    Places,
    Placing,
    unit_reductions_as_elements,
)
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.kernel.small_matmul.row_axes import Axes, axes_of, place_in_row, reordered
from tvm_stitch.kernel.small_matmul.shared_operand import (
    ENTRY,
    SLOW,
    Contraction,
    Panel,
    load_of,
    panel_of,
    table_of_rows,
)
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.memoized import remembered
from tvm_stitch.stages.op_pattern import is_product
from tvm_stitch.stages.patterns.matmul_pattern import (
    ACCUMULATED,
    MAX_OUTPUTS,
    Factors,
    small_product,
)
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Refused,
    Stage,
    Var,
    bind_axes,
    constant,
    flatten,
    handle,
    product,
    same_size,
    shown,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import Analyzer, is_multiple, quotient


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class ProductProgram(Program):
    """What one kernel with small matrix products computes; see the module's docstring.

    The space's columns are those of the widest value.
    """

    inner: Expr  # neighbouring rows that share their factors
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

    def is_common(self, stage: Stage, read: Read) -> bool:
        """Whether rows that share their factors read the same element from memory."""

        def find() -> bool:
            analyzer = bound_to({ENTRY: self.entries, SLOW: self.inner})
            row = {ROW: ENTRY * self.inner + SLOW}
            axes = {axis: substitute(at, row) for axis, at in self.axes[stage.output].items()}
            indices = [analyzer.simplify(substitute(at, axes)) for at in read.load.indices]
            return not any(SLOW in tirx.analysis.undefined_vars(index) for index in indices)

        return remembered(self, ("common", handle(stage.output), read.key), find)

    @cached_property
    def entries(self) -> Expr:
        """Groups of rows that share their factors."""
        return quotient(self.space.rows, self.inner)

    @cached_property
    def reduces_rows(self) -> bool:
        """Whether anything but products is reduced along a row."""
        return len(self.row_reductions) > len(self.contractions)

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
    asked = {stage.output: small_product(stage) for stage in stages}
    found = {output: f for output, f in asked.items() if isinstance(f, Factors)}
    if not found:
        larger = (stage for stage in stages if stage.is_reduction and is_product(stage))
        why = next((asked[each.output] for each in larger), None)
        reason = f": {why.reason}" if isinstance(why, Refused) else ""
        return Refused(f"no product is small enough for a stitched kernel{reason}")
    rows = min(map(rows_of, found.values()), key=NOMINAL.size)
    products = {output: f for output, f in found.items() if same_size(rows_of(f), rows)}
    return _RowPlacing(rows, stages, products, outputs).program()


def rows_of(factors: Factors) -> Expr:
    """The rows of a product."""
    return product(factors.row_extents)


@dataclass(frozen=True, eq=False)
class _RowPlaces(Places):
    """Places of reads, and of those that go to another column of their row, which."""

    column_of: dict[tuple[int, int], Expr]


class _RowPlacing(Placing):
    """Every computed value is read from the stage's own row, but for what products multiply."""

    def __init__(
        self,
        rows: Expr,
        stages: tuple[Stage, ...],
        products: dict[Var, Factors],
        outputs: tuple[Var, ...],
    ) -> None:
        super().__init__(stages, outputs)
        self.rows, self.products = rows, products
        self.rows_key = shown(rows)
        self.moved: dict[Var, Axes] = {}
        self.column_of: dict[tuple[int, int], Expr] = {}
        self.contractions: dict[Var, tuple[Factors, Var, Stage]] = {}
        self.counts: dict[Var, int] = {}  # columns of what is computed in these rows
        self.inner = rows
        self.moved = self._find_moved()

    def program(self) -> ProductProgram | Refused:
        """All stages that the outputs need."""
        placed = self.place_all()
        if isinstance(placed, Refused):
            return placed
        return self._made(*placed) if self.contractions else Refused("it holds no product")

    def _made(self, stages: tuple[Stage, ...], inputs: tuple[Var, ...]) -> ProductProgram:
        axes = [(stage, found) for stage in stages if (found := self._axes(stage))]
        columns = {s.output: 1 if self._is_reduction(s) else found.count for s, found in axes}
        analyzer = bound_to({ROW: self.rows, COLUMN: MAX_OUTPUTS})
        in_space = {s.output: self._in_space(s, found, analyzer) for s, found in axes}
        widest = tirx.IntImm("int64", max(columns.values()))
        return ProductProgram(
            stages,
            inputs,
            self.outputs,
            Space(self.rows, widest, widest),
            True,
            self.where,
            inner=self.inner,
            columns=columns,
            axes=in_space,
            column_of=self.column_of,
            contractions={
                output: self._contraction(factors, self.placed[own], in_space[own], shared)
                for output, (factors, own, shared) in self.contractions.items()
            },
        )

    def _in_space(self, stage: Stage, axes: Axes, analyzer: Analyzer) -> dict[Var, Expr]:
        key = "in space", self.rows_key, stage.output in self.moved, stage.output in self.products
        return remembered(stage, key, lambda: axes.in_space(analyzer))

    def _is_reduction(self, stage: Stage) -> bool:
        return stage.is_reduction and stage.output not in self.products

    # Where a stage's elements are

    def _find_moved(self) -> dict[Var, Axes]:
        """Outputs that hold a value's elements in another order, as heads that meet again do."""
        found = {}
        for output in self.outputs:
            stage = self.producer.get(output)
            if stage is None or stage.is_reduction:
                continue
            for read in stage.reads:
                source = self.producer.get(read.buffer)
                if source is None or self._is_reduction(source):
                    continue
                axes = self._axes(source)
                moved = axes and reordered(stage, read, axes, self.rows)
                if moved is not None:
                    found[output] = moved
        return found

    def _axes(self, stage: Stage) -> Axes | None:
        """None: they are not those of these rows."""
        if stage.output in self.moved:
            return self.moved[stage.output]
        factors = self.products.get(stage.output)
        key = "rows and columns", self.rows_key, factors is not None
        return remembered(stage, key, lambda: axes_of(stage, self.rows, factors))

    # What a stage reads

    def place(self, stage: Stage) -> Stage | Refused:
        """Inline until every computed value is read from the stage's own row."""
        if stage.output in self.products:
            return self._place_product(stage)
        axes = self._axes(stage)
        if axes is None:
            return Refused(f"{stage.name} has other rows than {self.rows_key} of a product")
        return self.inline(stage, partial(self._elsewhere, axes))

    def _elsewhere(self, axes: Axes, stage: Stage, _: Stage | None) -> Reads | Refused:
        """Reads of computed values in other rows."""
        counts = tuple(map(self._count, all_reads(stage)))
        key = "in rows", self.rows_key, stage.output in self.moved, counts
        found = remembered(stage, key, lambda: self._places(axes, stage))
        for source in map(self.producer.__getitem__, found.elsewhere):
            if source.is_reduction:
                return Refused(f"{stage.name} needs {source.name} of other rows")
        if not found.elsewhere:
            self.where.update(found.where)
            self.column_of.update(found.column_of)
        return found.elsewhere

    def _count(self, buffer: Var) -> int | None:
        """The columns of what is computed in these rows, 0 in others; None: it lies in memory."""
        source = self.producer.get(buffer)
        if source is None:
            return None
        if buffer not in self.counts:
            found = None if buffer in self.moved else self._axes(source)
            count = 0 if found is None else found.count
            self.counts[buffer] = min(count, 1) if self._is_reduction(source) else count
        return self.counts[buffer]

    def _places(self, axes: Axes, stage: Stage) -> _RowPlaces:
        """Which element of its row each read of a stage takes."""
        where, column_of, elsewhere = {}, {}, []
        for read in stage.reads:
            key, count = (handle(stage.output), read.key), self._count(read.buffer)
            found = self._place_in_row(axes, stage, read, count) if count else None
            if found is not None:
                where[key], column = found
                if column is not None:
                    column_of[key] = column
            elif count is None:
                where[key] = Where.OTHER
            else:
                elsewhere.append(read)
        return _RowPlaces(where, by_buffer(elsewhere), column_of)

    def _place_in_row(
        self, axes: Axes, stage: Stage, read: Read, count: int
    ) -> tuple[Where, Expr | None] | None:
        key = "place", read.key, self.rows_key, count, stage.output in self.moved
        return remembered(stage, key, lambda: place_in_row(axes, read, count, bind_axes(stage)))

    # Products

    def _place_product(self, stage: Stage) -> Stage | Refused:
        """The sum over a value of the row, which becomes a stage of its own, times a panel."""
        factors = self.products[stage.output]
        shared = self._from_memory(
            remembered(stage, "shared factor", lambda: replace(stage, value=factors.shared))
        )
        if isinstance(shared, Refused):
            return shared
        inner = remembered(shared, "rows that share it", lambda: _sharing(factors, shared.value))
        if is_multiple(self.inner, inner):
            self.inner = inner
        elif not is_multiple(inner, self.inner):
            return Refused(f"{stage.name} shares its factor among other rows than another product")
        own = self._from_memory_if_load(
            remembered(factors.stage, "own factor", lambda: self._own_factor(factors))
        )
        placed = remembered(stage, ("times", own, shared), lambda: _multiplied(stage, own, shared))
        if not placed.reads:  # TVM makes 0 of what is multiplied by it
            return Refused(f"{stage.name} multiplies by a factor that is 0 everywhere")
        # What comes from memory is read before anything waits for the first of it.
        computed = any(buffer in self.producer for buffer in all_reads(own))
        self.order[own.output] = self.order[stage.output] - 0.5 if computed else -1
        self.producer[own.output] = own
        self.contractions[stage.output] = factors, own.output, shared
        for read in placed.reads:
            place = Where.ALONG if read.buffer == own.output else Where.OTHER
            self.where[handle(stage.output), read.key] = place
        return placed

    def _own_factor(self, factors: Factors) -> Stage:
        name = f"{factors.stage.name}_own"
        extents = (*factors.row_extents, tirx.IntImm("int64", factors.contracted))
        output = tirx.decl_buffer(extents, ACCUMULATED, name, layout=None)
        axes = (*factors.rows, factors.depth)
        return Stage(name, output, axes, extents, factors.own.astype(ACCUMULATED))

    def _from_memory_if_load(self, own: Stage) -> Stage:
        """What is only moved on its way to a product need not go through the row's threads."""
        stage = self._from_memory(own)
        return own if isinstance(stage, Refused) or load_of(stage.value) is None else stage

    def _from_memory(self, stage: Stage) -> Stage | Refused:
        """A factor with everything inlined that is computed on the way."""
        for _ in range(MAX_INLINED):
            reads = all_reads(stage)
            computed = {buffer: reads[buffer] for buffer in reads if buffer in self.producer}
            if not computed:
                return stage
            # As of windows of windows: each level has many more.
            if sum(map(len, computed.values())) > MAX_INLINED:
                break
            for source in map(self.producer.__getitem__, computed):
                if source.is_reduction:
                    return Refused(f"{stage.name} needs {source.name} of other rows")
            stage = with_inlined(stage, computed, self.producer)
        return Refused(f"{stage.name} reads computed values at too many places")

    def _contraction(
        self, factors: Factors, own: Stage, axes: dict[Var, Expr], shared: Stage
    ) -> Contraction:
        panel, by_depth = remembered(
            shared,
            ("panel", self.rows_key, shown(self.inner)),
            lambda: panel_of(factors, shared.value, self.rows, self.inner),
        )
        async_input = None
        if not any(buffer in self.producer for buffer in all_reads(own)):
            async_input = remembered(
                own,
                ("async_input", self.rows_key),
                lambda: table_of_rows(own.value, axes, self.rows, factors.contracted),
            )
        return Contraction(own.output, async_input, factors.contracted, panel, by_depth)


def _sharing(factors: Factors, shared: Expr) -> Expr:
    """How many neighbouring rows have a factor in common."""
    used = tirx.analysis.undefined_vars(shared)
    last = max((n for n, axis in enumerate(factors.rows) if axis in used), default=-1)
    return product(factors.row_extents[last + 1 :])


def _multiplied(stage: Stage, own: Stage, shared: Stage) -> Stage:
    """A product as the sum over its row's own factor times the other one."""
    return replace(stage, value=own.output[own.axes] * shared.value.astype(ACCUMULATED))
