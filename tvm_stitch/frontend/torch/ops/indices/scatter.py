"""Elements written, and added, where indices say.

Where few are written, every element is asked which of the writes hit it; where the last one stays
there may be more. What is added to rows of a table of known sizes has a kernel (rows_added). Either
way nothing is written twice, so that sums are the same in every run, and every index is checked
when it is used. What else is written at many places is left to PyTorch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
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
    dims,
    immediate,
    is_float,
    is_tensor,
    picked,
    rank,
    wide,
)  # fmt: skip
from tvm_stitch.frontend.torch.ops.indices.index import Layout, from_either_end, index_of, within
from tvm_stitch.frontend.torch.ops.indices.rows_added import Rows, embedding_dense_backward
from tvm_stitch.frontend.torch.ops.indices.sorting import is_countable
from tvm_stitch.frontend.torch.ops.reduce import LARGEST, SMALLEST
from tvm_stitch.stages.extremes import larger, nothing, smaller

_op = relax.op
_ZERO = tirx.const(0, "int64")
# Writes that an element is compared with. At 16 the indices that come from the cache are 32 bytes
# for every byte of a float32 that goes to memory: what takes about as long.
MOST_WRITES = 16
# Pairs of writes, the last of which stays, and of elements: PyTorch's kernel does not compare any.
MOST_PAIRS_REPLACED = 1 << 21
# Writes that are asked in an element's own expression: more of them are a reduction, whose kernel
# keeps a number for each element and write where it is not the only reader.
MOST_ASKED = 4


@dataclass(frozen=True)
class _Writes:
    """What is written into a tensor: for an element, whether a write hits it, and the value."""

    count: int
    axes: Sequence[int]  # whose positions tell whether a write hits
    operands: tuple[Expr, ...]
    hits: Callable[..., Any]  # of the operands' tensors, an element's position, and a write
    value: Callable[..., Any]

    def all_of(self, given: Sequence[te.Tensor], at: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
        """Of an element's position: whether a write hits it, and its value; each in turn."""
        for number in range(self.count):
            write = tirx.const(number, "int64")
            yield self.hits(given, at, write), self.value(given, at, write)

    def each(self, call: Call, shape: Sequence[Dim], of: str, otherwise: Any) -> Expr:
        """For every element and write, the value, or what stands for none."""

        def body(*given: te.Tensor) -> te.Tensor:
            def element(*at: Any) -> Any:
                *own, write = at
                value = self.value(given, own, write).astype(of)
                return tirx.if_then_else(self.hits(given, own, write), value, otherwise)

            return te.compute([*shape, self.count], element, name="writes")

        return call.te(body, *self.operands)


def _int64(value: Any) -> Any:
    """A position, of whatever type TVM counts it in, as indices are."""
    return value.astype("int64")


def _count(extents: Sequence[Dim], asked: Sequence[Dim]) -> int:
    """How many writes there are, if so many elements can be asked."""
    is_known = all(isinstance(each, int) for each in extents)
    may_be_asked = asked and is_known and is_countable([*extents, *asked], MOST_PAIRS_REPLACED)
    if not _is_few(extents) and not may_be_asked:
        raise TorchError(f"more than {MOST_WRITES} writes to choose from: PyTorch's atomics")
    return int(prod(extents))


def _is_few(extents: Sequence[Dim]) -> bool:
    total = prod(extents)
    return isinstance(total, int) and total <= MOST_WRITES


def _scattered(
    call: Call, x: Expr, dim: int, index: Expr, source: Expr | Number, last: bool = False
) -> _Writes:
    """Along a dimension each position of the others has writes of its own.

    Where the `last` one stays there may be more of them.
    """
    if not rank(x) or not rank(index):
        raise TorchError("a tensor without dimensions")
    axis, limits, extents = dim % rank(x), dims(index), dims(x)

    def own(at: Sequence[Any], write: Any) -> list[Any]:
        return [*at[:axis], write, *at[axis + 1 :]]

    def hits(given: Sequence[te.Tensor], at: Sequence[Any], write: Any) -> Any:
        place = within(given[0](*own(at, write)), extents[axis])
        same = tirx.EQ(place, _int64(at[axis]))
        shorter = [
            at[n] < immediate(limits[n], "int64")
            for n in range(len(extents))
            if n != axis and not call.symbols.same(limits[n], extents[n])
        ]
        if not shorter:
            return same
        return tirx.if_then_else(tirx.all(*shorter), same, tirx.const(False, "bool"))

    def value(given: Sequence[te.Tensor], at: Sequence[Any], write: Any) -> Any:
        return given[1](*own(at, write)) if len(given) > 1 else immediate(source, call.dtype)

    values = (source,) if is_tensor(source) else ()
    count = _count([limits[axis]], extents if last else ())
    return _Writes(count, range(rank(x)), (index_of(call, index), *values), hits, value)


