"""The gradient of largest elements, which goes to the first of each window that is as large.

In: a call of relax.grad.max_pool2d_backward. Out: its TIR, for LegalizeOps: where in each window
its largest element is, and of each element of the image the gradients of windows whose largest it
is. Where no element is in two windows, each looks at its own: that is one stage of an element.
Elsewhere windows are looked at once, by a call of its own. TVM reduces windows to pairs of position
and value, which no stitched kernel holds. Knows no kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from math import inf, nan
from typing import Any

from tvm import relax, te, tirx
from tvm.ir import Call

from tvm_stitch.graph.front.decompose.stages import ACCUMULATORS, has_shape
from tvm_stitch.graph.front.pooling.windows import MOST_WRITTEN, Windows
from tvm_stitch.stages.stage import as_int64

Expr = Any
Reducer = Callable[..., Expr]
Combine = Callable[[Expr, Expr], Expr]
_INT8_MAX = 127


def legalize_max_pool2d_backward(builder: relax.BlockBuilder, call: Call) -> Expr:
    """One call or two, of plain layouts and windows without gaps; else what TVM makes of it."""
    given, image = call.args
    pool = _pool_of(call)
    if pool is None:
        return call.op.get_attr("FLegalize")(builder, call)
    counts = given.ty.shape.values

    def places(image: te.Tensor) -> te.Tensor:
        return _places(image, pool, counts)

    def gradient(given: te.Tensor, places: te.Tensor) -> te.Tensor:
        return _gradient(given, places, pool, image.ty.shape.values)

    def both(given: te.Tensor, image: te.Tensor) -> te.Tensor:
        return gradient(given, places(image))

    name = "max_pool2d_backward"
    if pool.is_written:
        return builder.call_te(both, given, image, primfunc_name_hint=name)
    found = builder.emit(builder.call_te(places, image, primfunc_name_hint="places_in_windows"))
    return builder.call_te(gradient, given, found, primfunc_name_hint=name)


@dataclass(frozen=True)
class _Pool:
    """The windows of an image along two of its axes."""

    axes: tuple[int, int]
    sides: tuple[Windows, Windows]

    @property
    def is_written(self) -> bool:
        """Whether the elements of windows are written one behind the other, by who reads them."""
        apart = all(side.size <= side.stride for side in self.sides)
        return apart and self.elements <= MOST_WRITTEN

    @property
    def elements(self) -> int:
        """Of a window."""
        return self.sides[0].size * self.sides[1].size

    @property
    def numbers(self) -> str:
        """The type of elements' numbers."""
        return "int8" if self.elements <= _INT8_MAX else "int32"

    def combined(
        self, value: Callable[[Sequence[Expr]], Expr], reducer: Reducer, combine: Combine
    ) -> Expr:
        """What all elements of a window come to, each by its place in there."""
        lengths = [side.size for side in self.sides]
        if self.is_written:
            places = product(*(range(length) for length in lengths))
            return reduce(combine, map(value, places))
        steps = [te.reduce_axis((0, length), "step") for length in lengths]
        return reducer(value([step.var for step in steps]), axis=steps)

    def number(self, offsets: Sequence[Expr]) -> Expr:
        """Of an element in its window."""
        row, column = offsets
        return row * self.sides[1].size + column

    def moved(self, at: Sequence[Expr], where: Sequence[Expr]) -> list[Expr]:
        """A position with another one along both axes."""
        place = [*at]
        for axis, each in zip(self.axes, where, strict=True):
            place[axis] = each
        return place


def _pool_of(call: Call) -> _Pool | None:
    """None: windows with gaps, or images of another layout or an unknown shape."""
    attributes, dtype = call.attrs, str(call.args[1].ty.dtype.dtype)
    layout, dilation = str(attributes.layout), map(int, attributes.dilation)
    if any(each != 1 for each in dilation) or sorted(layout) != sorted("NCHW"):
        return None
    if not all(map(has_shape, call.args)) or dtype not in ACCUMULATORS:
        return None
    size, stride = (tuple(map(int, each)) for each in (attributes.pool_size, attributes.strides))
    padding = (2 * tuple(map(int, attributes.padding)))[:2]  # at the top and on the left
    rows, columns = (Windows(*each) for each in zip(size, stride, padding, strict=True))
    return _Pool((layout.index("H"), layout.index("W")), (rows, columns))


def _places(image: te.Tensor, pool: _Pool, counts: Sequence[Expr]) -> te.Tensor:
    """The number of the first of the largest elements of each window."""
    wide = ACCUMULATORS[str(image.dtype)]
    extents = [image.shape[axis] for axis in pool.axes]

    def element(at: Sequence[Expr], step: Sequence[Expr], outside: float) -> Expr:
        own = (at[axis] for axis in pool.axes)
        where = [side.element(*each) for side, *each in zip(pool.sides, own, step, strict=True)]
        inside = (
            each
            for place, extent in zip(where, extents, strict=True)
            for each in (place >= 0, place < extent)
        )
        value = image(*pool.moved(at, where)).astype(wide)
        return tirx.if_then_else(tirx.all(*inside), value, tirx.const(outside, wide))

    def largest(*at: Expr) -> Expr:
        return pool.combined(lambda step: element(at, step, -inf), te.max, tirx.max)

    most = te.compute(counts, largest, name="largest")
    none = tirx.const(pool.elements, "int32")

    def place(*at: Expr) -> Expr:
        own = most(*at)

        def candidate(step: Sequence[Expr]) -> Expr:
            is_largest = tirx.EQ(element(at, step, nan), own)
            number = pool.number([as_int64(each) for each in step]).astype("int32")
            return tirx.Select(is_largest, number, none)

        return pool.combined(candidate, te.min, tirx.min)

    first = te.compute(counts, place, name="first")
    return te.compute(counts, lambda *at: first(*at).astype(pool.numbers), name="places")


def _gradient(given: te.Tensor, places: te.Tensor, pool: _Pool, shape: Sequence[Expr]) -> te.Tensor:
    """The sums, in the order of the windows; a half is rounded once."""
    dtype = str(given.dtype)
    wide = ACCUMULATORS[dtype]
    counts = [given.shape[axis] for axis in pool.axes]

    def element(*at: Expr) -> Expr:
        total = nothing = tirx.const(0.0, wide)
        holding = (
            side.holding(at[axis], count)
            for side, axis, count in zip(pool.sides, pool.axes, counts, strict=True)
        )
        for both in product(*holding):
            window = pool.moved(at, [each.nearest for each in both])
            # TVM fails to bound what is cast to a byte, so bytes are compared as wider numbers.
            number = pool.number([each.offset for each in both]).astype("int32")
            is_largest = tirx.EQ(places(*window).astype("int32"), number)
            inside = (each for side in both for each in side.inside)
            value = given(*window).astype(wide)
            total += tirx.Select(tirx.all(is_largest, *inside), value, nothing)
        return total.astype(dtype)

    return te.compute(shape, element, name="gradient")
