"""Index arithmetic: elements by their row-major positions; int64, whatever a function counts in.

In: a position, and extents; or a store, and its axes of int32, as TVMScript makes them. Out: the
indices; or the same store over axes of int64, with all arithmetic on them in int64 too. What is no
index keeps its dtype.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tvm_ffi
from tvm import ir, tirx
from tvm.sym import Analyzer

from tvm_stitch.stages.stage import Expr, Var, as_int64, constant, dtype_of, substitute
from tvm_stitch.stages.visit import walked

NARROW, WIDE = "int32", "int64"
MOST_NARROW = (1 << 31) - 1
WRAPPING = (tirx.Add, tirx.Sub, tirx.Mul)
_ARITHMETIC = (
    tirx.Add, tirx.Sub, tirx.Mul, tirx.FloorDiv, tirx.FloorMod, tirx.Div, tirx.Mod,
    tirx.Min, tirx.Max,
    tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE,
)  # fmt: skip


def counted_in_int64(store: tirx.BufferStore, axes: Mapping[Any, Any]) -> tirx.BufferStore:
    """The store with other axes, of int64, in the place of those of int32.

    From the inside out each is a cast to int32, which moves outwards through arithmetic and is gone
    where an index or another cast takes it.
    """

    def axis(var: Expr) -> Expr:
        return _narrow(axes[var]) if var in axes else var

    def arithmetic(node: Expr) -> Expr:
        left, right = _wide(node.a), _wide(node.b)
        if left is None or right is None:
            return node
        wide = type(node)(left, right)
        return _narrow(wide) if dtype_of(node) == NARROW else wide

    def cast(node: Expr) -> Expr:
        wide = _wide(node.value)
        return node if wide is None else wide.astype(dtype_of(node))

    visitors: list[Any] = [(kind, arithmetic) for kind in _ARITHMETIC]
    visitors += [
        (tirx.Var, axis),
        (tirx.Cast, cast),
        (ir.TensorLoad, lambda load: load.source[_all_wide(load.indices)]),
        (tirx.BufferStore, lambda s: tirx.BufferStore(s.buffer, s.value, _all_wide(s.indices))),
    ]
    return tvm_ffi.structural_map(store, visitors)


def _narrow(expr: Expr) -> Expr:
    return tirx.Cast(NARROW, expr)


def _all_wide(indices: Iterable[Expr]) -> tuple[Expr, ...]:
    wide = ((index, _wide(index)) for index in indices)
    return tuple(index if found is None else found for index, found in wide)


def _wide(expr: Expr) -> Expr | None:
    """What is narrowed from int64, or a constant, in int64; None: neither."""
    if dtype_of(expr) != NARROW:
        return None
    if isinstance(expr, tirx.IntImm):
        return tirx.IntImm(WIDE, expr.value)
    is_narrowed = isinstance(expr, tirx.Cast) and dtype_of(expr.value) == WIDE
    return expr.value if is_narrowed else None


def counted_in_int32(number: Expr, through: tuple[type[Any], ...] = WRAPPING) -> Expr:
    """An integer that 32 bits hold, in 32 bits: casts move inwards through Select and these.

    TVM narrows by the bounds of every part, and knows none of a number that is read from memory.
    Sums and products come out right whatever their parts are, for what wraps around wraps back;
    of anything else 32 bits must hold the parts as well.
    """
    if isinstance(number, tirx.IntImm):
        return tirx.IntImm(NARROW, (number.value + MOST_NARROW + 1) % (1 << 32) - MOST_NARROW - 1)
    if isinstance(number, tirx.Cast) and dtype_of(number.value) == NARROW:
        return number.value
    if isinstance(number, tirx.Cast) and _is_small(number.value):
        return _narrow(number.value)
    if isinstance(number, tirx.Select):
        ways = (counted_in_int32(way, through) for way in (number.true_value, number.false_value))
        return tirx.Select(number.condition, *ways)
    if isinstance(number, through):
        return type(number)(*(counted_in_int32(part, through) for part in (number.a, number.b)))
    return _narrow(number)


def _is_small(number: Expr) -> bool:
    """Whether it is a float between two that 32 bits hold, which GPUs convert at once."""
    beyond = {tirx.Min, tirx.Max}
    while isinstance(number, tirx.Min | tirx.Max):
        if not isinstance(number.b, tirx.FloatImm) or abs(number.b.value) > MOST_NARROW:
            break
        beyond.discard(type(number))
        number = number.a
    return not beyond


def unflatten(flat: Expr, axes: tuple[Var, ...], extents: tuple[Expr, ...]) -> dict[Var, Expr]:
    """The axes of the element at a row-major position."""
    return dict(zip(axes, unraveled(flat, extents), strict=True))


def unraveled(flat: Expr, extents: tuple[Expr, ...]) -> tuple[Expr, ...]:
    """The indices of the element at a row-major position, of which there are no more."""
    found: list[Expr] = []
    for number in range(len(extents) - 1, -1, -1):
        extent = as_int64(extents[number])
        if constant(extent) == 1:
            found.append(tirx.IntImm("int64", 0))
            continue
        outermost = all(constant(e) == 1 for e in extents[:number])
        found.append(flat if outermost else tirx.floormod(flat, extent))
        flat = tirx.floordiv(flat, extent)
    return tuple(reversed(found))


def divisions(index: Expr) -> int:
    """How many divisions an index takes."""
    if isinstance(index, (tirx.Var, tirx.IntImm)):
        return 0
    count = 0

    def visit(node: Expr) -> None:
        nonlocal count
        count += type(node).__name__ in ("FloorDiv", "FloorMod")

    walked(index, (ir.Expr, visit))
    return count


def simplified_load(load: Expr, analyzer: Any) -> Expr:
    """A load by what an analyzer makes of its indices."""
    return load.source[tuple(as_int64(analyzer.simplify(index)) for index in load.indices)]


def may_follow(
    index: Expr, var: Var, places: Sequence[int], zero: Iterable[Var] = (), times: int = 1
) -> bool:
    """Whether an index may grow by what a variable does, as far as a few of its values say.

    Or by `times` that: with 0, whether it may stay. Some others are 0 meanwhile. TVM takes
    milliseconds to find no proof of what a number denies, and of an index that memory or a function
    says; what is no number here it can prove nowhere.
    """
    nowhere = dict.fromkeys(zero, tirx.IntImm("int64", 0))
    analyzer = Analyzer()

    def value(place: int) -> Expr:
        at = {**nowhere, var: tirx.IntImm("int64", place)}
        return analyzer.simplify(substitute(index, at))

    first = value(0)
    return all(constant(analyzer.simplify(value(n) - first)) == times * n for n in places)


def with_offset(index: Expr) -> tuple[Expr, int]:
    """An index without the number that is added to it, and that number."""
    if isinstance(index, tirx.Add | tirx.Sub):
        offset = constant(index.b)
        if offset is not None:
            return index.a, offset if isinstance(index, tirx.Add) else -offset
    return index, 0
