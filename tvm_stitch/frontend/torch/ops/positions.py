"""Positions of the largest and smallest elements: the first, or that of the first not-a-number.

Two reductions along the same rows: the extreme, and the least position at which it stands.
"""

from __future__ import annotations

from functools import reduce as fold
from typing import Any

from tvm import relax, te, tirx

from tvm_stitch.frontend.torch.call import Call, Converter, Expr, axes, dims, dtype, is_float, rank
from tvm_stitch.frontend.torch.call import wide as wide_of
from tvm_stitch.frontend.torch.ops.reduce import LARGEST, SMALLEST, Extreme
from tvm_stitch.stages.extremes import is_nan

_op = relax.op


def extreme_and_place(
    call: Call, x: Expr, dim: int, extreme: Extreme, among: Expr | None = None
) -> tuple[Expr, Expr]:
    """The extreme along a dimension, and its position; both keep the dimension.

    `among` are positions to choose from: of each element its own, or one beyond the end.
    """
    (axis,) = axes(dim, rank(x))
    of_place = "int64" if among is None else dtype(among)
    others = () if among is None else (among,)
    value = extreme(call, x, [axis], True)
    of = dtype(x)
    compared = wide_of("int8" if of == "bool" else of)
    extents = dims(x)

    def positions(a: te.Tensor, best: te.Tensor, *places: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            own = a(*at).astype(compared)
            kept = [tirx.const(0, "int64") if n == axis else each for n, each in enumerate(at)]
            other = best(*kept).astype(compared)
            same = tirx.EQ(own, other)
            if is_float(compared):
                same = tirx.any(same, tirx.all(is_nan(own), is_nan(other)))
            beyond = (tirx.const(0, "int64") + extents[axis]).astype(of_place)
            place = places[0](*at) if places else at[axis].astype(of_place)
            return tirx.Select(same, place, beyond)

        return te.compute(extents, element, name="positions")

    places = call.te(positions, x, value, *others)
    return value, call.emit(_op.min(places, [axis], keepdims=True))


def _first(call: Call, x: Expr) -> Expr:
    """The position of the one element that there is."""
    return call.pointwise(lambda _a: tirx.const(0, "int64"), x, of=dtype(x), to="int64")


def _without(call: Call, x: Expr, dim: int) -> Expr:
    (axis,) = axes(dim, rank(x))
    return call.emit(_op.squeeze(x, [axis]))


def _both(extreme: Extreme) -> Converter:
    """Values and positions along a dimension."""

    def convert(call: Call, x: Expr, dim: int, keepdim: bool = False) -> tuple[Expr, Expr]:
        if not rank(x):
            return x, _first(call, x)
        value, place = extreme_and_place(call, x, dim, extreme)
        if keepdim:
            return value, place
        return _without(call, value, dim), _without(call, place, dim)

    return convert


def _position(extreme: Extreme) -> Converter:
    """The position along a dimension, or among all elements."""

    def convert(call: Call, x: Expr, dim: int | None = None, keepdim: bool = False) -> Expr:
        if not rank(x):
            return _first(call, x)
        if dim is not None:
            _value, place = extreme_and_place(call, x, dim, extreme)
            return place if keepdim else _without(call, place, dim)
        total = fold(lambda left, right: left * right, dims(x))
        _value, place = extreme_and_place(call, call.emit(_op.reshape(x, [total])), 0, extreme)
        return call.emit(_op.reshape(place, call.shape))

    return convert


OPERATORS: dict[str, Converter] = {
    "argmax": _position(LARGEST),
    "argmin": _position(SMALLEST),
    "max.dim": _both(LARGEST),
    "min.dim": _both(SMALLEST),
}
"""By ATen's names."""
