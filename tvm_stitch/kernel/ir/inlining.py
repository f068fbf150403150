"""A stage that computes what it would read of another element-wise one.

In: a Stage, some of its reads, and the stages that compute what these load. Out: the stage without
them, its indices as simple as what is known of them allows. Must not know why.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace

import tvm
from tvm import tirx

from tvm_stitch.stages.indices import divisions, simplified_load, unflatten
from tvm_stitch.stages.memoized import memoized, remembered
from tvm_stitch.stages.stage import (
    Expr,
    Read,
    Stage,
    Var,
    as_int64,
    bind_axes,
    buffer_shape,
    dtype_of,
    flatten,
    is_buffer,
    loads_in,
    replaced,
    substitute,
)
from tvm_stitch.stages.symbolic_analyzer import SymbolicAnalyzer
from tvm_stitch.stages.visit import mapped

# Divisions of an index, behind several views, that are worth the time to look for shorter ones.
LONG_INDEX = 6


# Some of a stage's reads by the buffer that they read.
Reads = Mapping[Var, tuple[Read, ...]]


def by_buffer(reads: Iterable[Read]) -> Reads:
    """Reads by what they read, in the order of the first of each."""
    found: dict[Var, list[Read]] = {}
    for read in reads:
        found.setdefault(read.buffer, []).append(read)
    return {buffer: tuple(own) for buffer, own in found.items()}


@memoized
def all_reads(stage: Stage) -> Reads:
    """All of a stage's reads."""
    return by_buffer(stage.reads)


def with_inlined(stage: Stage, reads: Reads, producer: Mapping[Var, Stage]) -> Stage:
    """A stage that computes some of its reads itself."""

    # Of a buffer there are several stages: one may read what lies in another order of axes.
    sources = tuple((own, producer[buffer]) for buffer, own in reads.items())

    def find() -> Stage:
        analyzer = bind_axes(stage)
        pairs = ((read, source) for own, source in sources for read in own)
        values = {read.key: inlined(source, read, analyzer) for read, source in pairs}
        return replace(stage, value=replaced(stage.value, values))

    return remembered(stage, ("inlined", sources), find)


def inlined(source: Stage, read: Read, analyzer: tvm.sym.Analyzer) -> Expr:
    """The value of an element-wise stage at the place that a load asks for."""
    indices = _simplified(read, analyzer)
    if len(indices) != len(source.axes):  # axes of extent 1 that only one of the two counts
        place = flatten(indices, buffer_shape(read.buffer))
        return substitute(source.value, unflatten(place, source.axes, source.extents))
    there = dict(zip(source.axes, indices, strict=True))
    from_memory = {axis: index for axis, index in there.items() if loads_in(index)}
    if not from_memory:
        return _shortened(substitute(source.value, there), analyzer)
    plain = {axis: index for axis, index in there.items() if axis not in from_memory}
    value = _simplified_loads(substitute(source.value, plain), source, from_memory, analyzer)
    return _shortened(substitute(value, from_memory), analyzer)


def _shortened(value: Expr, analyzer: tvm.sym.Analyzer) -> Expr:
    """A value whose loads have no long index that the extents of its axes make short."""

    def short(load: Expr) -> Expr:
        is_long = sum(map(divisions, load.indices)) > LONG_INDEX
        return simplified_load(load, analyzer) if is_long else load

    return mapped(value, (tvm.ir.TensorLoad, short))


def _simplified_loads(
    value: Expr, source: Stage, axes: Collection[Var], analyzer: tvm.sym.Analyzer
) -> Expr:
    """A stage's value with loads by what is known of some of its axes, whose values memory says.

    Of the position itself nothing is known, but it is one of the tensor: behind a reshape, what is
    divided by the pixels of an image is its channel.
    """
    known = analyzer.clone()
    for axis, extent in zip(source.axes, source.extents, strict=True):
        if axis in axes:
            known.bind(axis, tvm.ir.Range(tirx.IntImm("int64", 0), extent))

    return mapped(value, (tvm.ir.TensorLoad, lambda load: simplified_load(load, known)))


def _simplified(read: Read, analyzer: tvm.sym.Analyzer) -> tuple[Expr, ...]:
    """The indices of a load, by what holds where it stands: in a branch that is taken from the
    second row on, (row + 255) % 256 is row - 1."""
    # Indices that are read from memory may be of int32, which axes are not.
    found = tuple(as_int64(analyzer.simplify(index)) for index in read.load.indices)
    if not read.guarded or isinstance(analyzer, SymbolicAnalyzer) or not any(map(divisions, found)):
        return found

    def known(part: Expr) -> Expr:
        if is_buffer(part):
            return part
        bound = analyzer.const_int_bound(part)
        is_known = bound.min_value == bound.max_value
        return tirx.IntImm(dtype_of(part), bound.min_value) if is_known else part

    def narrowed(index: Expr) -> Expr:
        # Among odd columns, column % 2 is 1; added to column // 2 it would not be found again.
        kinds = (tirx.FloorDiv, tirx.FloorMod, tirx.Var)
        return as_int64(analyzer.simplify(mapped(index, *((kind, known) for kind in kinds))))

    with analyzer.constraint_scope(analyzer.simplify(read.guard)):  # of negations it learns nothing
        pairs = zip(read.load.indices, found, strict=True)
        return tuple(narrowed(index) if divisions(plain) else plain for index, plain in pairs)
