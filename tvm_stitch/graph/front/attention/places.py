"""Where the heads of attention lie in the tensors around it.

In: a tensor and the order in which its dimensions are matrices. Out: the tensor behind it with a
Place, or a Bias; for the result the variable that is written, behind transposes. None where cuDNN
could not read or write it in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from tvm import relax
from tvm.ir import Expr

from tvm_stitch.graph.front.attention.bindings import Bindings
from tvm_stitch.graph.front.attention.sizes import Sizes
from tvm_stitch.graph.front.attention.steps import (
    Seen,
    Step,
    Steps,
    divided,
    seen,
    stride_of,
)
from tvm_stitch.graph.front.decompose.stages import dtype_of
from tvm_stitch.graph.front.decompose.view import Definition, Factor, views_of
from tvm_stitch.library.attention import Bias, Place, Size, expected
from tvm_stitch.library.of_counts import quotient

ALIGNED = 8  # halves of the 16 bytes at which rows begin
_ENDING = ("astype", "reshape", "expand_dims", "squeeze", "permute_dims")


@dataclass(frozen=True)
class Extents:
    """How large attention is."""

    batch: Size
    heads: int
    queries: int
    keys: Size
    depth: int
    value_depth: int


@dataclass(frozen=True, eq=False)
class Placed:
    """A tensor that is read in place, and how many heads it has."""

    source: Expr
    place: Place
    heads: int


@dataclass(frozen=True, eq=False)
class Ending:
    """The variable that the result is written to, and those in front of it."""

    result: relax.Var
    place: Place
    members: tuple[relax.Var, ...]


def place_of(
    value: Expr,
    order: Sequence[int],
    extents: Extents,
    size: tuple[Size, Size],
    bindings: Bindings,
    sizes: Sizes,
) -> Placed | None:
    """Where matrices of this size are, of all heads or of some that several share."""
    for found in seen(value, bindings.definition, sizes):
        placed = _placed(found, order, extents, size)
        if placed is not None:
            return placed
    return None


def _placed(
    found: Seen, order: Sequence[int], extents: Extents, size: tuple[Size, Size]
) -> Placed | None:
    *leading, rows, depth = (found.dims[axis] for axis in order)
    if prod(step.extent for step in rows) != size[0]:
        return None
    if prod(step.extent for step in depth) != size[1]:
        return None
    apart = divided(_flat(leading, extents), (extents.batch, extents.heads))
    if apart is None:
        return None
    heads, repeated = _without_repeats(apart[1])
    strides = stride_of(apart[0]), stride_of(heads), stride_of(rows), stride_of(depth)
    counts = extents.batch, extents.heads // repeated, *size
    place = _place(found.start, strides, counts)
    return None if place is None else Placed(found.source, place, extents.heads // repeated)


def _flat(leading: Sequence[Steps], extents: Extents) -> Steps:
    """The steps of leading dimensions; those of nothing but one matrix repeat it."""
    steps = tuple(step for dim in leading for step in dim)
    count = extents.batch * extents.heads
    return steps if prod(step.extent for step in steps) != 1 else _once(count)


def _once(count: Size) -> Steps:
    return (Step(count, 0),) if count != 1 else ()


def _without_repeats(steps: Steps) -> tuple[Steps, int]:
    """The heads that there are, and how many neighbours share each."""
    repeated = 1
    while steps and steps[-1].stride == 0:
        repeated *= steps[-1].extent
        steps = steps[:-1]
    return steps, repeated


def _place(start: Size, strides: Sequence[Size | None], counts: Sequence[Size]) -> Place | None:
    """A Place, if rows begin where cuDNN wants them."""
    pairs = list(zip(strides, counts, strict=True))
    # The step between things of which there is but one is of no consequence, but looks like one.
    span = max(((stride or 0) * count for stride, count in pairs), key=expected)
    batch, head, row, depth = (
        span if count == 1 and axis < 3 else stride for axis, (stride, count) in enumerate(pairs)
    )
    if depth != 1 or batch is None or head is None or row is None:
        return None
    distances = batch, head, row
    if any(expected(each) <= 0 for each in distances):
        return None
    if any(quotient(each, ALIGNED) is None for each in (start, *distances)):
        return None
    return Place(start, batch, head, row)


def placed_bias(
    value: Expr, shape: Sequence[Size], extents: Extents, bindings: Bindings, sizes: Sizes
) -> tuple[Expr, Bias] | None:
    """Where what is added to scores of this shape lies, wider types of halves left out."""
    wide = bindings.call(value, "astype")
    if wide is not None and dtype_of(value) == "float32":
        value = wide.args[0]
    for found in seen(value, bindings.definition, sizes):
        place = _bias(found, shape, extents)
        if place is not None:
            return found.source, place
    return None


def _bias(found: Seen, shape: Sequence[Size], extents: Extents) -> Bias | None:
    missing = len(shape) - len(found.dims)
    if missing < 0:
        return None
    own = [()] * missing + list(found.dims)
    *leading, query, key = (dim or _once(count) for dim, count in zip(own, shape, strict=True))
    if any(
        prod(step.extent for step in dim) != count
        for dim, count in zip((*leading, query, key), shape, strict=True)
    ):
        return None
    steps = tuple(step for dim in leading for step in dim)
    apart = divided(steps, (extents.batch, extents.heads)) if steps else ((), ())
    if apart is None:
        return None
    strides = [stride_of(each) for each in (*apart, query, key)]
    if any(stride is None for stride in strides) or strides[3] not in (0, 1):
        return None
    batch, head, row, column = (stride or 0 for stride in strides)
    if column == 0 and extents.keys != 1:
        return None
    return Bias(found.start, batch, head, row, column or 1)


def output_of(
    result: relax.Var,
    order: Sequence[int],
    extents: Extents,
    dtype: str,
    bindings: Bindings,
    sizes: Sizes,
) -> Ending | None:
    """What is written: the result itself, or the last of the transposes and reshapes behind it."""
    at, best = result, None
    passed: list[relax.Var] = []
    while True:
        place = _written(at, result, order, extents, bindings, sizes)
        if place is not None and dtype_of(at) == dtype:
            best = Ending(at, place, tuple(passed))
        readers = bindings.readers(at)
        if len(readers) != 1 or not isinstance(at, relax.DataflowVar):
            return best
        if bindings.call(readers[0].var, *_ENDING) is None:
            return best
        passed.append(at)
        at = readers[0].var


def _written(
    at: relax.Var,
    result: relax.Var,
    order: Sequence[int],
    extents: Extents,
    bindings: Bindings,
    sizes: Sizes,
) -> Place | None:
    """Where the heads of a result lie in what it becomes."""
    own = sizes.of(result)
    view = views_of(at, _behind(result, bindings))[0]
    if own is None or sizes.of(at) is None or sizes.of(view.source) != own:
        return None
    factors = (*view.memory, *(factor for dim in view.dims for factor in dim))
    of_factors: dict[Factor, Size] = {factor: sizes(factor.extent) for factor in factors}
    if None in of_factors.values():
        return None
    strides: dict[Factor, Size] = {}
    step: Size = 1
    for factor in reversed(factors[len(view.memory) :]):
        strides[factor] = step
        step = step * of_factors[factor]
    if any(factor not in strides for factor in view.memory):
        return None
    dims = divided(tuple(Step(of_factors[f], strides[f]) for f in view.memory), own)
    if dims is None:
        return None
    size = extents.queries, extents.value_depth
    placed = _placed(Seen(at, 0, dims), order, extents, size)
    return placed.place if placed is not None and placed.heads == extents.heads else None


def _behind(result: relax.Var, bindings: Bindings) -> Definition:
    """What variables are bound to, up to a result, casts left out."""

    def definition(value: Expr) -> Expr | None:
        while not value.same_as(result):
            cast = bindings.call(value, "astype")
            if cast is None:
                return bindings.definition(value)
            value = cast.args[0]
        return None

    return definition
