"""A product whose columns are read in equal parts is a product for each part.

In: the stages of a function. Out: the same, where what follows a product reads it in parts, as the
two halves of a gated unit whose matrices lie one behind the other: of products by parts of the
matrix, each with a copy of what is computed of all columns. Must not know threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from tvm import tirx

from tvm_stitch.kernel.codegen.tir_builder import divided
from tvm_stitch.stages.indices import unraveled
from tvm_stitch.stages.memoized import remembered
from tvm_stitch.stages.op_pattern import is_product
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Stage,
    Var,
    bind_axes,
    constant,
    dtype_of,
    flatten,
    replaced,
    same_size,
)
from tvm_stitch.stages.symbolic_analyzer import Analyzer, analyzer_of

Stages = tuple[Stage, ...]


def with_parts(stages: Stages, outputs: tuple[Var, ...], most: int) -> Stages:
    """The stages by at most so many parts of the first one's columns, if nobody needs all."""
    first, *after = stages
    if not is_product(first) or any(stage.is_reduction for stage in after):
        return stages
    if all(same_size(stage.size, first.size) for stage in after):
        return stages
    key = "parts of columns", stages, outputs, most
    return remembered(first, key, lambda: _in_parts(stages, outputs, most) or stages)


def _in_parts(stages: Stages, outputs: tuple[Var, ...], most: int) -> Stages | None:
    """The same; None where the columns are not read so."""
    whole, readers = _apart(stages)
    extents, size = stages[0].extents, constant(stages[0].size)
    columns = constant(extents[-1]) if extents else None
    sizes = {constant(stage.size) or 0 for stage in readers}
    if not (columns and size and whole.isdisjoint(outputs)) or len(sizes) != 1 or 0 in sizes:
        return None
    count, rest = divmod(size, sizes.pop())
    if rest or columns % count or not 1 < count <= most:
        return None
    parts = [_Part(number, columns // count, columns) for number in range(count)]
    found = list[Stage]()
    for stage in stages:
        if stage.output in whole:
            if not stage.extents or constant(stage.extents[-1]) != columns:
                return None
            found += [part.of(stage) for part in parts]
        else:
            found.append(_reading(stage, parts) if stage in readers else stage)
    left = (read.buffer in whole for stage in found for read in stage.reads)
    return None if any(left) else tuple(found)


def _apart(stages: Stages) -> tuple[set[Var], list[Stage]]:
    """What has an element for each of the first stage's, of its element alone; and who reads it."""
    first, *after = stages
    whole, readers = {first.output}, list[Stage]()
    for stage in after:
        reads = [read for read in stage.reads if read.buffer in whole]
        own, is_whole = flatten(stage.axes, stage.extents), same_size(stage.size, first.size)
        if reads and is_whole and all(_is_at(stage, read, own) for read in reads):
            whole.add(stage.output)
        elif reads:
            readers.append(stage)
    return whole, readers


def _is_at(stage: Stage, read: Read, place: Expr) -> bool:
    return not read.guarded and bind_axes(stage).can_prove_equal(read.place, place)


class _Part:
    """A part of the columns, by its number."""

    def __init__(self, number: int, columns: int, of: int) -> None:
        self.number, self.columns, self.first, self.pitch = number, columns, number * columns, of
        self._own: dict[Var, Stage] = {}

    def of(self, stage: Stage) -> Stage:
        """That of a stage with all columns."""
        extents = (*stage.extents[:-1], tirx.IntImm("int64", self.columns))
        name = f"{stage.name}_{self.number}"
        axes = tuple(tirx.Var(axis.name, axis.ty.dtype) for axis in stage.axes)
        there = dict(zip(stage.axes, axes, strict=True))
        there[stage.axes[-1]] = axes[-1] + self.first
        place, analyzer = flatten(axes, extents), analyzer_of(dict(zip(axes, extents, strict=True)))
        loads = {
            read.key: self.load(read.buffer, place, analyzer)
            for read in stage.reads
            if read.buffer in self._own
        }
        self._own[stage.output] = replace(
            stage,
            name=name,
            output=tirx.decl_buffer(extents, dtype_of(stage.output), name, layout=None),
            axes=axes,
            extents=extents,
            value=replaced(stage.value, loads, there),
        )
        return self._own[stage.output]

    def load(self, buffer: Var, place: Expr, analyzer: Analyzer) -> Expr:
        """The element of a buffer's part at a place of the part."""
        own = self._own[buffer]
        indices = unraveled(place, own.extents)
        return own.output[tuple(analyzer.simplify(index) for index in indices)]

    def holds(self, buffer: Var) -> bool:
        """Whether it is a part of this buffer as well."""
        return buffer in self._own

    def has(self, stage: Stage, read: Read) -> bool:
        """Whether a stage of as many elements as a part reads its own one here."""
        place = flatten(stage.axes, stage.extents)
        row, column = divided(place, self.columns)
        return _is_at(stage, read, row * self.pitch + self.first + column)


def _reading(stage: Stage, parts: Sequence[_Part]) -> Stage:
    """A stage that reads its own element of parts, as far as it does."""
    place = flatten(stage.axes, stage.extents)
    loads = {
        read.key: part.load(read.buffer, place, bind_axes(stage))
        for read in stage.reads
        for part in parts
        if part.holds(read.buffer) and part.has(stage, read)
    }
    return replace(stage, value=replaced(stage.value, loads))
