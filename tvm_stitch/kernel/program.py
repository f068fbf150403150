"""Stages placed in one space of rows and columns.

In: Stages in order and the buffers that must be written.
Out: a Program, in which every value is one element for each (row, column), one for each row or one
for each column, and every stage reads what its own row, column or element produced; or the reason
why there is none. Must not know threads.

The space comes from the reductions: what they keep is the row, what they reduce is the column.
Where others reduce the rows of the same elements and keep the columns, their results are known
once all rows have been seen: only stages of one value a column may use them.
A program without reductions is one row that holds all elements.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.stage import (
    Expr,
    Read,
    Refused,
    Stage,
    Var,
    as_int64,
    buffer_shape,
    constant,
    find_reads,
    flatten,
    handle,
    product,
    shown,
    substitute,
)

# A value read at other places than its own is computed again there; this bounds how often.
MAX_INLINED = 64
# Of an index, once values are inlined: every nested one doubles the time that TVM takes over it.
MAX_DIVISIONS = 12


class Where(enum.Enum):
    """Which element of a buffer a stage reads, seen from its own row and column."""

    SAME = "the same row and column"
    ROW = "one value for the row"
    COLUMN = "one value for the column"
    OTHER = "any other"


@dataclass(frozen=True, eq=False)
class Space:
    """Rows by columns; a program without reductions is one row of all elements.

    A row lies in memory in runs of `run` elements. Where reductions keep trailing axes whole, a row
    is one run. A reduction over the first and last axes, such as a batch norm's, finds a run of its
    row in every image; the runs of all rows of an image follow each other. A group norm of images
    whose channels come last has such rows too, but only those of the `inner` axes, the groups of
    one batch entry, share their images.
    """

    rows: Expr
    columns: Expr
    run: Expr
    inner: Expr | None = None  # None: all rows

    @cached_property
    def whole(self) -> bool:
        """Whether a row is one run."""
        return same_size(self.run, self.columns)

    @cached_property
    def size(self) -> Expr:
        """All elements."""
        return product((self.rows, self.columns))

    @cached_property
    def key(self) -> tuple[str, ...]:
        """Equal for equal spaces."""
        return str(self.rows), str(self.columns), str(self.run), str(self.inner)

    def flat(self, row: Expr, column: Expr) -> Expr:
        """Where an element lies in memory."""
        if self.whole:
            return row * self.columns + column
        image, inside = tirx.floordiv(column, self.run), tirx.floormod(column, self.run)
        if self.inner is None:
            return (image * self.rows + row) * self.run + inside
        image = tirx.floordiv(row, self.inner) * self.images + image
        return (image * self.inner + tirx.floormod(row, self.inner)) * self.run + inside

    @cached_property
    def images(self) -> Expr:
        """The runs of a row."""
        return tirx.floordiv(self.columns, self.run)

    def row_of(self, flat: Expr) -> Expr:
        """The row of the element that lies there."""
        run = tirx.floordiv(flat, self.run)
        if self.whole:
            return run
        if self.inner is None:
            return tirx.floormod(run, self.rows)
        outer = tirx.floordiv(run, self.images * self.inner)
        return outer * self.inner + tirx.floormod(run, self.inner)

    def position(self, stage: Stage, across: bool = False) -> tuple[Expr, Expr | None]:
        """Row and place in memory of a stage's iteration, in its own axes.

        The place is None for a stage that computes one value a row. `across` says of a reduction
        that it goes over the rows.
        """
        spatial = flatten(stage.axes, stage.extents)
        if stage.is_reduction:
            reduced = flatten(stage.reduced, stage.reduced_extents)
            row, column = (reduced, spatial) if across else (spatial, reduced)
            return row, self.flat(row, column)
        if not same_size(stage.size, self.size):
            return spatial, None
        for split in range(len(stage.axes) + 1):
            # TVM proves little about divisions by a symbolic row length.
            if self.whole and same_size(product(stage.extents[split:]), self.columns):
                return flatten(stage.axes[:split], stage.extents[:split]), spatial
        return self.row_of(spatial), spatial


@dataclass(frozen=True, eq=False)
class Program:
    """What one kernel computes; see the module's docstring."""

    stages: tuple[Stage, ...]
    inputs: tuple[Var, ...]
    outputs: tuple[Var, ...]
    space: Space
    reduces: bool
    where: dict[tuple[int, int], Where]  # (handle of the stage's output, key of the read)
    columnwise: frozenset[Var] = frozenset()  # what is one value a column: known after all rows

    @cached_property
    def producer(self) -> dict[Var, Stage]:
        """The stage that computes a buffer; inputs have none."""
        return {stage.output: stage for stage in self.stages}

    @cached_property
    def memo(self) -> dict[Any, Any]:
        """What was worked out of it and is asked again and again: residencies, profiles."""
        return {}

    def place(self, stage: Stage, read: Read) -> Where:
        """Which element of its buffer a read takes."""
        return self.where[handle(stage.output), read.key]

    @cached_property
    def across(self) -> tuple[Stage, ...]:
        """The reductions over the rows."""
        return tuple(s for s in self.stages if s.is_reduction and s.output in self.columnwise)

    def is_across(self, stage: Stage) -> bool:
        """Whether a stage is a reduction over the rows."""
        return stage.is_reduction and stage.output in self.columnwise

    def holds(self, buffer: Var) -> Where:
        """Whether a buffer that a stage computes has a value for each element, row or column."""
        if buffer in self.columnwise:
            return Where.COLUMN
        stage = self.producer[buffer]
        full = not stage.is_reduction and same_size(stage.size, self.space.size)
        return Where.SAME if full else Where.ROW

    def is_full(self, buffer: Var) -> bool:
        """Whether a buffer that a stage computes holds an element for each row and column."""
        return self.holds(buffer) is Where.SAME

    def __repr__(self) -> str:
        rows, columns = shown(self.space.rows), shown(self.space.columns)
        lines = [f"program over {rows} rows x {columns} columns"]
        return "\n  ".join([*lines, *map(repr, self.stages)])