def _put(
    call: Call, x: Expr, indices: Sequence[Expr | None], values: Expr, last: bool = False
) -> _Writes:
    """Every write is at one position of the indexed dimensions, and all along the others.

    Where the `last` one stays there may be more of them.
    """
    layout, extents = Layout.of(call, indices), dims(x)
    count = _count(layout.shape, [extents[axis] for axis in layout.axes] if last else ())
    places = [index_of(call, index) for index in indices if index is not None]

    def hits(given: Sequence[te.Tensor], at: Sequence[Any], write: Any) -> Any:
        of_index = _unravelled(write, layout.shape)
        return tirx.all(*[
            tirx.EQ(from_either_end(picked(tensor, of_index), extents[axis]), _int64(at[axis]))
            for axis, tensor in zip(layout.axes, given[:-1], strict=True)
        ])  # fmt: skip

    def value(given: Sequence[te.Tensor], at: Sequence[Any], write: Any) -> Any:
        others = [place for axis, place in enumerate(at) if axis not in layout.axes]
        return picked(given[-1], layout.together(_unravelled(write, layout.shape), others))

    return _Writes(count, layout.axes, (*places, values), hits, value)


def _unravelled(number: Any, shape: Sequence[int]) -> list[Any]:
    """The position of an element by its number."""
    position: list[Any] = []
    for extent in reversed(shape):
        position.insert(0, tirx.floormod(number, immediate(extent, "int64")))
        number = tirx.floordiv(number, immediate(extent, "int64"))
    return position


