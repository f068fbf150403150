"""Reductions of halves and small integers in 32 bits, where TVM's own schedules make them.

In: a PrimFunc that nobody has scheduled. Out: the function with what it reduces in buffers of 32
bits, rounded where it is stored; or the function as it is. TVM would add up halves in halves. And
the last warp of a block would exchange fewer than 32 bits through shared memory with nothing to
synchronise it, which CUDA promises no result for since the threads of a warp diverge freely.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx

from tvm_stitch.stages.stage import dtype_of

Expr = Any
Var = Any
_WIDE = {
    "float16": "float32", "bfloat16": "float32",
    "int8": "int32", "int16": "int32", "uint8": "uint32", "uint16": "uint32",
}  # fmt: skip
_OF_TWO = (
    tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min, tirx.And, tirx.Or,
    tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE,
)  # fmt: skip


def with_wide_reductions(function: tirx.PrimFunc) -> tirx.PrimFunc:
    """The function with its sums, maxima and the like in 32 bits."""
    if not isinstance(function.body, s_tir.SBlockRealize):
        return function
    root = function.body.block
    wide = {
        buffer: tirx.decl_buffer(
            buffer.ty.shape, _WIDE[dtype_of(buffer)], f"{buffer.name}_wide", layout=None
        )
        for buffer in _narrow_results(root.body)
    }
    if not wide:
        return function
    body = tvm_ffi.structural_map(root.body, (s_tir.SBlock, lambda block: _widened(block, wide)))
    stores = [_rounded(made, buffer) for buffer, made in wide.items() if buffer in function.params]
    nests = [*(body.seq if isinstance(body, tirx.SeqStmt) else [body]), *stores]
    buffers = [*(buffer for buffer in root.alloc_buffers if buffer not in wide), *wide.values()]
    body = tirx.SeqStmt(nests) if len(nests) > 1 else body
    whole = s_tir.SBlock([], [], [], root.name_hint, body, alloc_buffers=buffers)
    realize = s_tir.SBlockRealize([], function.body.predicate, whole)
    return tirx.PrimFunc(function.params, realize, function.ret_type, function.attrs)


def _narrow_results(body: tirx.Stmt) -> list[Var]:
    """The buffers of fewer than 32 bits that reductions make; of matrix products, none."""
    found: dict[Var, None] = {}
    products: list[tirx.Mul] = []

    def visit(block: s_tir.SBlock) -> None:
        if block.init is None or len(block.writes) > 1:  # pairs have no rule that widens
            return
        written = [region.source for region in block.writes]
        found.update(dict.fromkeys(buffer for buffer in written if dtype_of(buffer) in _WIDE))

        def multiplied(product: tirx.Mul) -> None:
            sides = [getattr(side, "source", None) for side in (product.a, product.b)]
            if dtype_of(product) in _WIDE and not any(side in written for side in sides):
                products.append(product)

        tvm_ffi.structural_walk(block.body, (tirx.Mul, multiplied))

    tvm_ffi.structural_walk(body, (s_tir.SBlock, visit))
    return [] if products else list(found)


def _widened(block: s_tir.SBlock, wide: Mapping[Var, Var]) -> s_tir.SBlock:
    touched = [region.source for region in (*block.reads, *block.writes)]
    if not any(buffer in wide for buffer in touched):
        return block
    widening = _Widening(wide)
    body = widening.statement(block.body)
    init = None if block.init is None else _identity(widening, block.init)
    reads, writes = (
        [tirx.BufferRegion(wide.get(r.source, r.source), r.region) for r in regions]
        for regions in (block.reads, block.writes)
    )
    return s_tir.SBlock(
        block.iter_vars, reads, writes, block.name_hint, body, init,
        block.alloc_buffers, block.match_buffers, block.annotations,
    )  # fmt: skip


def _identity(widening: _Widening, init: tirx.Stmt) -> tirx.Stmt:
    """What a reduction starts from: the least number of halves is not that of float32."""
    made = widening.wide.get(init.buffer)
    if made is None:
        return init
    narrow, value = dtype_of(init.buffer), init.value
    for end in (tirx.min_value, tirx.max_value):
        if getattr(value, "value", None) == end(narrow).value != 0:
            return tirx.BufferStore(made, end(dtype_of(made)), init.indices)
    return tirx.BufferStore(made, value.astype(dtype_of(made)), init.indices)


class _Widening:
    """Statements and expressions of a block, with what is narrow as what is wide."""

    def __init__(self, wide: Mapping[Var, Var]) -> None:
        self.wide = wide

    def statement(self, stmt: tirx.Stmt) -> tirx.Stmt:
        if isinstance(stmt, tirx.BufferStore):
            buffer = self.wide.get(stmt.buffer, stmt.buffer)
            value = self.expression(stmt.value)
            return tirx.BufferStore(buffer, value.astype(dtype_of(buffer)), stmt.indices)
        return self._as_it_was(stmt)

    def expression(self, expr: Expr) -> Expr:
        """In 32 bits, if it had fewer."""
        if isinstance(expr, ir.TensorLoad) and expr.source in self.wide:
            return self.wide[expr.source][tuple(expr.indices)]
        if isinstance(expr, _OF_TWO):
            return type(expr)(self.expression(expr.a), self.expression(expr.b))
        elif isinstance(expr, tirx.Select):
            sides = expr.condition, expr.true_value, expr.false_value
            return tirx.Select(*map(self.expression, sides))
        else:
            expr = self._as_it_was(expr)
        return expr.astype(_WIDE.get(dtype_of(expr), dtype_of(expr)))

    def _as_it_was(self, of: Any) -> Any:
        """With what is wide rounded again, for what there is no rule for."""

        def load(found: Expr) -> Expr:
            made = self.wide.get(found.source)
            return found if made is None else made[tuple(found.indices)].astype(dtype_of(found))

        return tvm_ffi.structural_map(of, (ir.TensorLoad, load))


def _rounded(made: Var, buffer: Var) -> tirx.Stmt:
    """A loop nest that stores a result as what it is to be."""
    extents = list(buffer.ty.shape)
    loops = [tirx.Var(f"ax{number}", extent.ty) for number, extent in enumerate(extents)]
    place = [tirx.Var(f"v{number}", extent.ty) for number, extent in enumerate(extents)]
    axes = [
        tirx.IterVar(ir.Range(0, extent), var, tirx.IterVar.DataPar)
        for extent, var in zip(extents, place, strict=True)
    ]
    point = [ir.Range.from_min_extent(var, 1) for var in place]
    store = tirx.BufferStore(buffer, made[tuple(place)].astype(dtype_of(buffer)), place)
    reads, writes = [tirx.BufferRegion(made, point)], [tirx.BufferRegion(buffer, point)]
    block = s_tir.SBlock(axes, reads, writes, f"{buffer.name}_rounded", store)
    stmt: tirx.Stmt = s_tir.SBlockRealize(loops, tirx.const(True, "bool"), block)
    for loop, extent in zip(reversed(loops), reversed(extents), strict=True):
        stmt = tirx.For(loop, tirx.const(0, extent.ty), extent, tirx.ForKind.SERIAL, stmt)
    return stmt
