"""Where the elements of a tensor lie in the one that they are read from, in numbers.

In: a Relax value, and what reads sizes. Out: Seen: the tensor behind its reshapes, transposes,
broadcasts and slices, and for each dimension of the value the steps through memory. Knows no
attention.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from tvm import relax, tirx
from tvm.ir import Call, Expr

from tvm_stitch.graph.front.attention.sizes import Sizes
from tvm_stitch.graph.front.dataflow import name_of
from tvm_stitch.graph.front.decompose.stages import numbers_of
from tvm_stitch.graph.front.decompose.view import Definition, Factor, View, views_of
from tvm_stitch.library.attention import Size
from tvm_stitch.library.of_counts import quotient


@dataclass(frozen=True)
class Step:
    """So many elements, each so far from the one before; 0 where the same one is seen again."""

    extent: Size
    stride: Size


Steps = tuple[Step, ...]
"""Of a dimension: the outermost first, none of a dimension of one element."""


@dataclass(frozen=True, eq=False)
class Seen:
    """The tensor that a value is read from, where it begins there, the steps of each dimension."""

    source: Expr
    start: Size
    dims: tuple[Steps, ...]


def seen(value: Expr, definition: Definition, sizes: Sizes) -> Iterator[Seen]:
    """The ways to read a value in place: from the first tensor behind it to the value itself."""
    for view in views_of(value, definition):
        factors = (*view.memory, *(factor for dim in view.dims for factor in dim))
        extents = {factor: sizes(factor.extent) for factor in factors}
        if None in extents.values():
            continue
        for source, start, strides in _places(view.source, definition, sizes):
            strides_of = _strides(view, extents, strides, sizes)
            if strides_of is not None:
                dims = tuple(
                    tuple(Step(extents[f], strides_of.get(f, 0)) for f in dim) for dim in view.dims
                )
                yield Seen(source, start, dims)


def dense(shape: Sequence[Size]) -> tuple[Size, ...]:
    """The strides of a tensor whose elements lie one after another."""
    return tuple(prod(shape[axis + 1 :]) for axis in range(len(shape)))


def divided(steps: Sequence[Step], extents: Sequence[Size]) -> tuple[Steps, ...] | None:
    """The same elements by these extents, the innermost last; None if they cut across steps."""
    left = list(steps)
    found: list[Steps] = []
    for extent in reversed(extents):
        group: list[Step] = []
        wanted = extent
        while wanted != 1:
            if not left:
                return None
            step = left.pop()
            more, less = quotient(wanted, step.extent), quotient(step.extent, wanted)
            if more is not None:
                wanted = more
            elif less is not None:
                left.append(Step(less, step.stride * wanted))
                step, wanted = Step(wanted, step.stride), 1
            else:
                return None
            group.insert(0, step)
        found.insert(0, tuple(group))
    return None if left else tuple(found)


def stride_of(steps: Steps) -> Size | None:
    """The one distance between neighbours, 0 of fewer than two elements; None if there are more."""
    if not steps:
        return 0
    distance = steps[-1].stride
    at = distance
    for step in reversed(steps):
        if step.stride != at:
            return None
        at = step.stride * step.extent
    return distance


def _strides(
    view: View, extents: Mapping[Factor, Size], strides: Sequence[Size], sizes: Sizes
) -> dict[Factor, Size] | None:
    """How far apart the elements of a view's factors are, its source having these strides."""
    shape = sizes.of(view.source)
    if shape is None:
        return None
    found: dict[Factor, Size] = {}
    left = list(view.memory)
    for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
        covered = 1
        while covered != extent:
            if not left:
                return None
            factor = left.pop()
            found[factor] = stride * covered
            covered *= extents[factor]
    return found


def _places(
    source: Expr, definition: Definition, sizes: Sizes
) -> Iterator[tuple[Expr, Size, tuple[Size, ...]]]:
    """What a source is a slice of, as that is read, and the source itself."""
    shape = sizes.of(source)
    if shape is None:
        return
    cut = _cut(definition(source), definition, sizes)
    if cut is not None:
        for whole in seen(cut.whole, definition, sizes):
            strides = [stride_of(steps) for steps in whole.dims]
            known = tuple(stride for stride in strides if stride is not None)
            if len(known) == len(strides):
                begin = sum(first * known[axis] for axis, first in cut.begins.items())
                yield whole.source, whole.start + begin, known
    yield source, 0, dense(shape)


@dataclass(frozen=True, eq=False)
class _Cut:
    """A slice: of what, and where it begins along some of the dimensions."""

    whole: Expr
    begins: dict[int, int]


def _cut(value: Expr | None, definition: Definition, sizes: Sizes) -> _Cut | None:
    if isinstance(value, relax.TupleGetItem):
        return _part(value, definition)
    if not isinstance(value, Call) or name_of(value) != "strided_slice":
        return None
    whole = sizes.of(value.args[0])
    axes, begins, _, *steps = (_tuple(argument) for argument in value.args[1:])
    if whole is None or axes is None or begins is None:
        return None
    if steps and steps[0] is not None and any(step != 1 for step in steps[0]):
        return None
    found = {}
    for axis, begin in zip(axes, begins, strict=True):
        extent = whole[axis % len(whole)]
        if isinstance(extent, int):
            begin = min(max(begin + extent if begin < 0 else begin, 0), extent)
        elif begin:  # it may be behind the end
            return None
        found[axis % len(whole)] = begin
    return _Cut(value.args[0], found)


def _part(value: relax.TupleGetItem, definition: Definition) -> _Cut | None:
    """One of the parts that a tensor is split into."""
    parts = definition(value.tuple_value)
    if not isinstance(parts, Call) or name_of(parts) != "split":
        return None
    whole = numbers_of(parts.args[0])
    if whole is None:
        return None
    axis = int(parts.attrs.axis) % len(whole)
    sizes = [numbers_of(relax.Var("part", field)) for field in parts.ty.fields]
    begin = sum(size[axis] for size in sizes[: int(value.index)] if size is not None)
    return _Cut(parts.args[0], {axis: begin})


def _tuple(value: Expr) -> list[int] | None:
    """The numbers of a tuple of Relax."""
    fields = getattr(value, "fields", None)
    numbers = [getattr(each, "value", each) for each in fields or ()]
    known = all(isinstance(each, int | tirx.IntImm) for each in numbers)
    return [int(each) for each in numbers] if fields is not None and known else None
