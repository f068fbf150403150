"""Images sampled at places that a grid names: interpolations whose places are known when they run.

Places are counted as PyTorch's kernels for GPUs count them, in float32 of halves. What lies beyond
an image is nothing, its last elements or its mirror image; a place that is no number is beyond. The
gradient is PyTorch's: it adds where places meet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import IntEnum
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

from tvm import te, tirx

from tvm_stitch.frontend.torch.call import Call, Converter, Expr, dims, immediate, wide
from tvm_stitch.frontend.torch.ops.images.taps import cubic_weights

_BEYOND = 4
"""Elements beyond an image: where nothing of a cubic interpolation is in it."""

_EXACT = 1 << 24
"""Below it, float32 has all integers."""

# An element along an axis, as it is counted, and its weight; None: it counts as it is.
_Tap = tuple[Any, Any]


class Mode(IntEnum):
    """How PyTorch counts ways to interpolate."""

    LINEAR = 0
    NEAREST = 1
    CUBIC = 2


class Padding(IntEnum):
    """How PyTorch counts what lies beyond an image."""

    ZEROS = 0
    BORDER = 1
    REFLECTION = 2


class _Axis(NamedTuple):
    """An axis of an image, and how places along it become elements."""

    extent: Any
    padding: int
    align_corners: bool
    of: str  # the type that places are computed in

    def counted(self, at: Any) -> Any:
        """A place from -1 to 1 in elements: the ends are middles of elements, or their edges."""
        one, two, extent = self.number(1), self.number(2), self.extent.astype(self.of)
        if self.align_corners:
            return (at + one) / two * (extent - one)
        return ((at + one) * extent - one) / two

    def within(self, place: Any) -> Any:
        """A place that is moved into the image, if the padding says so, and can be an integer.

        What is no number is at the first end, or before it where there is no padding.
        """
        first, last = self.number(0), self.extent.astype(self.of) - self.number(1)
        if self.padding == Padding.ZEROS:
            first, last = self.number(-_BEYOND), last + self.number(_BEYOND)
        elif self.padding == Padding.REFLECTION:
            place = self._reflected(place)
        return tirx.min(tirx.max(place, first), last)

    def _reflected(self, place: Any) -> Any:
        """A place that is mirrored at the ends until it lies between them."""
        extent, edge = self.extent.astype(self.of), 0 if self.align_corners else 0.5
        # The middle of an only element is both its ends.
        span = tirx.max(extent - self.number(1 - 2 * edge), self.number(0.5))
        distance = tirx.abs(place + self.number(edge))
        there_and_back = span * self.number(2)
        turns = tirx.floor(distance / there_and_back)
        return span - tirx.abs(distance - turns * there_and_back - span) - self.number(edge)

    def is_inside(self, place: Any) -> list[Any]:
        """What must hold for there to be an element at a place."""
        before = [place >= self.number(0)] if self.padding == Padding.ZEROS else []
        return [*before, place < self.extent.astype(self.of)]

    def element(self, place: Any) -> Any:
        """The number of an element; of one that is not inside, of the next that is.

        All are read, under no condition, so that none waits for another. The place is moved, not
        the number, as long as floats tell elements apart: GPUs have no extremes of 64 bits.
        """
        zero, last = self.number(0), self.extent - 1
        if isinstance(last, tirx.IntImm) and last.value < _EXACT:
            return tirx.min(tirx.max(place, zero), last.astype(self.of)).astype("int64")
        return tirx.min(tirx.max(place.astype("int64"), zero.astype("int64")), last)

    def number(self, value: float) -> Any:
        """As places are computed."""
        return immediate(value, self.of)


def _known_of(axis: _Axis, mode: int) -> list[Callable[[Any], Any]]:
    """What is worked out of a place from -1 to 1 once for all channels.

    The place of the nearest element, or the place between two; of a cubic interpolation those of
    four elements, and how far behind the second of them the place is.
    """

    def place(at: Any) -> Any:
        return axis.within(axis.counted(at))

    def tap(number: int, at: Any) -> Any:
        return axis.within(tirx.floor(axis.counted(at)) + axis.number(number))

    def behind(at: Any) -> Any:
        return axis.counted(at) - tirx.floor(axis.counted(at))

    if mode == Mode.NEAREST:
        return [lambda at: tirx.nearbyint(place(at))]
    if mode == Mode.LINEAR:
        return [place]
    return [*(partial(tap, number) for number in range(-1, 3)), behind]


def _taps(axis: _Axis, mode: int, known: Sequence[Any]) -> list[_Tap]:
    """The elements that are summed along an axis."""
    if mode == Mode.NEAREST:
        return [(known[0], None)]
    if mode == Mode.CUBIC:
        *places, behind = known
        return [*zip(places, cubic_weights(behind), strict=True)]
    (place,) = known
    low = tirx.floor(place)
    high = low + axis.number(1)
    return [(low, high - place), (high, place - low)]


def _of_grid(call: Call, grid: Expr, axis: int, of: str, compute: Callable[[Any], Any]) -> Expr:
    """What is computed of the places along an axis, of which a grid names the last one first."""
    shape = dims(grid)

    def computed(source: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            return compute(source(*at, shape[-1] - 1 - axis).astype(of))

        return te.compute(shape[:-1], element, name="places")

    return call.te(computed, grid, name="places")


def _sampled(
    call: Call,
    image: Expr,
    grid: Expr,
    mode: int = Mode.LINEAR,
    padding: int = Padding.ZEROS,
    align_corners: bool = False,
) -> Expr:
    """Each element of the result is made of those around its place."""
    to, of = call.dtype, wide(call.dtype)
    axes = [
        _Axis(tirx.convert(extent).astype("int64"), padding, align_corners, of)
        for extent in dims(image)[2:]
    ]
    known = [
        [_of_grid(call, grid, number, of, compute) for compute in _known_of(axis, mode)]
        for number, axis in enumerate(axes)
    ]

    def sampled(source: te.Tensor, *given: te.Tensor) -> te.Tensor:
        def element(batch: Any, channel: Any, *at: Any) -> Any:
            values = iter([each(batch, *at) for each in given])
            taps = [
                (axis, _taps(axis, mode, [next(values) for _ in own]))
                for axis, own in zip(axes, known, strict=True)
            ]
            return _total(source, [batch, channel], taps, [], of).astype(to)

        return te.compute(call.shape, element, name="sampled")

    return call.te(sampled, image, *chain.from_iterable(known))


def _total(
    source: te.Tensor,
    at: list[Any],
    left: Sequence[tuple[_Axis, list[_Tap]]],
    holds: list[Any],
    of: str,
) -> Any:
    """The sum of the taps along the first axis, each of which is the sum along those behind it.

    What is not inside is left out of each tap, not of a sum of them, of which nvcc makes a branch.
    """
    if not left:
        inside = tirx.likely(tirx.all(*holds))
        return tirx.Select(inside, source(*at).astype(of), immediate(0.0, of))
    (axis, taps), *inner = left
    total = None
    for tap, weight in taps:
        inside = [*holds, *axis.is_inside(tap)]
        value = _total(source, [*at, axis.element(tap)], inner, inside, of)
        value = value if weight is None else value * weight
        total = value if total is None else total + value
    return total


OPERATORS: dict[str, Converter] = {
    "grid_sampler_2d": _sampled,
    "grid_sampler_3d": _sampled,
    "cudnn_grid_sampler": partial(_sampled, align_corners=True),
}
