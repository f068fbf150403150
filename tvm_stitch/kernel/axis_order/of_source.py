"""Values behind a transpose, in the order in which what is transposed lies in memory.

In: Stages in order and the buffers that must be written, of which rows are reduced that lie across
in what a transpose reads. Out: the same stages, in which values that nobody writes have their axes
in the order of what is read, so that the rows are columns of a matrix; or why they are as they are.
The order of a value that stays on the chip is nobody's business: results are the same in any.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from tvm_stitch.kernel.axis_order.turned import Moved, Order, is_elementwise, position_in
from tvm_stitch.stages.memoized import remembered
from tvm_stitch.stages.stage import (
    Expr,
    Refused,
    Stage,
    Var,
    buffer_size,
    constant,
    handle,
    product,
    same_size,
    shown,
)


# Of a set, panels and rounds ask one after the other.
@lru_cache(maxsize=4)
def in_source_order(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...]
) -> tuple[Stage, ...] | Refused:
    """The stages with what lies behind the first transpose of their rows in its source's order."""
    columns = next((stage.reduced_size for stage in stages if stage.is_reduction), None)
    if columns is not None:
        written = set(map(handle, outputs))
        for stage in stages:
            is_free = len(stage.extents) > 1 and handle(stage.output) not in written
            beside = _rows_beside(stage, columns) if is_free else None
            if beside is not None:
                return _reordered(stages, outputs, stage, (beside, columns))
    return Refused("no rows are reduced that a transpose reads")


def _rows_beside(stage: Stage, columns: Expr) -> Expr | None:
    """How many rows lie side by side where a transpose reads them; None: it is no transpose."""

    def find() -> Expr | None:
        if not is_elementwise(stage):
            return None
        plain = [n for n, read in enumerate(stage.reads) if read.is_plain]
        full = [n for n in plain if same_size(buffer_size(stage.reads[n].buffer), stage.size)]
        for order, beside in _orders(stage, columns) if full else ():
            position = position_in(stage, order)
            if any(map(position.is_read_by, full)):
                return beside
        return None

    return remembered(stage, ("rows beside", shown(columns)), find)


def _orders(stage: Stage, columns: Expr) -> Iterator[tuple[Order, Expr]]:
    """Orders in which the last axes, a row's columns, come before axes of rows, and how many."""
    extents, count = stage.extents, len(stage.extents)
    for first in range(1, count):
        if same_size(product(extents[first:]), columns):
            for outer in range(first):
                beside = product(extents[outer:first])
                if constant(beside) != 1:
                    yield (*range(outer), *range(first, count), *range(outer, first)), beside


def _reordered(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...], transpose: Stage, split: tuple[Expr, Expr]
) -> tuple[Stage, ...]:
    """The stages with all elements that are computed of a transpose in another order of axes."""
    moved = Moved()
    behind, found, written = {transpose.output}, list[Stage](), set(map(handle, outputs))
    for stage in stages:
        if any(read.buffer in behind for read in stage.reads):
            behind.add(stage.output)
        stage = moved.reading(stage)
        is_full = is_elementwise(stage) and same_size(stage.size, transpose.size)
        is_free = stage.output in behind and handle(stage.output) not in written
        order = _order(stage, *split) if is_full and is_free else None
        found.append(stage if order is None else moved.turned(stage, order))
    return tuple(found)


def _order(stage: Stage, beside: Expr, columns: Expr) -> Order | None:
    """The order of a stage's axes in which so many rows lie side by side; None: it has none."""
    orders = _orders(stage, columns)
    return next((order for order, rows in orders if same_size(rows, beside)), None)
