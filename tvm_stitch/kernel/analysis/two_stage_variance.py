"""A mean and the squares around it, in one pass over what both are of.

In: Stages in order and their reductions in two stages (kernel/cooperative/split_reduction).
Out: for a sum that falls into partials, and a sum of squares of the same values around its mean
that does too, stages that find both from the same partials. Must not know threads, nor rounds.

Of p partials of n values each, v are the squares of one around its own mean, and d is how far that
mean lies from the first partial's. The values then lie around the mean of all by the sum of
v + n * d * d, less n / p times the square of the sum of d. Nothing large is taken from something
large that is not near it.

The values of a chunk are at hand until their mean is known. Those of a segment's columns go by
once, and are measured against the first one, k: s sums x - k, and q the squares of that. So v is
q - s * s / n, and d is k - k' + (s - s') / n, k' and s' the first partial's. Whatever the mean, a
partial loses digits only where its first value is far from the others, and no more than n such
values would lose in any sum.

Only run time may know how long chunks are, and how many: none of them is no values and no mean.
Partials of rows whose number only run time knows may have n values, fewer or none, each as many as
`_counts` says: distances are then weighed by that.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import add
from typing import Protocol

from tvm import tirx

from tvm_stitch.kernel.analysis.variance_pattern import DTYPE, centre_of
from tvm_stitch.kernel.ir.row_segments import first_row, shared_rows
from tvm_stitch.stages.alike import matched
from tvm_stitch.stages.memoized import remembered
from tvm_stitch.stages.stage import (
    Expr,
    Stage,
    Var,
    constant,
    handle,
    product,
    same_size,
    substitute,
)

LONGEST = 2048  # values of a partial, for its first one may be the worst of all


class TwoStage(Protocol):
    """A reduction's partials, and the final one of these."""

    @property
    def partials(self) -> Stage:
        """What is reduced over a part of the values."""

    @property
    def final(self) -> Stage:
        """The reduction of that."""


def one_pass(
    stages: tuple[Stage, ...], two_stage: MappingOf[int, TwoStage]
) -> dict[int, list[Stage]]:
    """By the handle of what they wrote: what stands instead of a sum, and of squares around it."""
    producer = {handle(stage.output): stage for stage in stages}
    found: dict[int, list[Stage]] = {}
    for stage in stages:
        key = handle(stage.output)
        centre = centre_of(stage, producer) if key in two_stage else None
        other = handle(centre.total.output) if centre is not None else 0
        if centre is None or other in found or other not in two_stage:
            continue
        splits = two_stage[other], two_stage[key]
        moments = remembered(stage, ("one pass", *splits), partial(_moments_if_alike, *splits))
        if moments is not None:
            found |= {other: moments, key: []}
    return found


def _moments_if_alike(sums: TwoStage, squares: TwoStage) -> list[Stage] | None:
    return _moments(sums, squares) if _alike(squares, sums) else None


def partials_alike(own: TwoStage, other: TwoStage) -> bool:
    """Whether two reductions fall into the same partials."""
    one, two = own.partials, other.partials
    if (one.row_segments, one.uneven) != (two.row_segments, two.uneven):
        return False
    pairs = [(one.extents, two.extents), (one.reduced_extents, two.reduced_extents)]
    return all(len(a) == len(b) and all(map(same_size, a, b)) for a, b in pairs)


def _alike(own: TwoStage, other: TwoStage) -> bool:
    """The same, if none of these is spoilt by its first value."""
    partials, length = own.partials, constant(own.partials.reduced_size)
    if partials.row_segments and not partials.uneven:
        spoilt = length is None or not 1 < length <= LONGEST
    else:
        spoilt = length == 1
    return not spoilt and partials_alike(own, other)


@dataclass(frozen=True, eq=False)
class _Partial:
    """What is found of a partial's values, as expressions at the partial's axes."""

    stages: tuple[Stage, ...]
    mean: tuple[Expr, ...]  # terms of it, none of which is far from those of other partials
    around: Expr  # the sum of the squares around that mean


def _of_columns(partials: Stage, squares: Stage, count: Expr) -> _Partial:
    """Of values that go by once, measured against the first one."""
    first = substitute(partials.value, _first_of(partials))
    distance = partials.value - first
    s = replace(partials, value=distance)
    q = replace(partials, name=squares.name, output=squares.output, value=distance * distance)
    own, squared = s.output[partials.axes], q.output[partials.axes]
    some = _at_least_one(count)
    return _Partial((s, q), (first, own / some), squared - own * own / some)


def _first_of(partials: Stage) -> dict[Var, Expr]:
    """The place of a partial's first value; of a partial without any, of one that there is."""
    if partials.uneven:
        segment = partials.axes[(partials.row_segments or 0) - 1]
        return first_row(partials, shared_rows(partials), segment)
    return dict.fromkeys(partials.reduced, tirx.IntImm("int64", 0))


