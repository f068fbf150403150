"""Rows added into a table where indices say, as the gradient of an embedding is, or compared.

In: a call of relax.scatter_nd that adds, or leaves the largest or the smallest. Out: a call of TIR
for LegalizeOps, in which each row of the table is a reduction of the updates that go to it
(stages/patterns/scattered_reduction sees it): a stage among others, whose kernel combines the
updates of a row in their order, without atomics. TVM's own kernel has each thread of a few go
through all updates, one after the other. Knows no kernel.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from math import prod
from typing import Any

from tvm import relax, te, tirx
from tvm.ir import Call

from tvm_stitch.graph.front.decompose.stages import (
    ACCUMULATORS,
    has_shape,
    numbers_of,
    shape_of,
)
from tvm_stitch.stages.extremes import EXTREMES, nothing, reducer
from tvm_stitch.stages.indices import unraveled
from tvm_stitch.stages.patterns.scattered_reduction import MOST_UPDATES
from tvm_stitch.stages.stage import as_int64, constant, flatten, product

Expr = Any
# What a block lists is in its shared memory, with two numbers for each of its rows.
MOST_ROWS = 1 << 20
# What the threads of a block have in registers.
LONGEST = 1 << 13
# Of others no kernel would be stitched, and TVM would make rows times updates of them.
SUMMED = ("float16", "bfloat16", "float32", "int32", "int64")
# By relax's names; extremes by theirs, of which NumPy's and PyTorch's keep what is not a number.
_EXTREMES = {"max": "largest", "min": "smallest"}
REDUCTIONS = ("add", *_EXTREMES)


def stitches(dtype: str, rows: int, columns: int) -> bool:
    """Whether the sums of so many rows of so many elements have a kernel of ours; or extremes."""
    return dtype in SUMMED and 0 < rows <= MOST_ROWS and 0 < columns <= LONGEST


def legalize_scatter_nd(builder: relax.BlockBuilder, call: Call) -> Expr:
    """What the updates of each row come to, where the table's sizes are known and not too large.

    How many updates there are may be known at run time only.
    """
    data, indices, updates = call.args
    usual, reduction = call.op.get_attr("FLegalize"), str(call.attrs.reduction)
    if reduction not in REDUCTIONS or not has_shape(indices):
        return usual(builder, call)
    *places, depth = (constant(as_int64(extent)) for extent in shape_of(indices))
    if depth is None or not has_shape(updates):
        return usual(builder, call)
    count = prod(each for each in places if each is not None)  # or a multiple of it
    extents, dtype = numbers_of(data), str(data.ty.dtype.dtype)
    if not 0 < count <= MOST_UPDATES or extents is None:
        return usual(builder, call)
    if not stitches(dtype, prod(extents[:depth]), prod(extents[depth:])):
        return usual(builder, call)

    def scattered(data: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
        return _scattered(data, indices, updates, depth, reduction)

    return builder.call_te(scattered, *call.args, primfunc_name_hint="scatter_nd")


def _scattered(
    data: te.Tensor, indices: te.Tensor, updates: te.Tensor, depth: int, reduction: str
) -> te.Tensor:
    """A table, and what indices of so many numbers send to its rows."""
    table, places = tuple(data.shape), tuple(indices.shape[:-1])
    update = te.reduce_axis((0, product(tuple(map(as_int64, places)))), "update")

    def sent(at: tuple[Expr, ...]) -> tuple[Expr, Expr]:
        own = unraveled(update.var.astype("int64"), places)
        index = tuple(indices(*own, tirx.IntImm("int64", n)) for n in range(depth))
        goes = tirx.EQ(flatten(index, table[:depth]), flatten(at[:depth], table[:depth]))
        return goes, updates(*own, *at[depth:])

    return of_rows(data, update, sent, reduction)


def of_rows(
    data: te.Tensor,
    update: Any,
    sent: Callable[[tuple[Expr, ...]], tuple[Expr, Expr]],
    reduction: str,
) -> te.Tensor:
    """A table, and what its rows' updates come to along an axis; halves in float32.

    `sent` says of an element whether an update goes to its row, and the update's own element.
    """
    table = tuple(data.shape)
    wide = ACCUMULATORS.get(str(data.dtype), str(data.dtype))
    combine, reduced, none = _combiner(reduction, wide)

    def of_row(*at: Expr) -> Expr:
        goes, value = sent(at)
        return reduced(tirx.Select(goes, value.astype(wide), none), axis=update)

    found = te.compute(table, of_row, name="scattered")
    return te.compute(
        table,
        lambda *at: combine(data(*at).astype(wide), found(*at)).astype(str(data.dtype)),
        name="scatter_nd",
    )


def _combiner(
    reduction: str, dtype: str
) -> tuple[Callable[[Expr, Expr], Expr], Callable[..., Expr], Expr]:
    """How two become one, a reduction of many, and what changes none."""
    if reduction == "add":
        return operator.add, te.sum, tirx.const(0, dtype)
    name = _EXTREMES[reduction]
    if "float" in dtype:
        return EXTREMES[name], reducer(name), nothing(name, dtype)
    two, many = (tirx.max, te.max) if reduction == "max" else (tirx.min, te.min)
    return two, many, nothing(name, dtype)
