"""Sorts, the largest few and histograms, by reductions along rows.

A rank sort: the rank of an element is how many stand before it, and what has a rank is found by
asking all of them. That takes as many comparisons as there are pairs: so only short rows are
sorted. The largest few of longer ones, as a router's experts are, are found one by one. Elements
that are equal keep their order. What would take too long is left to PyTorch, which sorts by digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import prod
from typing import Any

from tvm import relax, te, tirx

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import (
    Call,
    Converter,
    Dim,
    Expr,
    Number,
    axes,
    dims,
    dtype,
    immediate,
    is_float,
    rank,
    wide,
)
from tvm_stitch.frontend.torch.dtypes import name_of
from tvm_stitch.frontend.torch.ops.positions import extreme_and_place
from tvm_stitch.frontend.torch.ops.reduce import LARGEST
from tvm_stitch.stages.extremes import is_nan, nothing

_op = relax.op
# Pairs of one operator: twice as many took an H200 29 us for the 25 of PyTorch's sort of 16 x 1024.
MOST_PAIRS = 1 << 24
# The largest few are found one by one, each another time through the row, if there are so few of
# them, so many times as many elements, and rows are no longer.
FEW, SHARE, LONGEST = 16, 4, 4096
# Of each row, where how many there are is only known when the graph runs.
MOST_PAIRS_OF_ROW = 1 << 12


def is_countable(pairs: Sequence[Dim], most: int = MOST_PAIRS) -> bool:
    """Whether so many pairs, a product of extents, are few enough."""
    known = [each for each in pairs if isinstance(each, int)]
    return prod(known) <= (most if len(known) == len(pairs) else MOST_PAIRS_OF_ROW)


def _sort(
    call: Call, x: Expr, dim: int = -1, descending: bool = False, *, stable: bool | None = None
) -> tuple[Expr, Expr]:
    """All elements in order, always stable; what is not a number is larger than all else."""
    return _ordered(call, x, dim, None, descending)


def _topk(
    call: Call, x: Expr, k: Number, dim: int = -1, largest: bool = True, sorted: bool = True
) -> tuple[Expr, Expr]:
    """The first few in order, which is as good where none was asked for."""
    return _ordered(call, x, dim, k, largest)


def _ordered(
    call: Call, x: Expr, dim: int, count: Number | None, descending: bool
) -> tuple[Expr, Expr]:
    """The first elements along a dimension and where they stood."""
    if not rank(x):
        return x, call.filled([], tirx.const(0, "int64"))
    (axis,) = axes(dim, rank(x))
    extents, kept = dims(x), dims(x)
    of = wide("int8" if dtype(x) == "bool" else dtype(x))
    along = extents[axis]
    kept[axis] = along if count is None else count
    if not isinstance(along, int) or not isinstance(kept[axis], int):
        raise TorchError("it sorts rows whose length only run time knows")
    if descending and _are_few(kept[axis], along):
        return _one_by_one(call, call.cast(x, of), axis, kept[axis])
    if not is_countable([*extents, along + kept[axis]]):
        raise TorchError(f"it sorts rows of {along}, and pairs of elements are too many to compare")
    values = call.cast(x, of)
    ranks = call.emit(_op.sum(_before(call, values, axis, descending), [-1]))
    return _with_ranks(call, values, ranks, axis, kept)


def _are_few(count: int, along: int) -> bool:
    return 0 < count <= min(FEW, along // SHARE) and along <= LONGEST


def _one_by_one(call: Call, x: Expr, axis: int, count: int) -> tuple[Expr, Expr]:
    """The largest, then the largest of the others, and so on, each the first of its equals.

    What is taken is smaller than all else then, and its place lies beyond the end.
    """
    extents, lowest = dims(x), nothing("largest", dtype(x))
    end = tirx.const(extents[axis], "int32")

    def all_places() -> te.Tensor:
        return te.compute(extents, lambda *at: at[axis].astype("int32"), name="places")

    def without(otherwise: Any, given: te.Tensor, taken: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            own = taken(*_moved(at, axis, tirx.const(0, "int64")))
            is_taken = tirx.EQ(at[axis].astype("int32"), own)
            return tirx.Select(is_taken, otherwise, given(*at))

        return te.compute(extents, element, name="without")

    places, several = call.te(all_places, name="places"), list[tuple[Expr, Expr]]()
    for number in range(count):
        if number:
            taken = several[-1][1]
            x = call.te(partial(without, lowest), x, taken, name="without")
            places = call.te(partial(without, end), places, taken, name="without")
        several.append(extreme_and_place(call, x, axis, LARGEST, places))
    each, where = (call.emit(_op.concat(list(side), axis)) for side in zip(*several, strict=True))
    return _as_asked(call, each, where)


def _as_asked(call: Call, values: Expr, places: Expr) -> tuple[Expr, Expr]:
    """Elements and their places in the types of the results."""
    value, place = call.result
    return call.cast(values, name_of(value.dtype)), call.cast(places, name_of(place.dtype))


def _before(call: Call, x: Expr, axis: int, descending: bool) -> Expr:
    """For each element and each of its row, 1 where that stands before it."""
    extents, of = dims(x), dtype(x)

    def stands_before(a: Any, b: Any, is_earlier: Any) -> Any:
        """Whether a does: where it is smaller or, of equal ones, earlier."""
        if not is_float(of):
            return tirx.Select(is_earlier, a <= b, a < b)
        return tirx.Select(
            is_earlier, tirx.any(b >= a, is_nan(b)), tirx.all(_not(a >= b), _not(is_nan(a)))
        )

    def body(given: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            *own, other = at
            a, b = given(*_moved(own, axis, other)), given(*own)
            is_earlier = other.astype("int32") < own[axis].astype("int32")
            is_before = stands_before(*((b, a) if descending else (a, b)), is_earlier)
            return tirx.Select(is_before, tirx.const(1, "int32"), tirx.const(0, "int32"))

        return te.compute([*extents, extents[axis]], element, name="before")

    return call.te(body, x, name="before")


def _not(condition: Any) -> Any:
    """TVM takes what is not less for larger or equal, which what is not a number is neither."""
    return tirx.Select(condition, tirx.const(False, "bool"), tirx.const(True, "bool"))


def _with_ranks(
    call: Call, values: Expr, ranks: Expr, axis: int, kept: Sequence[Dim]
) -> tuple[Expr, Expr]:
    """The elements with the first ranks, in order, and where they stand."""
    of, along = dtype(values), dims(values)[axis]
    lowest, none = nothing("largest", of), tirx.const(0, "int32")

    def asked(otherwise: Any, found: Any) -> Any:
        def body(given: te.Tensor, places: te.Tensor) -> te.Tensor:
            def element(*at: Any) -> Any:
                *own, other = at
                there = _moved(own, axis, other)
                has_rank = tirx.EQ(places(*there), own[axis].astype("int32"))
                return tirx.Select(has_rank, found(given, there, other), otherwise)

            return te.compute([*kept, along], element, name="asked")

        return body

    each = call.te(asked(lowest, lambda given, there, _other: given(*there)), values, ranks)
    places = call.te(
        asked(none, lambda _given, _there, other: other.astype("int32")), values, ranks
    )
    first = call.emit(_op.sum(places, [-1]))
    return _as_asked(call, LARGEST(call, each, [-1]), first)


def _moved(position: Sequence[Any], axis: int, to: Any) -> list[Any]:
    """The position of an element's neighbour along a dimension."""
    return [to if number == axis else at for number, at in enumerate(position)]


