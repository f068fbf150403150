"""Interpolations and their gradients: sums of a few elements along each axis, by tables of Taps.

A gradient is the transposed sum, of the few elements that an element was given to: nothing is added
at indices. Where a call says so, images come with their channels innermost.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from typing import Any

from tvm import relax, te, tirx

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import Call, Converter, Expr, dims, is_float, wide
from tvm_stitch.frontend.torch.ops.images.taps import (
    Taps,
    cubic,
    linear,
    nearest,
    nearest_exact,
)

_MOST_TOGETHER = 16
"""Taps of all axes that are summed at once; more are summed along one axis after the other."""


def _interpolated(make: Any, call: Call, x: Expr, output_size: Sequence[int], *how: Any) -> Expr:
    """An image of another size."""
    return _resized(call, x, _taps(make, call, dims(x), output_size, how))


def _gradient(
    make: Any,
    call: Call,
    gradient: Expr,
    output_size: Sequence[int],
    input_size: Sequence[int],
    *how: Any,
) -> Expr:
    """Of each element of an image, what it gave to those of another size, by their weights."""
    taps = _taps(make, call, call.shape, output_size, how)
    return _resized(call, gradient, {axis: each.transposed() for axis, each in taps.items()})


def _taps(
    make: Any, call: Call, given: Sequence[Any], made: Sequence[Any], how: Sequence[Any]
) -> dict[int, Taps]:
    """What elements are made of along each axis that changes, by the extents before and after."""
    scales = how[-len(made) :]
    settings = how[: -len(made)]
    first = len(given) - len(made) - call.channels_last
    sizes = [*zip(given[first : first + len(made)], made, scales, strict=True)]
    if not all(isinstance(size, int) for *both, _scale in sizes for size in both):
        raise TorchError("an image of a size that changes")
    found = {first + n: make(*both, *settings, scale) for n, (*both, scale) in enumerate(sizes)}
    return {axis: taps for axis, taps in found.items() if not taps.is_copy}


def _resized(call: Call, x: Expr, taps: dict[int, Taps]) -> Expr:
    """The sums along all axes, in float32 of halves, which are rounded once."""
    to, of = call.dtype, wide(call.dtype)
    if not is_float(to) and not all(each.count == 1 for each in taps.values()):
        raise TorchError(f"elements of {to} between those of an image")
    whole = [axis for axis, each in taps.items() if each.is_sum]
    if whole:
        x = call.emit(relax.op.sum(call.wide(x), whole, keepdims=True))
    passes = _passes({axis: each for axis, each in taps.items() if axis not in whole})
    for number, each in enumerate(passes, 1):
        x = _summed(call, x, each, of, to if number == len(passes) else of)
    return call.cast(x, to)


def _passes(taps: dict[int, Taps]) -> list[dict[int, Taps]]:
    """What is summed at once: all axes, or one after the other, those that leave the least first.

    Of axes that leave as much the inner ones come first, along which threads read.
    """
    if prod(each.count for each in taps.values()) <= _MOST_TOGETHER:
        return [taps] if taps else []
    in_turn = sorted(taps, key=lambda axis: (taps[axis].made / taps[axis].source, -axis))
    return [{axis: taps[axis]} for axis in in_turn]


def _summed(call: Call, x: Expr, taps: dict[int, Taps], of: str, to: str) -> Expr:
    """One stage: each element is the sum of all its taps, computed in the type `of`."""
    shape = dims(x)
    tables: list[Expr] = []
    for axis, each in taps.items():
        shape[axis] = each.made
        tables += [relax.const(table, str(table.dtype)) for table in each.tables]

    def sums(source: te.Tensor, *given: te.Tensor) -> te.Tensor:
        remaining = iter(given)
        axes = [
            _Axis(axis, each, [next(remaining) for _ in each.tables]) for axis, each in taps.items()
        ]

        def element(*at: Any) -> Any:
            return _total(source, [*at], axes, of).astype(to)

        return te.compute(shape, element, name="interpolated")

    return call.te(sums, x, *tables)


class _Axis:
    """An axis of an image with its tables."""

    def __init__(self, axis: int, taps: Taps, tables: list[te.Tensor]) -> None:
        self.axis, self._taps, self._tables = axis, taps, tables
        self._weights = [] if taps.is_plain else tables[-taps.count :]

    def taps(self, at: Any) -> Iterator[tuple[Any, Any]]:
        """Where an element's taps are, and how much each counts; None: as it is."""
        first = self._begin(at)
        for number in range(self._taps.count):
            yield first + number, self._weights[number](at) if self._weights else None

    def _begin(self, at: Any) -> Any:
        """Where an element's first tap is."""
        if self._taps.progression is None:
            return self._tables[0](at).astype("int64")
        step, ahead, every = self._taps.progression
        return tirx.floordiv(at * step + ahead, every)


def _total(source: te.Tensor, at: list[Any], axes: Sequence[_Axis], of: str) -> Any:
    """The sum of the taps along the first axis, each of which is the sum along those behind it."""
    if not axes:
        return source(*at).astype(of)
    axis, *inner = axes
    total = None
    for place, weight in axis.taps(at[axis.axis]):
        value = _total(source, [*at[: axis.axis], place, *at[axis.axis + 1 :]], inner, of)
        if weight is not None:
            value = value * weight
        total = value if total is None else total + value
    return total


FORWARD = {
    "upsample_linear1d": linear,
    "upsample_bilinear2d": linear,
    "upsample_trilinear3d": linear,
    "upsample_bicubic2d": cubic,
    "upsample_nearest1d": nearest,
    "upsample_nearest2d": nearest,
    "upsample_nearest3d": nearest,
    "_upsample_nearest_exact1d": nearest_exact,
    "_upsample_nearest_exact2d": nearest_exact,
    "_upsample_nearest_exact3d": nearest_exact,
}
"""What makes an element along an axis, by the operator; its gradient's is called `_backward`."""

OPERATORS: dict[str, Converter] = {
    **{name: partial(_interpolated, make) for name, make in FORWARD.items()},
    **{f"{name}_backward": partial(_gradient, make) for name, make in FORWARD.items()},
}
