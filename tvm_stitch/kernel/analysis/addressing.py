"""Where loads go: a stage's indices in terms of the row and the column.

In: a Program. Out: for every load that is not simply "the same row and column", its address as an
expression of ROW and COLUMN, and how that address moves along the columns. Must not know threads.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import product, starmap
from typing import Any

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.kernel.analysis.contiguity import lies_side_by_side
from tvm_stitch.kernel.ir.iteration_space import Space
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.kernel.ir.row_segments import axes_of_rows
from tvm_stitch.stages.extents import NOMINAL
from tvm_stitch.stages.guards import conjuncts, least_values, mentions, without
from tvm_stitch.stages.indices import unflatten, with_offset
from tvm_stitch.stages.memoized import Answer, memoized, remembered
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Stage,
    Var,
    constant,
    find_reads,
    loads_in,
    place_of,
    same_size,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import Analyzer, SymbolicAnalyzer, analyzer_of

ROW = tirx.Var("row", "int64")
COLUMN = tirx.Var("column", "int64")
LANE = tirx.Var("lane", "int64")  # a column of a vector of columns, counted from its first
# Conditions of a branch that may be another's complement. Those of nested branches seldom are, and
# TVM takes milliseconds to see it of each pair, of which a scan as a tree of slices has thousands.
MOST_OF_COMPLEMENTS = 2
MOST_SIZES = 64  # of programs, of which is known what was worked out


# A buffer, and a position and a condition up to what they are made of.
AddressKey = tuple[Var, tvm_ffi.StructuralKey, tvm_ffi.StructuralKey | None]


class Stride(enum.Enum):
    """How an address moves when the column does."""

    UNIFORM = "one element for the whole row"
    UNIT = "neighbours lie side by side"
    BROADCAST = "one element for several neighbours"
    GATHER = "anywhere"


@dataclass(frozen=True, eq=False)
class Address:
    """A position in a flat view of a buffer, as an expression of ROW and COLUMN."""

    buffer: Var
    index: Expr
    stride: Stride
    guard: Expr | None = None  # it may be out of the buffer elsewhere; None: it never is
    analyzer: SymbolicAnalyzer | None = None  # that knows symbolic extents; None: all are numbers
    origin: tuple[Stage, Read] | None = None  # a load that it is the address of

    @cached_property
    def key(self) -> AddressKey:
        """Equal for loads of the same element under the same condition."""
        guard = None if self.guard is None else tvm_ffi.StructuralKey(self.guard)
        return self.buffer, tvm_ffi.StructuralKey(self.index), guard

    @cached_property
    def computed(self) -> Expr:
        """The index as a kernel computes it."""
        return self.index if self.analyzer is None else self.analyzer.truncated(self.index)

    @cached_property
    def everywhere(self) -> Address:
        """The same address under no condition."""
        return self if self.guard is None else replace(self, guard=None)

    @cached_property
    def from_memory(self) -> bool:
        """Whether the position is itself read from memory."""
        return bool(loads_in(self.index))

    @property
    def of_row(self) -> bool:
        """Whether it depends on the row."""
        parts = [self.index] if self.guard is None else [self.index, self.guard]
        return any(mentions(part, ROW) for part in parts)

    def at(self, row: Expr, column: Expr) -> Expr:
        """The position for a given row and column."""
        return substitute(self.computed, {ROW: row, COLUMN: column})

    def guard_at(self, row: Expr, column: Expr) -> Expr | None:
        """The condition for a given row and column."""
        if self.guard is None:
            return None
        return substitute(self.guard, {ROW: row, COLUMN: column})


@dataclass(frozen=True, eq=False)
class _Sizes:
    """So many rows and columns, and what was worked out for them, whatever is computed of them.

    Sets of operators that grow ask the same of hundreds of programs, and so do windows,
    concatenations and stacks of tensors of many loads.
    """

    analyzer: Analyzer
    memo: dict[Hashable, Any] = field(default_factory=dict)


@lru_cache(maxsize=MOST_SIZES)
def _sizes_of(rows: int, columns: int) -> _Sizes:
    return _Sizes(
        analyzer_of({ROW: tirx.IntImm("int64", rows), COLUMN: tirx.IntImm("int64", columns)})
    )


class Frame:
    """Translates a program's index expressions into ROW and COLUMN."""

    def __init__(self, program: Program) -> None:
        self.program = program

    @cached_property
    def _sizes(self) -> _Sizes:
        """All programs of these sizes have it in common where the sizes are numbers."""
        space = self.program.space
        rows, columns = constant(space.rows), constant(space.columns)
        if rows is None or columns is None:
            return _Sizes(analyzer_of({ROW: space.rows, COLUMN: space.columns}))
        return _sizes_of(rows, columns)

    @property
    def analyzer(self) -> Analyzer:
        """It knows how many rows and columns there are."""
        return self._sizes.analyzer

    def known(self, key: Hashable, find: Callable[[], Answer]) -> Answer:
        """An answer about expressions of ROW and COLUMN, which the key names, and nothing else."""
        return remembered(self._sizes, key, find)

    @property
    def symbolic(self) -> SymbolicAnalyzer | None:
        """The analyzer, where not all extents are numbers."""
        return self.analyzer if isinstance(self.analyzer, SymbolicAnalyzer) else None

    def axes(self, stage: Stage) -> dict[Var, Expr]:
        """A stage's axes as expressions of ROW and COLUMN."""
        key = ("axes", *self._view(stage))
        return remembered(stage, key, lambda: self._axes(stage))

    def _view(self, stage: Stage) -> tuple[object, ...]:
        """All of the program that a stage's addresses depend on."""
        return self.program.space.key, stage.output in self.program.columnwise

    def _axes(self, stage: Stage) -> dict[Var, Expr]:
        space = self.program.space
        if stage.output in self.program.columnwise:
            row_segments = stage.row_segments or 0
            axes = unflatten(COLUMN, stage.axes[row_segments:], stage.extents[row_segments:])
            axes |= unflatten(ROW, *axes_of_rows(stage))
            if stage.uneven and space.uneven is not None:
                row = tirx.floormod(ROW, space.uneven.rows)
                axes[stage.axes[row_segments - 1]] = tirx.floordiv(row, space.uneven.length)
        elif stage.is_reduction:
            axes = unflatten(ROW, stage.axes, stage.extents)
            axes |= unflatten(COLUMN, stage.reduced, stage.reduced_extents)
        elif same_size(stage.size, space.size):
            axes = _full_axes(stage, space)
        else:
            axes = unflatten(ROW, stage.axes, stage.extents)
        return {axis: self.analyzer.simplify(expr) for axis, expr in axes.items()}

    def address(self, stage: Stage, read: Read) -> Address:
        """The address of a load of an input; asked for at every step of every phase."""
        where = self.program.place(stage, read)
        key = ("address", *self._view(stage), where, read.key)
        return remembered(stage, key, lambda: self._address(stage, read, where))

    def _address(self, stage: Stage, read: Read, where: Where) -> Address:
        if where is Where.ROW:
            return Address(read.buffer, ROW, Stride.UNIFORM)
        if where is Where.SAME:
            return Address(read.buffer, self.program.space.flat(ROW, COLUMN), Stride.UNIT)
        axes = self.axes(stage)
        index, stride = self._index(stage, read, axes)
        guard = None if read.guard is None else self._guard(substitute(read.guard, axes))
        return Address(read.buffer, index, stride, guard, self.symbolic, (stage, read))

    def _index(self, stage: Stage, read: Read, axes: dict[Var, Expr]) -> tuple[Expr, Stride]:
        """Where a load goes, and how that moves along the columns."""
        is_symbolic = self.symbolic is not None
        place = self._place(stage, read, axes) if is_symbolic else substitute(read.place, axes)

        def find() -> tuple[Expr, Stride]:
            index = place if is_symbolic else self.analyzer.simplify(place)
            return index, self._stride(index)

        return self.known(("index", tvm_ffi.StructuralKey(place)), find)

    def _guard(self, condition: Expr) -> Expr | None:
        """A condition in terms of ROW and COLUMN, as simple as it is; None: it always holds."""

        def find() -> Expr | None:
            found = self.analyzer.simplify(condition)
            holds = constant(found) == 1
            return None if holds else tirx.all(*map(self._of_row, conjuncts(found)))

        return self.known(("guard", tvm_ffi.StructuralKey(condition)), find)

    def _of_row(self, condition: Expr) -> Expr:
        """A condition without the column where the row alone decides."""
        found = without(COLUMN, condition, self.analyzer) if mentions(condition, COLUMN) else None
        return condition if found is None else found

    def _place(self, stage: Stage, read: Read, axes: dict[Var, Expr]) -> Expr:
        """Where a load goes among symbols; where only some indices do, as simple as for these.

        Of a concatenation's second half, whose index is less by the first half's, divisions by
        symbols stay otherwise: TVM's own analyzer, which knows numbers, needs no help.
        """
        least = {} if read.guard is None else least_values(read.guard)
        shifted = [axis for axis in stage.axes if least.get(axis, 0) > 0]
        if not shifted:
            return self.analyzer.simplify(substitute(read.place, axes))
        analyzer, there, back = self.analyzer.clone(), dict(axes), {}
        extents = dict(zip(stage.axes, stage.extents, strict=True))
        for axis in shifted:
            beyond, first = tirx.Var("beyond", "int64"), least[axis]
            analyzer.bind(beyond, tvm.ir.Range(tirx.IntImm("int64", 0), extents[axis] - first))
            there[axis], back[beyond] = beyond + first, axes[axis] - first
        place = analyzer.simplify(substitute(read.place, there))
        return self.analyzer.simplify(substitute(place, back))

    def place_key(self, load: Expr) -> AddressKey:
        """The key of the address of a load in terms of ROW and COLUMN, under no condition."""
        index = self.analyzer.simplify(place_of(load))
        return load.source, tvm_ffi.StructuralKey(index), None

    def own_key(self, buffer: Var) -> AddressKey:
        """That of the element of a buffer at the same row and column."""
        return buffer, tvm_ffi.StructuralKey(self.program.space.flat(ROW, COLUMN)), None

    def aligned(self, index: Expr, vector: int) -> bool:
        """Whether every vector of columns that starts at a multiple of `vector` is aligned."""
        coefficient, base = self.starts(index, vector)
        return coefficient % vector == 0 and base % vector == 0

    def starts(self, index: Expr, vector: int) -> tuple[int, int]:
        """Coefficient and base of the positions where such vectors start."""
        quotient = tirx.Var("quotient", "int64")
        start = substitute(index, {COLUMN: quotient * vector})
        modular = self.analyzer.modular_set(self.analyzer.simplify(start))
        return int(modular.coeff), int(modular.base)

    def distance(self, index: Expr, other: Expr, vector: int) -> int | None:
        """By how much one address is behind another for the first column of any vector."""
        (base, offset), (bases, offsets) = with_offset(index), with_offset(other)
        if tvm_ffi.structural_equal(base, bases):  # as of most of a window, of which all are asked
            return offset - offsets
        analyzer, quotient, _lane = self._vector(vector)
        first = {COLUMN: quotient * vector}
        return constant(analyzer.simplify(substitute(index, first) - substitute(other, first)))

    def moved_by_lanes(self, index: Expr, vector: int) -> Expr | None:
        """By how much an address moves with the LANE of a vector; None: not alike in all."""
        analyzer, quotient, lane = self._vector(vector)
        start = substitute(index, {COLUMN: quotient * vector})
        moved = substitute(index, {COLUMN: quotient * vector + lane})
        found = substitute(analyzer.simplify(moved - start), {lane: LANE})
        return found if all(v == LANE for v in tirx.analysis.undefined_vars(found)) else None

    def at_lane(self, condition: Expr, vector: int, lane: int) -> Expr:
        """A condition for a column of a vector, as simple as it is there."""
        analyzer, quotient, _lane = self._vector(vector)
        return analyzer.simplify(substitute(condition, {COLUMN: quotient * vector + lane}))

    def contiguous(self, index: Expr, vector: int) -> bool:
        """Whether the elements of such a vector lie side by side."""
        analyzer, quotient, lane = self._vector(vector)
        return lies_side_by_side(index, COLUMN, quotient * vector, lane, analyzer)

    def uniform(self, condition: Expr, vector: int) -> bool:
        """Whether a condition is the same for all elements of such a vector."""
        if isinstance(condition, tirx.And | tirx.Or):
            return self.uniform(condition.a, vector) and self.uniform(condition.b, vector)
        if isinstance(condition, tirx.Not):
            return self.uniform(condition.a, vector)
        key = "uniform", tvm_ffi.StructuralKey(condition), vector
        return self.known(key, lambda: self._is_uniform(condition, vector))

    def _is_uniform(self, condition: Expr, vector: int) -> bool:
        if loads_in(condition):
            return False
        analyzer, quotient, lane = self._vector(vector)
        here = substitute(condition, {COLUMN: quotient * vector + lane})
        return without(lane, here, analyzer) is not None

    def complementary(self, guard: Expr | None, other: Expr | None) -> bool:
        """Whether always exactly one of two conditions holds."""
        if guard is None or other is None:
            return False
        conditions = conjuncts(guard), conjuncts(other)
        if max(map(len, conditions)) > MOST_OF_COMPLEMENTS:
            return False
        # Either holds where each of one's conditions or each of the other's does. That is asked
        # pair by pair, the innermost first: most of what is no complement is known at once.
        if not all(starmap(self._always_either, product(*map(reversed, conditions)))):
            return False
        return constant(self.analyzer.simplify(tirx.all(guard, other))) == 0

    def _always_either(self, condition: Expr, other: Expr) -> bool:
        """Whether one of two conditions holds everywhere."""
        key = "either", tvm_ffi.StructuralKey(condition), tvm_ffi.StructuralKey(other)

        def find() -> bool:
            return constant(self.analyzer.simplify(tirx.any(condition, other))) == 1

        return self.known(key, find)

    def _vector(self, vector: int) -> tuple[Analyzer, Var, Var]:
        """An analyzer that knows the number of a vector, and a lane of it."""
        return self.known(("vector", vector), lambda: self._vector_of(vector))

    def _vector_of(self, vector: int) -> tuple[Analyzer, Var, Var]:
        quotient, lane = tirx.Var("quotient", "int64"), tirx.Var("lane", "int64")
        analyzer = self.analyzer.clone()
        analyzer.bind(lane, tvm.ir.Range(0, vector))
        last = tirx.floordiv(self.program.space.columns + (vector - 1), vector)
        analyzer.bind(quotient, tvm.ir.Range(tirx.IntImm("int64", 0), last))
        return analyzer, quotient, lane

    def _stride(self, index: Expr) -> Stride:
        if any(mentions(i, COLUMN) for read in find_reads(index) for i in read.load.indices):
            # A position that is read may be that of several side by side, as of all channels.
            return Stride.UNIT if self._in_pieces(index) else Stride.GATHER
        if not mentions(index, COLUMN):
            return Stride.UNIFORM
        step = substitute(index, {COLUMN: COLUMN + 1}) - index
        change = constant(self.analyzer.simplify(step))
        if change == 1:
            return Stride.UNIT
        return self._broken_stride(index)

    def _broken_stride(self, index: Expr) -> Stride:
        """The stride of an index with divisions, such as column // 64 or column % 64."""
        if self._in_pieces(index):
            return Stride.UNIT
        bound = self.analyzer.const_int_bound(index)
        columns = NOMINAL.size(self.program.space.columns)
        if bound.max_value - bound.min_value < columns // 4:
            return Stride.BROADCAST
        return Stride.GATHER

    def _in_pieces(self, index: Expr) -> bool:
        """Whether neighbours lie side by side, up to where the index breaks."""
        return self.contiguous(index, 8) or self.contiguous(index, 4)


@memoized
def weights(program: Program) -> int:
    """How many vectors a program reads that are the same for all rows."""
    frame = Frame(program)
    others = [
        frame.address(stage, read)
        for stage, read in program.reads_at(Where.OTHER)
        if read.buffer in program.inputs
    ]
    return len({each.key for each in others if each.stride is Stride.UNIT and not each.of_row})


def _full_axes(stage: Stage, space: Space) -> dict[Var, Expr]:
    """Split the axes where columns begin and end; if they do not, count elements."""
    axes, extents = stage.axes, stage.extents
    found = space.column_axes(extents)
    if found is None:
        return unflatten(space.flat(ROW, COLUMN), axes, extents)
    begin, end = found
    of_row = (*axes[:begin], *axes[end:])
    own = unflatten(ROW, of_row, (*extents[:begin], *extents[end:]))
    return own | unflatten(COLUMN, axes[begin:end], extents[begin:end])