def _histc(call: Call, x: Expr, bins: int = 100, min: Number = 0, max: Number = 0) -> Expr:
    """How many elements are in each of some equal parts of a range."""
    if not min < max:
        raise TorchError("the range of its histogram is that of its values")
    total = prod(dims(x))
    if not is_countable([bins, *dims(x)]):
        raise TorchError("how many values make up an element depends on indices")
    of = wide(dtype(x))
    values = call.cast(call.emit(_op.reshape(x, [total])), of)

    def part(value: Any) -> Any:
        """The last one has its end as well; -1 for what is in none."""
        own = tirx.min(_part_of(value, of, bins, min, max), tirx.const(bins - 1, "int64"))
        inside = tirx.all(value >= immediate(min, of), value <= immediate(max, of))
        return tirx.Select(inside, own.astype("int32"), tirx.const(-1, "int32"))

    def body(given: te.Tensor) -> te.Tensor:
        def element(own: Any, number: Any) -> Any:
            is_own = tirx.EQ(given(number), own.astype("int32"))
            return tirx.Select(is_own, tirx.const(1, "int32"), tirx.const(0, "int32"))

        return te.compute([bins, total], element, name="inside")

    parts = call.pointwise(part, values, of=of, to="int32")
    return call.cast(call.emit(_op.sum(call.te(body, parts), [-1])), call.dtype)


def _part_of(value: Any, of: str, bins: int, least: Number, most: Number) -> Any:
    """Which part a value is in. Divided in float64: fast maths would round to the part before."""
    if not is_float(of):
        shifted = value.astype("int64") - immediate(int(least), "int64")
        return tirx.floordiv(shifted * bins, immediate(int(most) - int(least), "int64"))
    scaled = (value - immediate(least, of)) * immediate(bins, of)
    quotient = scaled.astype("float64") / immediate(most - least, "float64")
    return tirx.floor(quotient.astype(of)).astype("int64")


OPERATORS: dict[str, Converter] = {
    "histc": _histc,
    "sort": _sort,
    "sort.stable": _sort,
    "topk": _topk,
}
"""By ATen's names; an overload called default is left out."""
