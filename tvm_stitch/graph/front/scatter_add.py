"""Rows added into a table where indices say, as the gradient of an embedding is.

In: a call of relax.scatter_nd that adds. Out: a call of its TIR, bound to threads, for LegalizeOps.
TVM has each thread of a few go through all updates, one after the other. Here a warp finds, for
each update, the others that hit the same row, by ballots over all indices; of those that share a
row the first adds them all, in their order. Without atomics: the same sums in every run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tvm import relax, te, tirx
from tvm.ir import Call
from tvm.script import tirx as intrinsics
from tvm.script.ir_builder import IRBuilder
from tvm.script.ir_builder import tirx as T

from tvm_stitch.graph.front.decompose.stages import numbers_of

Expr = Any
WARP, WARPS = 32, 8
# Updates that a warp looks for at once: an index that is loaded is compared with each.
AT_ONCE = 4
# With fewer of 32 in the same row, each is fetched when it is found; else so many together.
FEW, FETCHED = 3, 8
# Every index is compared with every other once for so many times 32 columns: for each 32, the 2048
# updates of 768 columns took 76 us on an H200.
MOST_PARTS = 4
# Beyond so many updates times columns TVM's loop is faster.
MOST_WORK = 1 << 26
_EVERYONE = tirx.IntImm("uint32", 0xFFFFFFFF)


def legalize_scatter_nd(builder: relax.BlockBuilder, call: Call) -> Expr:
    """The sums of rows by warps, where updates and columns are known and not too many."""
    data, indices, updates = call.args
    usual = call.op.get_attr("FLegalize")
    shapes = [numbers_of(each) for each in (data, indices, updates)]
    if str(call.attrs.reduction) != "add" or any(shape is None for shape in shapes):
        return usual(builder, call)
    table, places, _ = shapes
    assert table is not None and places is not None
    count, columns = prod(places[:-1]), prod(table[places[-1] :])
    if not count or not prod(table) or count * columns > MOST_WORK:
        return usual(builder, call)
    if str(data.ty.dtype.dtype) not in ("float32", "float64", "int32", "int64"):
        return usual(builder, call)

    def scattered(*given: te.Tensor) -> te.Tensor:
        return te.extern(
            [given[0].shape],
            list(given),
            lambda ins, outs: _Kernel((*ins, outs[0]), table, places[-1], count, columns).body(),
            dtype=given[0].dtype,
            out_buffers=[tirx.decl_buffer(given[0].shape, given[0].dtype, "sums", layout=None)],
            name="scatter_nd.gpu",
        )

    return builder.call_te(scattered, *call.args, primfunc_name_hint="scatter_nd")


class _Kernel:
    """Two launches: the table copied, and the updates added."""

    def __init__(
        self, buffers: Sequence[Expr], table: Sequence[int], depth: int, count: int, columns: int
    ) -> None:
        self.data, self.indices, self.updates, self.sums = map(T.buffer_proxy, buffers)
        self.dtype, self.table, self.depth = buffers[0].dtype, table, depth
        self.count, self.columns = count, columns
        self.rows = prod(table[:depth])
        self.parts = min(MOST_PARTS, -(-columns // WARP))

    def body(self) -> tirx.Stmt:
        """Both."""
        with IRBuilder() as built, T.seq_scope():
            self._copy()
            self._add()
        return built.get()

    def _copy(self) -> None:
        size, threads = prod(self.table), WARP * WARPS
        each = next(n for n in (4, 2, 1) if size % n == 0)
        block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
        bound = [(block, -(-size // (each * threads))), (thread, threads)]
        with T.frame_scope([T.attr(axis, "thread_extent", extent) for axis, extent in bound]):
            at = (block * threads + thread) * each
            with T.If(at < size), T.Then(), T.vectorized(0, each) as element:
                self.sums[at + element] = self.data[at + element]

    def _add(self) -> None:
        warps = -(-self.count // AT_ONCE)
        block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
        part = te.thread_axis("blockIdx.y")
        bound = [
            (block, -(-warps // WARPS)),
            (part, -(-self.columns // (WARP * self.parts))),
            (thread, WARP * WARPS),
        ]
        with T.frame_scope([T.attr(axis, "thread_extent", extent) for axis, extent in bound]):
            lane = thread % WARP
            first = (block * WARPS + thread // WARP) * AT_ONCE
            column = part * (WARP * self.parts) + lane
            mine = T.buffer_proxy(T.alloc_local([AT_ONCE], "int64"))
            leads = T.buffer_proxy(T.alloc_local([AT_ONCE], "int32"))
            found = T.buffer_proxy(T.alloc_local([AT_ONCE * self.parts], self.dtype))
            with T.unroll(0, AT_ONCE) as n:
                leads[n] = T.Select(first + n < self.count, 1, 0)
                mine[n] = T.if_then_else(first + n < self.count, self._row(first + n), -1)
                with T.unroll(0, self.parts) as p:
                    found[n * self.parts + p] = T.Cast(self.dtype, 0)
            with T.serial(0, -(-self.count // WARP)) as step:
                self._look(step * WARP, lane, column, first, mine, leads, found)
            with T.unroll(0, AT_ONCE) as n:
                inside = T.And(mine[n] >= 0, mine[n] < self.rows)
                with T.unroll(0, self.parts) as p:
                    is_own = T.And(inside, column + p * WARP < self.columns)
                    with T.If(T.And(leads[n] == 1, is_own)), T.Then():
                        at = mine[n] * self.columns + column + p * WARP
                        self.sums[at] = self.sums[at] + found[n * self.parts + p]

    def _look(
        self, start: Expr, lane: Expr, column: Expr, first: Expr,
        mine: Expr, leads: Expr, found: Expr,
    ) -> None:  # fmt: skip
        """Compare the updates of a warp with 32 others; an earlier one of the same row leads."""
        other = T.buffer_proxy(T.alloc_local([1], "int64"))
        hits = T.buffer_proxy(T.alloc_local([1], "uint32"))
        other[0] = T.if_then_else(start + lane < self.count, self._row(start + lane), -2)
        with T.unroll(0, AT_ONCE) as n:
            hits[0] = intrinsics.cuda.ballot_sync(_EVERYONE, other[0] == mine[n])
            with T.If(T.And(hits[0] != T.uint32(0), leads[n] == 1)), T.Then():
                nearest = start + intrinsics.cuda.ffs_u32(hits[0]) - 1
                with T.If(nearest < first + n):
                    with T.Then():
                        leads[n] = 0
                    with T.Else():
                        self._sum(start, column, hits, found, n)

    def _sum(self, start: Expr, column: Expr, hits: Expr, found: Expr, n: Expr) -> None:
        """Add those of 32 updates that are hits, in their order."""
        own = [T.min(column + p * WARP, self.columns - 1) for p in range(self.parts)]
        with T.If(tirx.popcount(hits[0]) > T.uint32(FEW)):
            with T.Then(), T.serial(0, WARP // FETCHED) as group:
                values = T.buffer_proxy(T.alloc_local([FETCHED * self.parts], self.dtype))
                with T.unroll(0, FETCHED) as near:
                    place = group * FETCHED + near
                    shifted = T.shift_right(hits[0], T.Cast("uint32", place))
                    is_hit = T.bitwise_and(shifted, T.uint32(1)) == T.uint32(1)
                    for p, at in enumerate(own):
                        update = self.updates[(start + place) * self.columns + at]
                        none = T.Cast(self.dtype, 0)
                        values[near * self.parts + p] = T.if_then_else(is_hit, update, none)
                with T.unroll(0, FETCHED) as near, T.unroll(0, self.parts) as p:
                    sums = found[n * self.parts + p]
                    found[n * self.parts + p] = sums + values[near * self.parts + p]
            with T.Else(), T.While(hits[0] != T.uint32(0)):
                place = start + intrinsics.cuda.ffs_u32(hits[0]) - 1
                for p, at in enumerate(own):
                    sums = found[n * self.parts + p]
                    found[n * self.parts + p] = sums + self.updates[place * self.columns + at]
                hits[0] = T.bitwise_and(hits[0], hits[0] - T.uint32(1))

    def _row(self, update: Expr) -> Expr:
        """Which row of the table an update hits: all its indices as one number."""
        row: Expr = tirx.const(0, "int64")
        for place in range(self.depth):
            index = T.Cast("int64", self.indices[update * self.depth + place])
            row = row * self.table[place] + index
        return row