def same_size(left: Expr, right: Expr) -> bool:
    """Whether two sizes are provably equal."""
    left_value, right_value = constant(left), constant(right)
    if left_value is not None and right_value is not None:
        return left_value == right_value
    return tvm.sym.Analyzer().can_prove_equal(left, right)


def make_program(stages: tuple[Stage, ...], outputs: tuple[Var, ...]) -> Program | Refused:
    """Place stages in one space; refuse with the reason if they do not share one."""
    stages = _unit_reductions_as_elements(stages)
    across = [stage for stage in stages if _goes_across(stage)]
    space = _find_space(stages, across, outputs)
    if isinstance(space, Refused):
        return space
    return _Placing(space, stages, _columnwise(stages, across), outputs).program()


def make_programs(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...]
) -> tuple[Program, ...] | Refused:
    """One program if the stages share a space and data, else one for each unrelated part."""
    parts = _unrelated(stages, outputs)
    if len(parts) == 1:
        program = make_program(stages, outputs)
        return (program,) if isinstance(program, Program) else program
    programs = []
    for own_stages, own_outputs in parts:
        program = make_program(own_stages, own_outputs)
        if isinstance(program, Refused):
            return program
        programs.append(program)
    return tuple(programs)


def _unrelated(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...]
) -> list[tuple[tuple[Stage, ...], tuple[Var, ...]]]:
    """Parts that share no computed value, and no input that all elements of both read."""
    writer = {stage.output: number for number, stage in enumerate(stages)}
    leader = list(range(len(stages)))

    def find(number: int) -> int:
        while leader[number] != number:
            leader[number] = leader[leader[number]]
            number = leader[number]
        return number

    readers: dict[Var, int] = {}
    for number, stage in enumerate(stages):
        for buffer in dict.fromkeys(read.buffer for read in stage.reads):
            if buffer in writer:
                leader[find(writer[buffer])] = find(number)
            elif same_size(product(buffer_shape(buffer)), total_size(stage)):
                leader[find(readers.setdefault(buffer, number))] = find(number)
    parts: dict[int, tuple[list[Stage], list[Var]]] = {}
    for number, stage in enumerate(stages):
        parts.setdefault(find(number), ([], []))[0].append(stage)
    for output in outputs:
        if output in writer:
            parts[find(writer[output])][1].append(output)
    return [(tuple(own), tuple(found)) for own, found in parts.values() if found]


