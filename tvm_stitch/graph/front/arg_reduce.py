"""argmax and argmin as two reductions: the extreme, and the first position at which it stands.

In: a call of relax.argmax or argmin. Out: a call of its TIR, for LegalizeOps. TVM reduces pairs of
index and value instead, which no stitched kernel holds, which DLight has the warps of a branch
exchange with others that did not take it, and which answers -1 for rows of nothing but infinities.
Knows no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tvm import relax, te, tirx
from tvm.ir import Call

from tvm_stitch.graph.front.decompose.stages import ACCUMULATORS
from tvm_stitch.stages.stage import flatten, product

Expr = Any
Extreme = Callable[..., Expr]
_INT32_MAX = 2**31 - 1


def legalize_argmax(builder: relax.BlockBuilder, call: Call) -> Expr:
    """The first of the largest elements, or the first not-a-number."""
    return _legalized(builder, call, te.max, "argmax")


def legalize_argmin(builder: relax.BlockBuilder, call: Call) -> Expr:
    """The first of the smallest elements, or the first not-a-number."""
    return _legalized(builder, call, te.min, "argmin")


def _legalized(builder: relax.BlockBuilder, call: Call, extreme: Extreme, name: str) -> Expr:
    axis, dtype = call.attrs.axis, str(call.ty.dtype.dtype)

    def compute(data: te.Tensor) -> te.Tensor:
        axes = range(len(data.shape)) if axis is None else [int(axis) % len(data.shape)]
        return positions(data, axes, extreme, bool(call.attrs.keepdims), dtype)

    return builder.call_te(compute, call.args[0], primfunc_name_hint=name)


def positions(
    data: te.Tensor,
    axes: Sequence[int],
    extreme: Extreme,
    keepdims: bool,
    dtype: str,
    last: bool = False,
) -> te.Tensor:
    """Where the first (or last) of the extremes over some axes stands, counted in row-major order.

    The first not-a-number comes before them. Where an infinity is the extreme that TVM's reductions
    start from, no element equals it, and any is as good.
    """
    if not axes:
        return te.compute(data.shape, lambda *_at: tirx.const(0, dtype), name="position")
    rows = _Rows(data, tuple(axes))
    to_best, to_first = rows.loops(), rows.loops()
    best = te.compute(
        rows.kept, lambda *at: extreme(rows.element(at, to_best), axis=to_best), name="extreme"
    )
    none = rows.count.astype(rows.index)

    def candidate(*at: Expr) -> Expr:
        element, number = rows.element(at, to_first), rows.number(to_first)
        ranked = none - 1 - number if last else number
        found = tirx.Select(element == best(*at), ranked, none)
        wide = ACCUMULATORS.get(str(data.dtype))
        if wide is None:
            return found
        return tirx.Select(tirx.isnan(element.astype(wide)), ranked - none, found)

    first = te.compute(rows.kept, lambda *at: te.min(candidate(*at), axis=to_first), name="first")

    def position(*at: Expr) -> Expr:
        place = [each for axis, each in enumerate(at) if axis not in axes] if keepdims else at
        found = tirx.floormod(first(*place), none)
        return (none - 1 - found if last else found).astype(dtype)

    units = [1 if axis in axes else extent for axis, extent in enumerate(data.shape)]
    return te.compute(units if keepdims else rows.kept, position, name="position")


@dataclass(frozen=True)
class _Rows:
    """A tensor, by what is reduced of it and what is kept."""

    data: te.Tensor
    axes: tuple[int, ...]

    @property
    def kept(self) -> list[Expr]:
        return [extent for axis, extent in enumerate(self.data.shape) if axis not in self.axes]

    @property
    def reduced(self) -> list[Expr]:
        return [self.data.shape[axis] for axis in self.axes]

    @property
    def count(self) -> Expr:
        return product(tuple(self.reduced))

    @property
    def index(self) -> str:
        """64 bits take two shuffles where 32 take one: only where they may be needed."""
        count = self.count
        small = isinstance(count, tirx.IntImm) and int(count) <= _INT32_MAX // 2
        return "int32" if small else "int64"

    def loops(self) -> list[tirx.IterVar]:
        return [te.reduce_axis((0, extent)) for extent in self.reduced]

    def element(self, at: Sequence[Expr], loops: Sequence[tirx.IterVar]) -> Expr:
        kept, reduced = iter(at), iter(loops)
        rank = len(self.data.shape)
        return self.data(*[next(reduced if axis in self.axes else kept) for axis in range(rank)])

    def number(self, loops: Sequence[tirx.IterVar]) -> Expr:
        """Of an element among those that are reduced with it."""
        place = flatten(tuple(loop.var for loop in loops), tuple(self.reduced))
        return place.astype(self.index)
