"""Where loads go: a stage's indices in terms of the row and the column.

In: a Program. Out: for every load that is not simply "the same row and column", its address as an
expression of ROW and COLUMN, and how that address moves along the columns. Must not know threads.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

import tvm
from tvm import tirx

from tvm_stitch.kernel.program import Program, Space, Where, same_size, unflatten
from tvm_stitch.kernel.stage import (
    Expr,
    Read,
    Stage,
    Var,
    buffer_shape,
    constant,
    find_reads,
    flatten,
    product,
    substitute,
)

ROW = tirx.Var("row", "int64")
COLUMN = tirx.Var("column", "int64")


class Stride(enum.Enum):
    """How an address moves when the column does."""

    STILL = "one element for the whole row"
    UNIT = "neighbours lie side by side"
    REPEAT = "one element for several neighbours"
    GATHER = "anywhere"


@dataclass(frozen=True, eq=False)
class Address:
    """A position in a flat view of a buffer, as an expression of ROW and COLUMN."""

    buffer: Var
    index: Expr
    stride: Stride

    @property
    def key(self) -> tuple[Var, str]:
        """Equal for loads of the same element."""
        return self.buffer, str(self.index)

    def at(self, row: Expr, column: Expr) -> Expr:
        """The position for a given row and column."""
        return substitute(self.index, {ROW: row, COLUMN: column})


class Frame:
    """Translates a program's index expressions into ROW and COLUMN."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.analyzer = tvm.sym.Analyzer()
        zero = tirx.IntImm("int64", 0)
        self.analyzer.bind(ROW, tvm.ir.Range(zero, program.space.rows))
        self.analyzer.bind(COLUMN, tvm.ir.Range(zero, program.space.columns))

    def axes(self, stage: Stage) -> dict[Var, Expr]:
        """A stage's axes as expressions of ROW and COLUMN."""
        space = self.program.space
        if stage.output in self.program.columnwise:
            axes = unflatten(COLUMN, stage.axes, stage.extents)
            axes |= unflatten(ROW, stage.reduced, stage.reduced_extents)
        elif stage.is_reduction:
            axes = unflatten(ROW, stage.axes, stage.extents)
            axes |= unflatten(COLUMN, stage.reduced, stage.reduced_extents)
        elif same_size(stage.size, space.size):
            axes = _full_axes(stage, space)
        else:
            axes = unflatten(ROW, stage.axes, stage.extents)
        return {axis: self.analyzer.simplify(expr) for axis, expr in axes.items()}

    def address(self, stage: Stage, read: Read) -> Address:
        """The address of a load of an input."""
        where = self.program.place(stage, read)
        if where is Where.ROW:
            return Address(read.buffer, ROW, Stride.STILL)
        if where is Where.SAME:
            return Address(read.buffer, self.program.space.flat(ROW, COLUMN), Stride.UNIT)
        indices = tuple(read.load.indices)
        flat = flatten(indices, buffer_shape(read.buffer))
        index = self.analyzer.simplify(substitute(flat, self.axes(stage)))
        return Address(read.buffer, index, self._stride(index))

    def aligned(self, index: Expr, vector: int) -> bool:
        """Whether every vector of columns that starts at a multiple of `vector` is aligned."""
        quotient = tirx.Var("quotient", "int64")
        start = substitute(index, {COLUMN: quotient * vector})
        modular = self.analyzer.modular_set(self.analyzer.simplify(start))
        return modular.coeff % vector == 0 and modular.base % vector == 0

    def contiguous(self, index: Expr, vector: int) -> bool:
        """Whether the elements of such a vector lie side by side."""
        quotient, lane = tirx.Var("quotient", "int64"), tirx.Var("lane", "int64")
        analyzer = self.analyzer.clone()
        analyzer.bind(lane, tvm.ir.Range(0, vector))
        last = tirx.floordiv(self.program.space.columns + (vector - 1), vector)
        analyzer.bind(quotient, tvm.ir.Range(tirx.IntImm("int64", 0), last))
        start = substitute(index, {COLUMN: quotient * vector})
        moved = substitute(index, {COLUMN: quotient * vector + lane})
        return analyzer.can_prove_equal(moved - start, lane)

    def _stride(self, index: Expr) -> Stride:
        if find_reads(index):
            inner = any(_mentions(i, COLUMN) for r in find_reads(index) for i in r.load.indices)
            if inner:
                return Stride.GATHER
        if not _mentions(index, COLUMN):
            return Stride.STILL
        step = substitute(index, {COLUMN: COLUMN + 1}) - index
        change = constant(self.analyzer.simplify(step))
        if change == 1:
            return Stride.UNIT
        return self._broken_stride(index)

    def _broken_stride(self, index: Expr) -> Stride:
        """The stride of an index with divisions, such as column // 64 or column % 64."""
        if self.contiguous(index, 8) or self.contiguous(index, 4):
            return Stride.UNIT
        bound = self.analyzer.const_int_bound(index)
        columns = constant(self.program.space.columns)
        if columns and bound.max_value - bound.min_value < columns // 4:
            return Stride.REPEAT
        return Stride.GATHER


def _mentions(expr: Expr, var: Var) -> bool:
    return any(var == used for used in tirx.analysis.undefined_vars(expr))


def _full_axes(stage: Stage, space: Space) -> dict[Var, Expr]:
    """Split the axes where rows end and columns begin; if they do not, count elements."""
    if not space.whole:
        return unflatten(space.flat(ROW, COLUMN), stage.axes, stage.extents)
    for split in range(len(stage.axes) + 1):
        if same_size(product(stage.extents[split:]), space.columns):
            axes = unflatten(ROW, stage.axes[:split], stage.extents[:split])
            return axes | unflatten(COLUMN, stage.axes[split:], stage.extents[split:])
    return unflatten(space.flat(ROW, COLUMN), stage.axes, stage.extents)
