"""Small products whose columns or depth only run time knows, but no more than a bound.

In: stages, the buffers that must be written, and upper bounds of symbols. Out: the same stages, as
wide and deep as the bounds allow, which are small products of known sizes. Must not know threads.

Memory is read where there is something, else it is 0; of columns that are not there a reduction
takes its identity. What else is computed of them may be anything, as nobody reads it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tvm import tirx

from tvm_stitch.stages.op_pattern import is_product
from tvm_stitch.stages.patterns.matmul_pattern import Factors, at_most, small_product
from tvm_stitch.stages.stage import (
    Expr,
    Stage,
    Var,
    buffer_shape,
    constant,
    dtype_of,
    replaced,
    shown,
)

Limits = Mapping[str, int]  # of symbols, by name


def limits_of(stages: Sequence[Stage], bounds: Limits) -> dict[str, int]:
    """The bounds that the products among stages need; none where there is no such product."""
    needed = {
        var.name
        for stage in stages
        for extent, _ in _open_extents(stage, bounds)
        for var in tirx.analysis.undefined_vars(extent)
    }
    return {name: bounds[name] for name in sorted(needed)}


def widened(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...], limits: Limits
) -> tuple[Stage, ...] | None:
    """The stages of known columns and depth; None where they cannot be."""
    extents = {shown(e): most for s in stages for e, most in _open_extents(s, limits)}
    made = {stage.output for stage in stages}
    if not extents or any(read.nested for stage in stages for read in stage.reads):
        return None
    widening = _Widening(extents, made, {})
    found = []
    for stage in stages:
        wide = widening.columns(stage)
        if wide is not None and (stage.output in outputs or not _may_be_anything(stage)):
            return None
        found.append(widening.stage(stage, wide))
    return tuple(found)


def _open_extents(stage: Stage, bounds: Limits) -> Iterator[tuple[Expr, int]]:
    """The columns and depth of a small product that only run time knows, and their bounds."""
    wide = at_most(stage, bounds)
    if wide is None or not isinstance(small_product(wide), Factors):
        return
    extents = stage.extents[-1], *stage.reduced_extents
    most = wide.extents[-1], *wide.reduced_extents
    for extent, known in zip(extents, map(constant, most), strict=True):
        if constant(extent) is None and known is not None:
            yield extent, known


def _may_be_anything(stage: Stage) -> bool:
    """Whether computing with any numbers is harmless: dividing integers by them is not."""
    return "float" in dtype_of(stage.output) or dtype_of(stage.output) == "bool"


@dataclass(frozen=True)
class _Widening:
    extents: Mapping[str, int]  # as they are shown
    made: set[Var]
    wide: dict[Var, Var]  # buffers with more columns than are there

    def columns(self, stage: Stage) -> int | None:
        """How many a stage gets of columns that only run time knows."""
        return self.extents.get(shown(stage.extents[-1])) if stage.extents else None

    def stage(self, stage: Stage, columns: int | None) -> Stage:
        """A stage with so many columns, over as many elements as there may be."""
        there: list[tuple[Var, Expr]] = []
        output, extents = stage.output, stage.extents
        if columns is not None:
            there.append((stage.axes[-1], extents[-1]))
            extents = (*extents[:-1], tirx.IntImm("int64", columns))
            shape = (*buffer_shape(output)[:-1], extents[-1])
            output = tirx.decl_buffer(shape, dtype_of(output), output.name, layout=None)
            self.wide[stage.output] = output
        summed = [
            (axis, extent)
            for axis, extent in zip(stage.reduced, stage.reduced_extents, strict=True)
            if shown(extent) in self.extents
        ]
        depth = tuple(
            tirx.IntImm("int64", self.extents[shown(extent)]) if shown(extent) in self.extents
            else extent
            for extent in stage.reduced_extents
        )  # fmt: skip
        value = replaced(stage.value, self._reads(stage, [*there, *summed]))
        if summed and is_product(stage) and isinstance(value, tirx.Mul):
            sides = (_where(summed, each, _zero(each)) for each in (value.a, value.b))
            value = tirx.Mul(*sides)
        elif summed:
            value = _where(summed, value, stage.identity)
        return replace(stage, output=output, extents=extents, reduced_extents=depth, value=value)

    def _reads(self, stage: Stage, there: Sequence[tuple[Var, Expr]]) -> dict[int, Any]:
        """What a stage reads, of memory only what there is."""
        found = {}
        for read in stage.reads:
            source: Any = self.wide.get(read.buffer, read.buffer)
            load = source[tuple(read.load.indices)]
            is_made = read.buffer in self.made
            found[read.key] = load if is_made else _where(there, load, _zero(load))
        return found


def _where(there: Sequence[tuple[Var, Expr]], value: Expr, otherwise: Expr) -> Expr:
    """A value of elements that are there."""
    used = set(tirx.analysis.undefined_vars(value))
    conditions = [axis < extent for axis, extent in there if axis in used]
    if not conditions:
        return value
    return tirx.if_then_else(tirx.all(*conditions), value, otherwise)


def _zero(value: Expr) -> Expr:
    return tirx.const(0, dtype_of(value))
