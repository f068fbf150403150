"""Stages whose axes are counted in another order, and what reads them.

In: Stages in order, and orders of the axes of some. Out: stages that compute the same, of which
these lie in that order. The order of a value that stays on the chip is nobody's business: results
are the same in any. Must not know why an order is taken.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

import tvm
from tvm import tirx

from tvm_stitch.stages import linear
from tvm_stitch.stages.indices import simplified_load, unraveled
from tvm_stitch.stages.linear import Position
from tvm_stitch.stages.stage import (
    Expr,
    Stage,
    Var,
    bind_axes,
    dtype_of,
    flatten,
    interned,
    substitute,
)
from tvm_stitch.stages.visit import mapped

Item = TypeVar("Item")
Order = tuple[int, ...]  # of axes, by their numbers
Parts = tuple[tuple[Expr, ...], ...]  # of each axis, the extents of those that it becomes


def is_elementwise(stage: Stage) -> bool:
    """Whether each element is of what is read for it alone."""
    return not stage.is_reduction and not stage.scan


def position_in(stage: Stage, order: Order) -> Position:
    """Where each element of a stage would lie with its axes in an order."""
    axes, extents = _in(stage.axes, order), _in(stage.extents, order)
    units, sizes = linear.axes(stage), linear.sizes(stage)
    known = None
    if units is not None and sizes is not None:
        known = linear.flattened(_in(units, order), _in(sizes, order))
    return Position(stage, known, lambda: flatten(axes, extents))


@dataclass
class Moved:
    """Values that lie in another order than they did."""

    found: dict[Var, tuple[Var, Parts, Order]] = field(default_factory=dict)

    def turned(self, stage: Stage, order: Order, parts: Parts | None = None) -> Stage:
        """A stage that writes its value in an order of its axes, or of the parts of these."""
        parts = parts or tuple((extent,) for extent in stage.extents)
        split = _split(stage, parts)
        extents = _in(split.extents, order)
        own = tirx.decl_buffer(extents, dtype_of(stage.output), stage.output.name, layout=None)
        self.found[stage.output] = interned(own), parts, order
        return replace(split, output=interned(own), axes=_in(split.axes, order), extents=extents)

    def reading(self, stage: Stage) -> Stage:
        """A stage that loads what has been moved from where it is."""

        def known(load: Expr) -> Expr:
            found = self.found.get(interned(load.source))
            if found is None:
                return load
            buffer, parts, order = found
            pairs = zip(load.indices, parts, strict=True)
            places = tuple(place for pair in pairs for place in unraveled(*pair))
            return buffer[_in(places, order)]

        if not any(read.buffer in self.found for read in stage.reads):
            return stage
        return replace(stage, value=mapped(stage.value, (tvm.ir.TensorLoad, known)))


def _split(stage: Stage, parts: Parts) -> Stage:
    """A stage with several axes for one of several parts."""
    if all(len(each) == 1 for each in parts):
        return stage
    axes: list[Var] = []
    whole: dict[Var, Expr] = {}
    for axis, extents in zip(stage.axes, parts, strict=True):
        own = [axis]
        if len(extents) > 1:
            own = [tirx.Var(f"{axis.name}_{n}", axis.ty.dtype) for n in range(len(extents))]
            whole[axis] = flatten(tuple(own), extents)
        axes += own
    sizes = tuple(extent for extents in parts for extent in extents)
    found = replace(stage, axes=tuple(axes), extents=sizes, value=substitute(stage.value, whole))
    analyzer = bind_axes(found)
    simple = mapped(found.value, (tvm.ir.TensorLoad, lambda load: simplified_load(load, analyzer)))
    return replace(found, value=simple)


def _in(values: Sequence[Item], order: Order) -> tuple[Item, ...]:
    return tuple(values[place] for place in order)
