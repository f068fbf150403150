"""A mean and the squares around it, in one pass over what both are of.

In: Stages in order and their reductions in two stages (kernel/cooperative/split_reduction).
Out: for a sum that falls into shares, and a sum of squares of the same values around its mean that
does too, stages that find both from the same shares. Must not know threads, nor rounds.

Of p shares of n values each, v are the squares of one around its own mean, and d is how far that
mean lies from the first share's. The values then lie around the mean of all by the sum of
v + n * d * d, less n / p times the square of the sum of d. Nothing large is taken from something
large that is not near it.

The values of a chunk are at hand until their mean is known. Those of a segment's columns go by
once, and are measured against the first one, k: s sums x - k, and q the squares of that. So v is
q - s * s / n, and d is k - k' + (s - s') / n, k' and s' the first share's. Whatever the mean, a
share loses digits only where its first value is far from the others, and no more than n such values
would lose in any sum.

Shares of rows whose number only run time knows may have n values, fewer or none, each as many as
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
from tvm_stitch.stages.stage import Expr, Stage, Var, constant, handle, same_size, substitute

LONGEST = 2048  # values of a share, for its first one may be the worst of all


class TwoStage(Protocol):
    """A reduction's shares, and their total."""

    @property
    def shares(self) -> Stage:
        """What is reduced over a part of the values."""

    @property
    def total(self) -> Stage:
        """The sum of that."""


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
        find = partial(_moments_if_alike, two_stage[other], two_stage[key])
        moments = remembered(stage, ("one pass", other), find)
        if moments is not None:
            found |= {other: moments, key: []}
    return found


def _moments_if_alike(sums: TwoStage, squares: TwoStage) -> list[Stage] | None:
    return _moments(sums, squares) if _alike(squares, sums) else None


def shared_alike(own: TwoStage, other: TwoStage) -> bool:
    """Whether two reductions fall into the same shares."""
    one, two = own.shares, other.shares
    if (one.row_segments, one.uneven) != (two.row_segments, two.uneven):
        return False
    pairs = [(one.extents, two.extents), (one.reduced_extents, two.reduced_extents)]
    return all(len(a) == len(b) and all(map(same_size, a, b)) for a, b in pairs)


def _alike(own: TwoStage, other: TwoStage) -> bool:
    """The same, if none of these is spoilt by its first value."""
    one, length = own.shares, constant(own.shares.reduced_size) or 0
    spoilt = length <= 1 or (one.row_segments and length > LONGEST)
    return shared_alike(own, other) and bool(one.uneven or not spoilt)


@dataclass(frozen=True, eq=False)
class _Share:
    """What is found of a share's values, as expressions at the share's axes."""

    stages: tuple[Stage, ...]
    mean: tuple[Expr, ...]  # terms of it, none of which is far from those of other shares
    around: Expr  # the sum of the squares around that mean


def _of_columns(shares: Stage, squares: Stage, count: Expr) -> _Share:
    """Of values that go by once, measured against the first one."""
    first = substitute(shares.value, _first_of(shares))
    distance = shares.value - first
    s = replace(shares, value=distance)
    q = replace(shares, name=squares.name, output=squares.output, value=distance * distance)
    own, squared = s.output[shares.axes], q.output[shares.axes]
    some = tirx.max(count, tirx.const(1, DTYPE)) if shares.uneven else count
    return _Share((s, q), (first, own / some), squared - own * own / some)


def _first_of(shares: Stage) -> dict[Var, Expr]:
    """The place of a share's first value; of a share without any, of one that there is."""
    if shares.uneven:
        segment = shares.axes[(shares.row_segments or 0) - 1]
        return first_row(shares, shared_rows(shares), segment)
    return dict.fromkeys(shares.reduced, tirx.IntImm("int64", 0))


def _counts(shares: Stage) -> Stage:
    """How many values each uneven share has, whatever its column."""
    segments = shares.row_segments or 0
    axes, extents = shares.axes[:segments], shares.extents[:segments]
    output = tirx.decl_buffer(extents, DTYPE, f"{shares.name}_count")
    value = _number(shared_rows(shares).rows_of(axes[-1]))
    return Stage(f"{shares.name}_count", output, axes, extents, value)


def _number(size: Expr) -> Expr:
    known = constant(size)
    return size.astype(DTYPE) if known is None else tirx.const(known, DTYPE)


def _of_chunk(shares: Stage, squares: Stage, count: Expr) -> _Share:
    """Of values that are at hand until their mean is known."""
    mean = _named(shares, "mean")
    mean = _element(shares, shares.output[shares.axes] / count, mean)
    distance = shares.value - mean.output[shares.axes]
    q = replace(shares, name=squares.name, output=squares.output, value=distance * distance)
    return _Share((shares, mean, q), (mean.output[shares.axes],), q.output[shares.axes])


def _moments(sums: TwoStage, squares: TwoStage) -> list[Stage]:
    """The stages that find a sum and the squares around its mean."""
    total, shares = sums.total, sums.shares
    uneven = shares.uneven
    counts = _counts(shares) if uneven else None
    count = counts.output[counts.axes] if counts else _number(shares.reduced_size)
    share = (_of_columns if shares.row_segments else _of_chunk)(shares, squares.shares, count)
    place = dict(zip(shares.axes, total.value.indices, strict=True))
    count = substitute(count, place)
    # What distances are weighed by: shares of as many values weigh the same.
    scale = tirx.const(1, DTYPE) if uneven else count
    number = _number(shares.reduced_size if uneven else total.reduced_size)
    start = {var: tirx.IntImm("int64", 0) for var in total.reduced}
    here = [substitute(term, place) for term in share.mean]
    first = [substitute(term, start) for term in here]
    apart = _added(own - other for own, other in zip(here, first, strict=True))
    around = substitute(share.around, place) + count * apart * apart
    d = replace(_named(total, "apart"), value=count * apart if uneven else apart)
    v = replace(_named(total, "around"), value=around)
    off = d.output[total.axes]
    whole = scale * (number * _added(first) + off)
    rest = v.output[total.axes] - scale / number * off * off
    results = _element(total, whole, sums.total), _element(total, rest, squares.total)
    return [*share.stages, *([counts] if counts else []), d, v, *results]


def _added(terms: Iterable[Expr]) -> Expr:
    return reduce(add, terms)


def _named(stage: Stage, suffix: str) -> Stage:
    """The same stage with a result of its own."""
    name = f"{stage.name}_{suffix}"
    return replace(stage, name=name, output=tirx.decl_buffer(stage.extents, DTYPE, name))


def _element(total: Stage, value: Expr, written: Stage) -> Stage:
    """What follows from such sums, as the result of a reduction that it stands for."""
    own = matched((total.axes, total.extents), (written.axes, written.extents))
    assert own is not None, "both reduce the same shares"
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