def _counts(partials: Stage) -> Stage:
    """How many values each uneven partial has, whatever its column."""
    segments = partials.row_segments or 0
    axes, extents = partials.axes[:segments], partials.extents[:segments]
    output = tirx.decl_buffer(extents, DTYPE, f"{partials.name}_count")
    value = _number(shared_rows(partials).rows_of(axes[-1]))
    return Stage(f"{partials.name}_count", output, axes, extents, value)


def _number(size: Expr) -> Expr:
    known = constant(size)
    return size.astype(DTYPE) if known is None else tirx.const(known, DTYPE)


def _at_least_one(count: Expr) -> Expr:
    """A number to divide by, where only run time knows that there is nothing."""
    return count if isinstance(count, tirx.FloatImm) else tirx.max(count, tirx.const(1, DTYPE))


def _of_chunk(partials: Stage, squares: Stage, count: Expr) -> _Partial:
    """Of values that are at hand until their mean is known."""
    mean = _named(partials, "mean")
    own = partials.output[partials.axes] / _at_least_one(count)
    mean = _element(partials, own, mean)
    distance = partials.value - mean.output[partials.axes]
    q = replace(partials, name=squares.name, output=squares.output, value=distance * distance)
    return _Partial((partials, mean, q), (mean.output[partials.axes],), q.output[partials.axes])


def _moments(sums: TwoStage, squares: TwoStage) -> list[Stage]:
    """The stages that find a sum and the squares around its mean."""
    final, partials = sums.final, sums.partials
    uneven = partials.uneven
    counts = _counts(partials) if uneven else None
    count = counts.output[counts.axes] if counts else _number(partials.reduced_size)
    found = (_of_columns if partials.row_segments else _of_chunk)(partials, squares.partials, count)
    place = dict(zip(partials.axes, final.value.indices, strict=True))
    count = substitute(count, place)
    # What distances are weighed by: partials of as many values weigh the same.
    scale = tirx.const(1, DTYPE) if uneven else count
    number = _number(_rows_in_all(final, partials) if uneven else final.reduced_size)
    start = {var: tirx.IntImm("int64", 0) for var in final.reduced}
    here = [substitute(term, place) for term in found.mean]
    first = [_if_any(final, substitute(term, start)) for term in here]
    offset = _added(own - other for own, other in zip(here, first, strict=True))
    around = substitute(found.around, place) + count * offset * offset
    d = replace(_named(final, "offset"), value=count * offset if uneven else offset)
    v = replace(_named(final, "around"), value=around)
    off = d.output[final.axes]
    whole = scale * (number * _added(first) + off)
    rest = _not_negative(v.output[final.axes] - scale / _at_least_one(number) * off * off)
    results = _element(final, whole, sums.final), _element(final, rest, squares.final)
    return [*found.stages, *([counts] if counts else []), d, v, *results]


def _not_negative(squares: Expr) -> Expr:
    """The sum of some squares. Values that are equal may be computed twice, once with fused
    multiply-adds and once without, and roots of what is left then are not numbers."""
    return tirx.Select(squares < 0.0, tirx.const(0, DTYPE), squares)


def _rows_in_all(final: Stage, partials: Stage) -> Expr:
    """How many values uneven partials have together: their rows are shared among the segments.

    Columns that are reduced too have as many rows each.
    """
    segment = final.value.indices[(partials.row_segments or 0) - 1]
    reduced = zip(final.reduced, final.reduced_extents, strict=True)
    columns = [extent for var, extent in reduced if not var.same_as(segment)]
    return product((partials.reduced_size, *columns))


def _if_any(final: Stage, first: Expr) -> Expr:
    """What is found of the first partial, where there is one."""
    size = final.reduced_size
    if constant(size) is not None:
        return first
    return tirx.if_then_else(size > 0, first, tirx.const(0, DTYPE))


def _added(terms: Iterable[Expr]) -> Expr:
    return reduce(add, terms)


def _named(stage: Stage, suffix: str) -> Stage:
    """The same stage with a result of its own."""
    name = f"{stage.name}_{suffix}"
    return replace(stage, name=name, output=tirx.decl_buffer(stage.extents, DTYPE, name))


def _element(final: Stage, value: Expr, written: Stage) -> Stage:
    """What follows from such sums, as the result of a reduction that it stands for."""
    own = matched((final.axes, final.extents), (written.axes, written.extents))
    assert own is not None, "both reduce the same partials"
    return replace(
        written,
        value=substitute(value, own),
        reduced=(),
        reduced_extents=(),
        combiner="",
        identity=None,
        row_segments=None,
        uneven=False,
    )
