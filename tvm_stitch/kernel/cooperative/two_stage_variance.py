"""A mean and the squares around it, in one pass over what both are of.

In: Stages in order and the halves of their reductions (kernel/cooperative/two_stage_reduction).
Out: for a sum that falls into shares, and a sum of squares of the same values around its mean that
does too, stages that find both from the same shares. Must not know threads, nor rounds.

A share's values are measured against its first one, k: s sums x - k, and q the squares of that. The
values of a share that counts n then lie around their own mean by q - s * s / n, and means of shares
lie apart by d = (k - k') + (s - s') / n, k' and s' the first share's. Of p shares the values lie
around the mean of all by the sum of q - s * s / n + n * d * d, less n / p times the square of the
sum of d. Nothing large is taken from something large that is not near it: whatever the mean, a
share loses digits only where its first value is far from the others, and no more than n such values
would lose in any sum.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import replace
from functools import partial
from typing import Protocol

from tvm import tirx

from tvm_stitch.kernel.analysis.variance_pattern import DTYPE, centre_of, matched
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
    """Whether two reductions fall into the same shares, of columns."""
    shares = own.shares, other.shares
    if not all(stage.row_segments for stage in shares):
        return False
    length = constant(own.shares.reduced_size) or 0
    sizes = [tuple(map(constant, stage.extents)) for stage in shares]
    return sizes[0] == sizes[1] and 1 < length <= LONGEST


def _moments(sums: Halves, squares: Halves) -> list[Stage]:
    """The stages that find a sum and the squares around its mean."""
    shares, total = sums.shares, sums.total
    length = constant(shares.reduced_size) or 1
    (inside,) = shares.reduced
    first = substitute(shares.value, {inside: tirx.IntImm("int64", 0)})
    distance = shares.value - first
    s = replace(shares, value=distance)
    q = replace(shares, name=squares.shares.name, output=squares.shares.output)
    q = replace(q, value=distance * distance)
    place = dict(zip(shares.axes, total.value.indices, strict=True))
    start = {var: tirx.IntImm("int64", 0) for var in total.reduced}
    count = tirx.const(length, DTYPE)

    def of_share(value: Expr) -> tuple[Expr, Expr]:
        """A share's value, and the same of the first share."""
        here = substitute(value, place)
        return here, substitute(here, start)

    k, k_first = of_share(first)
    own, own_first = of_share(s.output[shares.axes])
    squared, _ = of_share(q.output[shares.axes])
    apart = (k - k_first) + (own - own_first) / count
    around = squared - own * own / count + count * apart * apart
    d = _summed(total, apart, "apart")
    v = _summed(total, around, "around")
    number = tirx.const(constant(total.reduced_size) or 1, DTYPE)
    at = total.axes
    mean = k_first + own_first / count
    whole = count * (number * mean + d.output[at])
    rest = v.output[at] - count / number * d.output[at] * d.output[at]
    return [s, q, d, v, _element(total, whole, sums.total), _element(total, rest, squares.total)]


def _summed(total: Stage, value: Expr, suffix: str) -> Stage:
    """A sum over the shares."""
    name = f"{total.name}_{suffix}"
    return replace(
        total, name=name, value=value, output=tirx.decl_buffer(total.extents, DTYPE, name)
    )


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
