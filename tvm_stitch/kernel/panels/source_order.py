"""Values behind a transpose, in the order in which what is transposed lies in memory.

In: Stages in order and the buffers that must be written, of which rows are reduced that lie across
in what a transpose reads. Out: the same stages, in which values that nobody writes have their axes
in the order of what is read, so that the rows are columns of a matrix; or why they are as they are.
The order of a value that stays on the chip is nobody's business: results are the same in any.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

import tvm
from tvm import tirx

from tvm_stitch.stages import linear
from tvm_stitch.stages.linear import Position
from tvm_stitch.stages.stage import (
    Expr,
    Refused,
    Stage,
    Var,
    buffer_size,
    constant,
    dtype_of,
    flatten,
    interned,
    product,
    same_size,
)
from tvm_stitch.stages.visit import mapped

Item = TypeVar("Item")
Order = tuple[int, ...]  # of axes, by their numbers


def in_source_order(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...]
) -> tuple[Stage, ...] | Refused:
    """The stages with what lies behind the first transpose of their rows in its source's order."""
    columns = next((stage.reduced_size for stage in stages if stage.is_reduction), None)
    if columns is not None:
        for stage in stages:
            beside = None if stage.output in outputs else _rows_beside(stage, columns)
            if beside is not None:
                return _reordered(stages, outputs, stage, (beside, columns))
    return Refused("no rows are reduced that a transpose reads")


def _rows_beside(stage: Stage, columns: Expr) -> Expr | None:
    """How many rows lie side by side where a transpose reads them; None: it is no transpose."""
    if not _is_elementwise(stage):
        return None
    plain = [n for n, read in enumerate(stage.reads) if read.is_plain]
    full = [n for n in plain if same_size(buffer_size(stage.reads[n].buffer), stage.size)]
    for order, beside in _orders(stage, columns) if full else ():
        position = _position(stage, order)
        if any(map(position.is_read_by, full)):
            return beside
    return None


def _orders(stage: Stage, columns: Expr) -> Iterator[tuple[Order, Expr]]:
    """Orders in which the last axes, a row's columns, come before axes of rows, and how many."""
    extents, count = stage.extents, len(stage.extents)
    for first in range(1, count):
        if same_size(product(extents[first:]), columns):
            for outer in range(first):
                beside = product(extents[outer:first])
                if constant(beside) != 1:
                    yield (*range(outer), *range(first, count), *range(outer, first)), beside


def _position(stage: Stage, order: Order) -> Position:
    """Where each element lies with the axes in that order."""
    axes, extents = _in(stage.axes, order), _in(stage.extents, order)
    units, sizes = linear.axes(stage), linear.sizes(stage)
    known = None
    if units is not None and sizes is not None:
        known = linear.flattened(_in(units, order), _in(sizes, order))
    return Position(stage, known, lambda: flatten(axes, extents))


def _reordered(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...], transpose: Stage, split: tuple[Expr, Expr]
) -> tuple[Stage, ...]:
    """The stages with all elements that are computed of a transpose in another order of axes."""
    moved: dict[Var, tuple[Var, Order]] = {}
    behind, found = {transpose.output}, list[Stage]()
    for stage in stages:
        if any(read.buffer in behind for read in stage.reads):
            behind.add(stage.output)
        stage = _reading(stage, moved)
        is_full = _is_elementwise(stage) and same_size(stage.size, transpose.size)
        is_free = stage.output in behind and stage.output not in outputs
        order = _order(stage, *split) if is_full and is_free else None
        if order is not None:
            output, extents = stage.output, _in(stage.extents, order)
            own = tirx.decl_buffer(extents, dtype_of(output), output.name, layout=None)
            moved[output] = interned(own), order
            stage = replace(stage, output=own, axes=_in(stage.axes, order), extents=extents)
        found.append(stage)
    return tuple(found)


def _is_elementwise(stage: Stage) -> bool:
    return not stage.is_reduction and not stage.scan


def _order(stage: Stage, beside: Expr, columns: Expr) -> Order | None:
    """The order of a stage's axes in which so many rows lie side by side; None: it has none."""
    orders = _orders(stage, columns)
    return next((order for order, rows in orders if same_size(rows, beside)), None)


def _reading(stage: Stage, moved: Mapping[Var, tuple[Var, Order]]) -> Stage:
    """A stage that loads what has been moved from where it is."""

    def known(load: Expr) -> Expr:
        found = moved.get(interned(load.source))
        if found is None:
            return load
        buffer, order = found
        return buffer[_in(tuple(load.indices), order)]

    if not any(read.buffer in moved for read in stage.reads):
        return stage
    return replace(stage, value=mapped(stage.value, (tvm.ir.TensorLoad, known)))


def _in(values: Sequence[Item], order: Order) -> tuple[Item, ...]:
    return tuple(values[place] for place in order)