def total_size(stage: Stage) -> Expr:
    """Elements that a stage walks through."""
    return product((*stage.extents, *stage.reduced_extents))


def _unit_reductions_as_elements(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """A reduction over one element is that element."""

    def plain(stage: Stage) -> Stage:
        if not stage.is_reduction or constant(stage.reduced_size) != 1:
            return stage
        zero = tirx.IntImm("int64", 0)
        value = substitute(stage.value, dict.fromkeys(stage.reduced, zero))
        return replace(
            stage, value=value, reduced=(), reduced_extents=(), combiner="", identity=None
        )

    return tuple(map(plain, stages))


def _find_space(
    stages: tuple[Stage, ...], across: list[Stage], outputs: tuple[Var, ...]
) -> Space | Refused:
    along = [stage for stage in stages if stage.is_reduction and stage not in across]
    if along:
        space = _space_along(along)
    elif across:
        space = Space(across[0].reduced_size, across[0].size, across[0].size)
    else:
        space = _space_of_elements(outputs)
    if isinstance(space, Refused):
        return space
    for stage in across:
        if not (
            space.whole
            and same_size(stage.size, space.columns)
            and same_size(stage.reduced_size, space.rows)
        ):
            return Refused(
                f"{stage.name} reduces {shown(stage.reduced_size)} rows of {shown(stage.size)}, "
                f"other stages work on {shown(space.rows)} rows of {shown(space.columns)}"
            )
    return space


def _space_of_elements(outputs: tuple[Var, ...]) -> Space | Refused:
    size = product(buffer_shape(outputs[0]))
    for output in outputs[1:]:
        if not same_size(product(buffer_shape(output)), size):
            return Refused(f"outputs of different sizes, {outputs[0]} and {output}")
    return Space(tirx.IntImm("int64", 1), size, size)


def _space_along(reductions: list[Stage]) -> Space | Refused:
    first = reductions[0]
    for other in reductions[1:]:
        if not same_size(other.size, first.size) or not same_size(
            other.reduced_size, first.reduced_size
        ):
            return Refused(
                f"{first.name} and {other.name} reduce different rows: {shown(first.size)} x "
                f"{shown(first.reduced_size)} and {shown(other.size)} x "
                f"{shown(other.reduced_size)}"
            )
    return _space_read_by(reductions)


def _goes_across(stage: Stage) -> bool:
    """Whether a reduction keeps the last axes of what it reads and reduces the first.

    Planners ask for the same stages in many company: the answer stays with the stage.
    """
    if "across" not in stage.memo:
        stage.memo["across"] = stage.is_reduction and _reads_across(stage)
    return stage.memo["across"]


def _reads_across(stage: Stage) -> bool:
    analyzer = bind_axes(stage)
    space = Space(stage.reduced_size, stage.size, stage.size)
    _, place = space.position(stage, across=True)
    if constant(stage.size) == 1 or not any(
        _reads_at(read, place, space, analyzer) for read in stage.reads
    ):
        return False
    along = Space(stage.size, stage.reduced_size, stage.reduced_size)
    _, place = along.position(stage)
    return not any(_reads_at(read, place, along, analyzer) for read in stage.reads)


def _columnwise(stages: tuple[Stage, ...], across: list[Stage]) -> frozenset[Var]:
    """All results that depend on a reduction over the rows."""
    found = {stage.output for stage in across}
    for stage in stages if across else ():
        if any(read.buffer in found for read in stage.reads):
            found.add(stage.output)
    return frozenset(found)


def _space_read_by(reductions: list[Stage]) -> Space:
    """Rows lie in one run, unless some reduction's reads say otherwise."""
    for stage in reductions:
        analyzer = bind_axes(stage)
        for space in _possible_spaces(stage):
            _, place = space.position(stage)
            if any(_reads_at(read, place, space, analyzer) for read in stage.reads):
                return space
    first = reductions[0]
    return Space(first.size, first.reduced_size, first.reduced_size)


def _possible_spaces(stage: Stage) -> Iterator[Space]:
    yield Space(stage.size, stage.reduced_size, stage.reduced_size)
    for split in range(1, len(stage.reduced)):
        run = product(stage.reduced_extents[split:])
        yield Space(stage.size, stage.reduced_size, run)
        for kept in range(1, len(stage.axes)):
            inner = product(stage.extents[kept:])
            if constant(inner) != 1 and not same_size(inner, stage.size):
                yield Space(stage.size, stage.reduced_size, run, inner)


def _reads_at(read: Read, place: Expr, space: Space, analyzer: tvm.sym.Analyzer) -> bool:
    shape = buffer_shape(read.buffer)
    if not same_size(product(shape), space.size):
        return False
    return analyzer.can_prove_equal(flatten(tuple(read.load.indices), shape), place)


class _Placing:
    """Works backwards from the outputs, inlining what is read at other places than its own."""

    def __init__(
        self,
        space: Space,
        stages: tuple[Stage, ...],
        columnwise: frozenset[Var],
        outputs: tuple[Var, ...],
    ) -> None:
        self.space = space
        self.columnwise = columnwise
        self.outputs = outputs
        self.producer = {stage.output: stage for stage in stages}
        self.order = {stage.output: number for number, stage in enumerate(stages)}
        self.placed: dict[Var, Stage] = {}
        self.where: dict[tuple[int, int], Where] = {}
        self.inputs: dict[Var, None] = {}

    def program(self) -> Program | Refused:
        pending = list(self.outputs)
        while pending:
            buffer = pending.pop()
            if buffer in self.placed:
                continue
            if buffer not in self.producer:
                return Refused(f"output {buffer} is computed by no stage")
            refused = self._fits(self.producer[buffer])
            stage = refused or self._place(self.producer[buffer])
            if isinstance(stage, Refused):
                return stage
            self.placed[buffer] = stage
            pending.extend(r.buffer for r in stage.reads if r.buffer in self.producer)
        stages = tuple(sorted(self.placed.values(), key=lambda stage: self.order[stage.output]))
        reduces = any(stage.is_reduction for stage in stages)
        inputs = [read.buffer for stage in stages for read in stage.reads]
        inputs = [buffer for buffer in dict.fromkeys(inputs) if buffer not in self.placed]
        columnwise = frozenset(s.output for s in stages if s.output in self.columnwise)
        return Program(
            stages, tuple(inputs), self.outputs, self.space, reduces, self.where, columnwise
        )

    def _fits(self, stage: Stage) -> Refused | None:
        if stage.output in self.columnwise:
            if same_size(stage.size, self.space.columns) and not self._reduces_along(stage):
                return None
            return Refused(f"{stage.name} needs sums over all rows before the first row")
        sizes = (self.space.rows, self.space.size)
        if stage.is_reduction or any(same_size(stage.size, size) for size in sizes):
            return None
        return Refused(
            f"{stage.name} has {shown(stage.size)} elements, which is neither one a row nor one an "
            f"element of {shown(self.space.rows)} rows x {shown(self.space.columns)} columns"
        )

    def _reduces_along(self, stage: Stage) -> bool:
        return stage.is_reduction and not _goes_across(stage)

    def _place(self, stage: Stage) -> Stage | Refused:
        """Inline until every computed value is read at its own row, column or both."""
        key = (*self.space.key, stage.output in self.columnwise)
        for _ in range(MAX_INLINED):
            # Planners ask for the same stages in many company: the answer stays with the stage.
            if key not in stage.memo:
                stage.memo[key] = self._look(stage)
            found = stage.memo[key]
            if isinstance(found, Refused):
                return found
            inline: dict[int, Read] = {}
            for read in stage.reads:
                where = self.where[handle(stage.output), read.key] = found[read.key]
                if where is Where.OTHER and read.buffer in self.producer:
                    source = self.producer[read.buffer]
                    if source.is_reduction:
                        why = "for an address" if read.nested else "of other rows"
                        return Refused(f"{stage.name} needs {source.name} {why}")
                    inline[read.key] = read
            if not inline:
                return stage
            if len(inline) > MAX_INLINED:
                break
            places = frozenset(inline)
            if places not in stage.memo:
                stage.memo[places] = self._with_inlined(stage, inline)
            stage = stage.memo[places]
        return Refused(f"{stage.name} reads computed values at too many places")

    def _with_inlined(self, stage: Stage, reads: dict[int, Read]) -> Stage:
        analyzer = bind_axes(stage)
        values = {
            key: inlined(self.producer[read.buffer], read, analyzer) for key, read in reads.items()
        }
        return replace(stage, value=replace_loads(stage.value, values))

    def _look(self, stage: Stage) -> dict[int, Where] | Refused:
        """Where each read of a stage goes."""
        analyzer = bind_axes(stage)
        columns = stage.output in self.columnwise and not stage.is_reduction
        row, flat = (None, None) if columns else self.space.position(stage, _goes_across(stage))
        found: dict[int, Where] = {}
        for read in stage.reads:
            if max(map(_divisions, read.load.indices), default=0) > MAX_DIVISIONS:
                return Refused(f"{stage.name} reads {read.buffer.name} at too long an index")
            at = _address(read)
            if at is None:
                found[read.key] = Where.OTHER
            elif columns:
                found[read.key] = self._where_in_column(stage, read, at, analyzer)
            else:
                found[read.key] = self._where(read, at, analyzer, row, flat)
        return found

    def _where_in_column(
        self, stage: Stage, read: Read, at: Expr, analyzer: tvm.sym.Analyzer
    ) -> Where:
        own = analyzer.can_prove_equal(at, flatten(stage.axes, stage.extents))
        return Where.COLUMN if own and read.buffer in self.columnwise else Where.OTHER

    def _where(
        self, read: Read, at: Expr, analyzer: tvm.sym.Analyzer, row: Expr, flat: Expr
    ) -> Where:
        size = product(buffer_shape(read.buffer))
        if same_size(size, self.space.size):
            if flat is not None and analyzer.can_prove_equal(at, flat):
                return Where.SAME
            return Where.OTHER
        if same_size(size, self.space.rows) and analyzer.can_prove_equal(at, row):
            return Where.ROW
        return Where.OTHER


def _address(read: Read) -> Expr | None:
    """Where a read lies in its buffer, unless that is itself read from memory."""
    if read.nested or any(find_reads(index) for index in read.load.indices):
        return None
    return flatten(tuple(read.load.indices), buffer_shape(read.buffer))


def bind_axes(stage: Stage) -> tvm.sym.Analyzer:
    """An analyzer that knows the ranges of a stage's axes."""
    analyzer = tvm.sym.Analyzer()
    axes = (*stage.axes, *stage.reduced)
    for axis, extent in zip(axes, (*stage.extents, *stage.reduced_extents), strict=True):
        analyzer.bind(axis, tvm.ir.Range(tirx.IntImm("int64", 0), extent))
    return analyzer


def inlined(source: Stage, read: Read, analyzer: tvm.sym.Analyzer) -> Expr:
    """The value of an element-wise stage at the place that a load asks for."""
    indices = tuple(map(analyzer.simplify, read.load.indices))
    if len(indices) != len(source.axes):  # axes of extent 1 that only one of the two counts
        place = flatten(indices, buffer_shape(read.buffer))
        return substitute(source.value, unflatten(place, source.axes, source.extents))
    return substitute(source.value, dict(zip(source.axes, indices, strict=True)))


def _divisions(index: Expr) -> int:
    count = 0

    def visit(node: Expr) -> None:
        nonlocal count
        count += type(node).__name__ in ("FloorDiv", "FloorMod")

    tvm_ffi.structural_walk(index, (tvm.ir.Expr, visit))
    return count


def unflatten(flat: Expr, axes: tuple[Var, ...], extents: tuple[Expr, ...]) -> dict[Var, Expr]:
    """The axes of the element at a row-major position."""
    found: dict[Var, Expr] = {}
    for number in range(len(axes) - 1, -1, -1):
        extent = as_int64(extents[number])
        if constant(extent) == 1:
            found[axes[number]] = tirx.IntImm("int64", 0)
            continue
        outermost = all(constant(e) == 1 for e in extents[:number])
        found[axes[number]] = flat if outermost else tirx.floormod(flat, extent)
        flat = tirx.floordiv(flat, extent)
    return found


def replace_loads(value: Expr, replacements: dict[int, Expr]) -> Expr:
    """Replace loads by key. Works from the outside in, for a replaced load's indices are gone."""

    def visit(load: Expr) -> Expr:
        return replacements.get(handle(load), load)

    return tvm_ffi.structural_map(value, (tvm.ir.TensorLoad, visit), order="pre")