def _overwritten(call: Call, x: Expr, writes: _Writes) -> Expr:
    """Every element, or the last that is written over it."""
    of, shape = call.dtype, dims(x)

    def asked(source: te.Tensor, *given: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            value = source(*at)
            for hit, own in writes.all_of(given, at):
                value = tirx.if_then_else(hit, own.astype(of), value)
            return value

        return te.compute(shape, element, name="written")

    def chosen(source: te.Tensor, *given: te.Tensor) -> te.Tensor:
        def element(*at: Any) -> Any:
            write = given[-1](*[at[axis] for axis in writes.axes])
            value = writes.value(given[:-1], at, write).astype(of)
            return tirx.if_then_else(write >= _ZERO, value, source(*at))

        return te.compute(shape, element, name="written")

    if writes.count <= MOST_ASKED:
        return call.te(asked, x, *writes.operands)
    return call.te(chosen, x, *writes.operands, _latest(call, shape, writes))


def _latest(call: Call, shape: Sequence[Dim], writes: _Writes) -> Expr:
    """The last write that hits an element, by the positions that tell; -1 where none does."""
    axes, none = list(writes.axes), tirx.const(-1, "int64")

    def hits(given: Sequence[te.Tensor], at: Sequence[Any], write: Any) -> Any:
        full = [at[axes.index(n)] if n in axes else _ZERO for n in range(len(shape))]
        return writes.hits(given, full, write)

    numbers = replace(writes, hits=hits, value=lambda _given, _at, write: write)
    each = numbers.each(call, [shape[axis] for axis in axes], "int64", none)
    return call.emit(_op.max(each, [-1]))


def _scatter(call: Call, x: Expr, dim: int, index: Expr, source: Expr | Number) -> Expr:
    return _overwritten(call, x, _scattered(call, x, dim, index, source, last=True))


def _index_put(
    call: Call, x: Expr, indices: Sequence[Expr | None], values: Expr, accumulate: bool = False
) -> Expr:
    layout = Layout.of(call, indices)
    rows = Rows.of(x, layout) if accumulate and not _is_few(layout.shape) else None
    if rows is not None:
        places = [index_of(call, index) for index in indices if index is not None]
        return rows.added(call, x, places, values)
    writes = _put(call, x, indices, values, last=not accumulate)
    return _added(call, x, writes) if accumulate else _overwritten(call, x, writes)


def _scatter_add(call: Call, x: Expr, dim: int, index: Expr, source: Expr) -> Expr:
    return _added(call, x, _scattered(call, x, dim, index, source))


def _added(call: Call, x: Expr, writes: _Writes) -> Expr:
    """Halves are summed in float32."""
    of = wide(call.dtype)
    if of == "bool":
        raise TorchError("sums of booleans")
    if writes.count <= MOST_ASKED:
        total = call.te(partial(_with_all, writes, of), call.cast(x, of), *writes.operands)
        return call.cast(total, call.dtype)
    each = writes.each(call, dims(x), of, immediate(0, of))
    total = call.emit(_op.add(call.cast(x, of), call.emit(_op.sum(each, [-1]))))
    return call.cast(total, call.dtype)


def _with_all(writes: _Writes, of: str, source: te.Tensor, *given: te.Tensor) -> te.Tensor:
    """Every element and what is added to it, one write after the other."""

    def element(*at: Any) -> Any:
        total = source(*at)
        for hit, own in writes.all_of(given, at):
            total += tirx.if_then_else(hit, own.astype(of), immediate(0, of))
        return total

    return te.compute(source.shape, element, name="added")


@dataclass(frozen=True)
class _Reduction:
    """How what is written to an element becomes one, and one with what was there."""

    reduced: Callable[..., Expr]
    combined: Callable[[Any, Any], Any]
    nothing: Callable[[str], Any]  # what changes no result, in a type


def _over(function: Callable[..., Expr]) -> Callable[..., Expr]:
    return lambda call, each: call.emit(function(each, [-1]))


_least, _most = partial(nothing, "largest"), partial(nothing, "smallest")
_SUM = _Reduction(_over(_op.sum), lambda a, b: a + b, partial(immediate, 0))
_REDUCTIONS = {
    "sum": _SUM,
    "mean": _SUM,
    "prod": _Reduction(_over(_op.prod), lambda a, b: a * b, partial(immediate, 1)),
    "amax": _Reduction(lambda call, each: LARGEST(call, each, [-1]), larger, _least),
    "amin": _Reduction(lambda call, each: SMALLEST(call, each, [-1]), smaller, _most),
}
_OF_ROWS = {"sum": "add", "mean": "add", "amax": "max", "amin": "min"}
"""Those that kernels of rows have, and relax's names for them."""


def _scatter_reduce(
    call: Call,
    x: Expr,
    dim: int,
    index: Expr,
    source: Expr,
    reduce: str,
    *,
    include_self: bool = True,
) -> Expr:
    """What is written, and what was there if that counts, as one; nothing changes the others."""
    return _combined(call, x, _scattered(call, x, dim, index, source), reduce, include_self)


def _index_reduce(
    call: Call,
    x: Expr,
    dim: int,
    index: Expr,
    source: Expr,
    reduce: str,
    *,
    include_self: bool = True,
) -> Expr:
    """The same of whole rows: slices along a dimension that an index names."""
    if not rank(x):
        raise TorchError("a tensor without dimensions")
    indices: list[Expr | None] = [*[None] * (dim % rank(x)), index]
    layout = Layout.of(call, indices)
    rows = Rows.of(x, layout) if reduce in _OF_ROWS and not _is_few(layout.shape) else None
    if rows is None:
        return _combined(call, x, _put(call, x, indices, source), reduce, include_self)
    of, places, reduction = wide(call.dtype), [index_of(call, index)], _OF_ROWS[reduce]
    own, updates = call.cast(x, of), call.cast(source, of)
    if not include_self:
        own = call.filled(dims(x), _REDUCTIONS[reduce].nothing(of))
    found = rows.added(call, own, places, updates, reduction)
    if include_self and reduce != "mean":
        return call.cast(found, call.dtype)
    ones = call.filled(dims(source), tirx.const(1, "int32"))
    zeros = call.filled(dims(x), tirx.const(0, "int32"))
    hits = call.cast(rows.added(call, zeros, places, ones), "int64")
    kept = partial(_kept, reduce, of, include_self)
    return call.pointwise(kept, x, found, hits, of=(of, of, "int64"), to=call.dtype)


def _kept(reduce: str, of: str, include_self: bool, own: Any, others: Any, number: Any) -> Any:
    """An element as it was where nothing is written, else what is; sums of means are divided."""
    if reduce == "mean":
        divisor = number + tirx.const(1, "int64") if include_self else number
        others = _divided(others, divisor, of)
    return tirx.Select(number > _ZERO, others, own)


def _combined(call: Call, x: Expr, writes: _Writes, reduce: str, include_self: bool) -> Expr:
    """Every element and each of a few writes."""
    of, shape = wide(call.dtype), dims(x)
    if of == "bool":
        raise TorchError("reductions of booleans")
    kind = _REDUCTIONS[reduce]
    found = kind.reduced(call, writes.each(call, shape, of, kind.nothing(of)))
    one = tirx.const(1, "int64")
    ones = replace(writes, value=lambda *_of: one).each(call, shape, "int64", _ZERO)
    hits = call.emit(_op.sum(ones, [-1]))

    def compute(own: Any, others: Any, number: Any) -> Any:
        both = kind.combined(own, others) if include_self else others
        return _kept(reduce, of, include_self, own, both, number)

    return call.pointwise(compute, x, found, hits, of=(of, of, "int64"), to=call.dtype)


def _divided(total: Any, number: Any, of: str) -> Any:
    if is_float(of):
        return total / number.astype(of)
    return tirx.floordiv(total, tirx.max(number, tirx.const(1, "int64")).astype(of))


OPERATORS: dict[str, Converter] = {
    "embedding_dense_backward": embedding_dense_backward,
    "index_put": _index_put,
    "index_reduce": _index_reduce,
    "scatter.src": _scatter,
    "scatter.value": _scatter,
    "scatter_add": _scatter_add,
    "scatter_reduce.two": _scatter_reduce,
}
"""By ATen's names; an overload called default is left out."""
