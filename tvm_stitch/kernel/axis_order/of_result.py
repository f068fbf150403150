"""Rows in the order in which their results lie in memory.

In: Stages in order and the buffers that must be written, of which one transposes what rows are
reduced to. Out: the same stages with the axes of the rows in the order of that result, so that
neighbouring rows write side by side, where whole rows would have to wait for each other; or why
they are as they are. What the rows read is read from where it lies, in another order.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from tvm import tirx

from tvm_stitch.kernel.axis_order.turned import Moved, Order, Parts, is_elementwise, position_in
from tvm_stitch.stages.stage import (
    Expr,
    Refused,
    Stage,
    Var,
    buffer_size,
    constant,
    product,
    same_size,
)


class _Blocks(NamedTuple):
    """Rows as three axes, of which a result has the last two in the other order."""

    outer: Expr
    first: Expr  # before the last one where the rows are reduced
    last: Expr


def in_result_order(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...]
) -> tuple[Stage, ...] | Refused:
    """The stages with all that has a row's axes in the order of a transposed result."""
    reductions = [stage for stage in stages if stage.is_reduction]
    if any(stage.row_segments is not None for stage in reductions):
        return Refused("rows are reduced segment by segment, in their order")
    computed = {stage.output for stage in stages}
    for stage in stages if reductions else ():
        is_of_rows = is_elementwise(stage) and same_size(stage.size, reductions[0].size)
        blocks = _transposed(stage, computed) if is_of_rows and stage.output in outputs else None
        if blocks is not None:
            return _turned(stages, outputs, blocks, reductions[0].reduced_size)
    return Refused("no result of rows is transposed")


def _transposed(stage: Stage, computed: set[Var]) -> _Blocks | None:
    """The axes that a result has in another order than what it reads; None: it has not."""
    reads = [
        number
        for number, read in enumerate(stage.reads)
        if read.is_plain and read.buffer in computed
        and same_size(buffer_size(read.buffer), stage.size)
    ]  # fmt: skip
    extents, count = stage.extents, len(stage.extents)
    for outer in range(count - 1 if reads else 0):
        for middle in range(outer + 1, count):
            sizes = extents[:outer], extents[middle:], extents[outer:middle]
            blocks = _Blocks(*map(product, sizes))
            if constant(blocks.first) == 1 or constant(blocks.last) == 1:
                continue
            order = (*range(outer), *range(middle, count), *range(outer, middle))
            if any(map(position_in(stage, order).is_read_by, reads)):
                return blocks
    return None


def _turned(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...], blocks: _Blocks, columns: Expr
) -> tuple[Stage, ...]:
    moved, found = Moved(), list[Stage]()
    for given in stages:
        stage = moved.reading(given)
        turned = None if stage.output in outputs else _in_blocks(stage, blocks, columns)
        found.append(stage if turned is None else moved.turned(stage, *turned))
    return tuple(found)


def _in_blocks(stage: Stage, blocks: _Blocks, columns: Expr) -> tuple[Order, Parts | None] | None:
    """The order of the axes of what there is one of for each row, or each element of one.

    Or of their parts, where an axis is part of two blocks; None: it is nothing of a row's.
    """
    behind = columns if is_elementwise(stage) else None
    order = _order(stage.extents, blocks, behind)
    if order is not None:
        return order, None
    parts = _parts(stage.extents, blocks)
    extents = tuple(extent for each in parts or () for extent in each)
    order = _order(extents, blocks, behind) if parts else None
    return None if order is None else (order, parts)


def _order(extents: tuple[Expr, ...], blocks: _Blocks, columns: Expr | None) -> Order | None:
    """The axes, of which blocks are side by side, with the last two blocks exchanged."""
    count = len(extents)
    for outer, middle, end in _ends(extents, blocks):
        is_full = columns is not None and same_size(product(extents[end:]), columns)
        if end == count or is_full:
            turned = (*range(middle, end), *range(outer, middle))
            return (*range(outer), *turned, *range(end, count))
    return None


def _parts(extents: tuple[Expr, ...], blocks: _Blocks) -> Parts | None:
    """The extents of axes, cut where blocks end within one; None: not everywhere."""
    sizes, numbers = map(constant, blocks), [constant(extent) for extent in extents]
    outer, first, last = sizes
    if outer is None or first is None or last is None or None in numbers:
        return None
    ends = (outer, outer * first, outer * first * last)
    found: list[tuple[Expr, ...]] = []
    done = 1
    for number in numbers:
        assert number is not None, "all are numbers"
        edges = [done, *sorted({e for e in ends if done < e < done * number}), done * number]
        if any(end % start for start, end in pairwise(edges)):
            return None
        found.append(tuple(tirx.IntImm("int64", end // start) for start, end in pairwise(edges)))
        done *= number
    return tuple(found)


def _ends(extents: tuple[Expr, ...], blocks: _Blocks) -> Iterator[tuple[int, int, int]]:
    """Where the three axes of rows may end among these."""
    count = len(extents)
    for outer in range(count + 1):
        if same_size(product(extents[:outer]), blocks.outer):
            for middle in range(outer, count + 1):
                if same_size(product(extents[outer:middle]), blocks.first):
                    for end in range(middle, count + 1):
                        if same_size(product(extents[middle:end]), blocks.last):
                            yield outer, middle, end
