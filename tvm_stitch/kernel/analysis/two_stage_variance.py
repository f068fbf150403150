"""A mean and the squares around it, in one pass over what both are of.

In: Stages in order and the halves of their reductions (kernel/cooperative/split_reduction).
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
from tvm_stitch.stages.alike import matched
from tvm_stitch.stages.memoized import remembered
from tvm_stitch.stages.stage import Expr, Stage, constant, handle, substitute

LONGEST = 2048  # values of a share, for its first one may be the worst of all


class Halves(Protocol):
    """A reduction's shares, and their total."""

    @property
    def shares(self) -> Stage:
        """What is reduced over a part of the values."""

    @property
    def total(self) -> Stage:
        """The sum of that."""


def one_pass(stages: tuple[Stage, ...], halves: MappingOf[int, Halves]) -> dict[int, list[Stage]]:
    """By the handle of what they wrote: what stands instead of a sum, and of squares around it."""
    producer = {handle(stage.output): stage for stage in stages}
    found: dict[int, list[Stage]] = {}
    for stage in stages:
        key = handle(stage.output)
        centre = centre_of(stage, producer) if key in halves else None
        other = handle(centre.total.output) if centre is not None else 0
        if centre is None or other in found or other not in halves:
            continue
        find = partial(_moments_if_alike, halves[other], halves[key])
        moments = remembered(stage, ("one pass", other), find)
        if moments is not None:
            found |= {other: moments, key: []}
    return found


def _moments_if_alike(sums: Halves, squares: Halves) -> list[Stage] | None:
    return _moments(sums, squares) if _alike(squares, sums) else None


def _alike(own: Halves, other: Halves) -> bool:
    """Whether two reductions fall into the same shares, none of which its first value spoils."""
    one, two = own.shares, other.shares
    sizes = [tuple(map(constant, stage.extents)) for stage in (one, two)]
    if sizes[0] != sizes[1] or one.row_segments != two.row_segments:
        return False
    length = constant(one.reduced_size) or 0
    return length > 1 and (not one.row_segments or length <= LONGEST)


@dataclass(frozen=True, eq=False)
class _Share:
    """What is found of a share's values, as expressions at the share's axes."""

    stages: tuple[Stage, ...]
    mean: tuple[Expr, ...]  # terms of it, none of which is far from those of other shares
    around: Expr  # the sum of the squares around that mean


def _of_columns(shares: Stage, squares: Stage) -> _Share:
    """Of values that go by once, measured against the first one."""
    count = tirx.const(constant(shares.reduced_size) or 1, DTYPE)
    (inside,) = shares.reduced
    first = substitute(shares.value, {inside: tirx.IntImm("int64", 0)})
    distance = shares.value - first
    s = replace(shares, value=distance)
    q = replace(shares, name=squares.name, output=squares.output, value=distance * distance)
    own, squared = s.output[shares.axes], q.output[shares.axes]
    return _Share((s, q), (first, own / count), squared - own * own / count)


def _of_chunk(shares: Stage, squares: Stage) -> _Share:
    """Of values that are at hand until their mean is known."""
    length = tirx.const(constant(shares.reduced_size) or 1, DTYPE)
    mean = _named(shares, "mean")
    mean = _element(shares, shares.output[shares.axes] / length, mean)
    distance = shares.value - mean.output[shares.axes]
    q = replace(shares, name=squares.name, output=squares.output, value=distance * distance)
    return _Share((shares, mean, q), (mean.output[shares.axes],), q.output[shares.axes])


def _moments(sums: Halves, squares: Halves) -> list[Stage]:
    """The stages that find a sum and the squares around its mean."""
    total, in_columns = sums.total, sums.shares.row_segments
    share = (_of_columns if in_columns else _of_chunk)(sums.shares, squares.shares)
    count = tirx.const(constant(sums.shares.reduced_size) or 1, DTYPE)
    number = tirx.const(constant(total.reduced_size) or 1, DTYPE)
    place = dict(zip(sums.shares.axes, total.value.indices, strict=True))
    start = {var: tirx.IntImm("int64", 0) for var in total.reduced}
    here = [substitute(term, place) for term in share.mean]
    first = [substitute(term, start) for term in here]
    apart = _added(own - other for own, other in zip(here, first, strict=True))
    around = substitute(share.around, place) + count * apart * apart
    d = replace(_named(total, "apart"), value=apart)
    v = replace(_named(total, "around"), value=around)
    off = d.output[total.axes]
    whole = count * (number * _added(first) + off)
    rest = v.output[total.axes] - count / number * off * off
    results = _element(total, whole, sums.total), _element(total, rest, squares.total)
    return [*share.stages, d, v, *results]


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
    )
