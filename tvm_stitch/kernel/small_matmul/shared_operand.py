"""The factor of a small product that several rows share, as a table.

In: a product's Factors, its shared one computed from memory alone, and how many neighbouring rows
share it. Out: a Panel. Must not know what else a kernel computes, nor threads.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import tvm
from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import COLUMN, ROW
from tvm_stitch.kernel.analysis.contiguity import Extent, bound_to, in_chunks
from tvm_stitch.stages.indices import unflatten
from tvm_stitch.stages.patterns.matmul_pattern import ACCUMULATED, Factors
from tvm_stitch.stages.stage import (
    Expr,
    Var,
    constant,
    dtype_of,
    find_reads,
    handle,
    place_of,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import quotient

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
    slow: Extent
    fast: int

    @property
    def load(self) -> Expr | None:
        """The load that it is, perhaps cast; None if it is anything else."""
        return load_of(self.value)

    @property
    def as_it_is(self) -> bool:
        """Whether memory holds its elements as they are multiplied."""
        return self.load is not None and dtype_of(self.load.source) == ACCUMULATED

    @cached_property
    def in_vectors(self) -> bool:
        """Whether it is loads of which every four neighbours along `fast` are an aligned vector."""
        load = self.load
        if load is None:
            return False
        at = place_of(load)
        return in_chunks(at, FAST, {SLOW: self.slow, FAST: self.fast}, CHUNK)

    @cached_property
    def key(self) -> tuple[object, ...]:
        """Equal for the same table of the same buffers: keys and values of an attention may be."""
        buffers = tuple(handle(read.buffer) for read in find_reads(self.value))
        return str(self.value), buffers, str(self.slow), self.fast


@dataclass(frozen=True, eq=False)
class Contraction:
    """A product in a program: the sum over its depth of a row's value times a panel."""

    own: Var
    async_input: (
        Panel | None
    )  # the row's values as a table of all rows, if that is what memory holds
    contracted: int
    panel: Panel
    by_depth: bool  # whether the depth is the panel's fast axis; else the column is

    def place(self, depth: Expr, column: Expr) -> tuple[Expr, Expr]:
        """An element of the panel by its slow and its fast axis."""
        return (column, depth) if self.by_depth else (depth, column)


def panel_of(factors: Factors, shared: Expr, rows: Expr, inner: Expr) -> tuple[Panel, bool]:
    """What every `inner` of `rows` rows share, and whether the depth is its fast axis."""
    fast, slow = factors.depth, factors.column
    sizes = factors.columns, factors.contracted
    analyzer = bound_to({ENTRY: quotient(rows, inner), slow: sizes[0], fast: sizes[1]})
    names = unflatten(ENTRY * inner, factors.rows, factors.row_extents)
    value = analyzer.simplify(substitute(shared.astype(ACCUMULATED), names))
    by_depth = _moves_by_one(value, factors.depth) and not _moves_by_one(value, factors.column)
    if not by_depth:
        (fast, slow), sizes = (slow, fast), sizes[::-1]
    return Panel(substitute(value, {slow: SLOW, fast: FAST}), *sizes), by_depth


def table_of_rows(value: Expr, axes: dict[Var, Expr], rows: Expr, columns: int) -> Panel | None:
    """A value by row and column as a table, if it is a load, perhaps cast."""
    if load_of(value) is None:
        return None
    analyzer = bound_to({SLOW: rows, FAST: columns})
    placed = substitute(substitute(value, axes), {ROW: SLOW, COLUMN: FAST})
    return Panel(analyzer.simplify(placed), rows, columns)


def load_of(value: Expr) -> Expr | None:
    """The load that a value is, perhaps cast; None if it is anything else."""
    load = value.value if isinstance(value, tirx.Cast) else value
    return load if isinstance(load, tvm.ir.TensorLoad) else None


def _moves_by_one(value: Expr, axis: Var) -> bool:
    """Whether some load of a value takes neighbours in memory for neighbours along an axis."""
    analyzer = tvm.sym.Analyzer()
    for read in find_reads(value):
        at = read.place
        step = analyzer.simplify(substitute(at, {axis: axis + 1}) - at)
        if constant(step) == 1:
            return True
    return False
