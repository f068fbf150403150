"""What kind of operator a PrimFunc is, seen from its stages rather than from its name."""

from __future__ import annotations

import enum

import tvm
from tvm import tirx
from tvm_ffi import structural_hash

from tvm_stitch.stages.linear import own_position
from tvm_stitch.stages.memoized import memoized, memoized_for_copies
from tvm_stitch.stages.patterns.ragged_product import ragged_product
from tvm_stitch.stages.patterns.scattered_reduction import scattered_reduction
from tvm_stitch.stages.stage import Read, Stage, Var, buffer_shape, buffer_size, constant, same_size


class Pattern(enum.Enum):
    """Kinds of operators, from the freest to the most bound."""

    RESHAPE = "reshape"
    ELEMENTWISE = "element-wise"
    BROADCAST = "broadcast"
    INJECTIVE = "injective"
    ROW_REDUCTION = "row reduction"
    COLUMN_REDUCTION = "column reduction"
    PRODUCT = "matrix product"
    OPAQUE = "opaque"


_ORDER = list(Pattern)


def classify(stages: tuple[Stage, ...]) -> Pattern:
    """The most bound pattern among the stages."""
    return max((_pattern(stage) for stage in stages), key=_ORDER.index, default=Pattern.OPAQUE)


def is_view(stages: tuple[Stage, ...]) -> bool:
    """Whether all of the stages but give their input another shape."""
    return bool(stages) and all(_pattern(stage) is Pattern.RESHAPE for stage in stages)


def copies_in_order(stages: tuple[Stage, ...]) -> bool:
    """The same, or they copy a tensor as it is."""
    return bool(stages) and all(map(_copies, stages))


@memoized
def distinct_loads(stage: Stage) -> tuple[Var, ...]:
    """The buffer of each load of an element; a clamp reads the same one in several places."""
    return tuple({structural_hash(read.load): read.buffer for read in stage.reads}.values())


@memoized_for_copies
def is_product(stage: Stage) -> bool:
    """Whether a reduction multiplies tensors none of which spans all of the output's axes.

    Matrix products and convolutions are such; a product of one tensor with weights along the
    reduced axes only is an ordinary reduction, and so is one of what indices send to a row.
    """
    if scattered_reduction(stage) is not None:
        return False
    if ragged_product(stage) is not None:
        return True
    spans = []
    wide = {a for a, e in zip(stage.axes, stage.extents, strict=True) if constant(e) != 1}
    for read in stage.reads:
        indices = read.load.indices[:]
        used = {var for index in indices for var in tirx.analysis.undefined_vars(index)}
        if used & set(stage.reduced):
            spans.append(wide <= used)
    return len(spans) > 1 and not any(spans)


@memoized_for_copies
def _pattern(stage: Stage) -> Pattern:
    if stage.is_reduction and is_product(stage):
        return Pattern.PRODUCT
    own = own_position(stage)
    at_own = map(own.is_read_by, range(len(stage.reads)))
    if stage.is_reduction:
        return Pattern.ROW_REDUCTION if any(at_own) else Pattern.COLUMN_REDUCTION
    if stage.reads and all(at_own) and all(_is_whole(read, stage) for read in stage.reads):
        copies = isinstance(stage.value, tvm.ir.TensorLoad)
        reshaped = copies and len(buffer_shape(stage.reads[0].buffer)) != len(stage.axes)
        same_shape = all(_same_shape(read, stage) for read in stage.reads)
        return Pattern.RESHAPE if copies and (reshaped or not same_shape) else Pattern.ELEMENTWISE
    if all(_picks_axes(read, stage) for read in stage.reads):
        return Pattern.BROADCAST
    return Pattern.INJECTIVE


def _is_whole(read: Read, stage: Stage) -> bool:
    """Whether a stage has an element for each of a tensor: the first rows of one are a part."""
    return same_size(buffer_size(read.buffer), stage.size)


def _copies(stage: Stage) -> bool:
    as_it_is = isinstance(stage.value, tvm.ir.TensorLoad)
    return as_it_is and _pattern(stage) in (Pattern.RESHAPE, Pattern.ELEMENTWISE)


def _same_shape(read: Read, stage: Stage) -> bool:
    shape = buffer_shape(read.buffer)
    return len(shape) == len(stage.extents) and all(map(same_size, shape, stage.extents))


def _picks_axes(read: Read, stage: Stage) -> bool:
    """Whether every index of a load is an axis, in order, or 0."""
    order = {axis: number for number, axis in enumerate(stage.axes)}
    indices = read.load.indices[:]
    used = [order.get(index, -1) for index in indices if constant(index) != 0]
    extents_match = all(
        constant(index) == 0 or same_size(extent, stage.extents[order[index]])
        for index, extent in zip(indices, buffer_shape(read.buffer), strict=True)
        if constant(index) == 0 or index in order
    )
    return -1 not in used and used == sorted(set(used)) and extents_match
