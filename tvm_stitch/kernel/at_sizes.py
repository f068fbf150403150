"""A fused function where its symbols have some sizes, as it is where these are known.

In: a fused PrimFunc with symbols, and a size for each. Out: the PrimFunc in which every extent is a
number, with the values that TVM's legalisation, told these numbers, would have given it. Must not
know how kernels are computed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

import tvm
import tvm_ffi
from tvm import s_tir, tirx

from tvm_stitch.stages.indices import counted_in_int32
from tvm_stitch.stages.stage import (
    Expr,
    Var,
    buffer_shape,
    constant,
    dtype_of,
    is_buffer,
)
from tvm_stitch.stages.visit import mapped, walked

Sizes = Mapping[str, int]  # of symbols, by name
_ARITHMETIC: dict[type, Callable[[Expr, Expr], Expr]] = {
    tirx.Add: lambda a, b: a + b,
    tirx.Sub: lambda a, b: a - b,
    tirx.Mul: lambda a, b: a * b,
    tirx.FloorDiv: tirx.floordiv,
    tirx.FloorMod: tirx.floormod,
    tirx.Min: tirx.min,
    tirx.Max: tirx.max,
}


# What extremes of integers are computed of, as legalisation writes those of 32 bits.
_EXTREMES = (tirx.Min, tirx.Max, tirx.Sub)


def symbols_of(func: tirx.PrimFunc) -> list[Var]:
    """The symbols in the shapes of a function's parameters and among these, each once."""
    found: dict[Var, None] = {}
    for param in func.params:
        for extent in buffer_shape(param) if is_buffer(param) else (param,):
            found.update(dict.fromkeys(tirx.analysis.undefined_vars(extent)))
    return list(found)


def at_sizes(func: tirx.PrimFunc, sizes: Sizes) -> tirx.PrimFunc:
    """A fused function where its symbols have these sizes, with the same parameters otherwise."""
    known = {var: tirx.IntImm(dtype_of(var), sizes[var.name]) for var in symbols_of(func)}
    renamed: dict[Var, Var] = {}

    def replace(var: Var) -> Expr:
        if var in known:
            return known[var]
        if not is_buffer(var):
            return var
        if var not in renamed:
            ty = _folded(mapped(var.ty, (tirx.Var, lambda each: known.get(each, each))))
            renamed[var] = var if tvm_ffi.structural_equal(ty, var.ty) else tirx.Var(var.name, ty)
        return renamed[var]

    body = _folded(mapped(func.body, (tirx.Var, replace)))
    body = _narrowed(tvm_ffi.structural_map(body, (s_tir.SBlock, _simplified)))
    params = [replace(param) if is_buffer(param) else param for param in func.params]
    return tirx.PrimFunc(params, body, func.ret_type, func.attrs)


def _folded(node: Any) -> Any:
    """A node in which what constants make is a constant."""

    def arithmetic(expr: Expr) -> Expr:
        return _ARITHMETIC[type(expr)](expr.a, expr.b) if "int" in dtype_of(expr) else expr

    def cast(expr: tirx.Cast) -> Expr:
        is_number = isinstance(expr.value, tirx.IntImm)
        return tirx.const(expr.value.value, dtype_of(expr)) if is_number else expr

    return mapped(node, *((kind, arithmetic) for kind in _ARITHMETIC), (tirx.Cast, cast))


def _simplified(block: s_tir.SBlock) -> s_tir.SBlock:
    """A block whose places are as simple as TVM writes those of known sizes."""
    if not isinstance(block.body, tirx.BufferStore):
        return block
    analyzer = tvm.sym.Analyzer()
    for axis in block.iter_vars:
        if constant(axis.dom.extent) == 1:
            analyzer.bind(axis.var, axis.dom.min)

    def load(expr: tvm.ir.TensorLoad) -> Expr:
        return expr.source[tuple(analyzer.simplify(each) for each in expr.indices)]

    body = mapped(block.body, (tvm.ir.TensorLoad, load))
    return s_tir.SBlock(
        block.iter_vars, block.reads, block.writes, block.name_hint, body, block.init
    )


# Integers that 32 bits hold


def _narrowed(body: tirx.Stmt) -> tirx.Stmt:
    """A body in which the least and greatest of positions have 32 bits where these hold them all.

    Where only run time tells how many there are, legalisation has to take 64, which take two
    shuffles and twice the registers.
    """
    new = {old: tirx.Var(old.name, _of_32_bits(old.ty)) for old in _narrow_buffers(body)}
    if not new:
        return body
    body = mapped(body, (tirx.Var, lambda var: new.get(var, var)))
    narrow = set(new.values())
    return tvm_ffi.structural_map(body, (s_tir.SBlock, lambda block: _in_narrow(block, narrow)))


def _in_narrow(block: s_tir.SBlock, narrow: Set[Var]) -> s_tir.SBlock:
    """A block where these buffers have 32 bits, and 64 again for whoever computes with them."""
    store = block.body
    if not isinstance(store, tirx.BufferStore):
        return block

    def load(expr: tvm.ir.TensorLoad) -> Expr:
        source = expr.source
        return source[tuple(expr.indices)].astype("int64") if source in narrow else expr

    value, init = mapped(store.value, (tvm.ir.TensorLoad, load)), block.init
    if store.buffer in narrow:
        limit = tirx.max_value if isinstance(value, tirx.Min) else tirx.min_value
        init = tirx.BufferStore(store.buffer, limit("int32"), init.indices)
        value = counted_in_int32(value, _EXTREMES)
    body = tirx.BufferStore(store.buffer, value, store.indices)
    return s_tir.SBlock(block.iter_vars, block.reads, block.writes, block.name_hint, body, init)


def _of_32_bits(ty: Any) -> Any:
    return tirx.decl_buffer(ty.shape, "int32", layout=None).ty


def _narrow_buffers(body: tirx.Stmt) -> list[Var]:
    """What only the kernel knows and holds extremes of integers that are known to be small."""
    inner: list[Var] = []
    found: list[Var] = []

    def see(block: s_tir.SBlock) -> None:
        inner.extend(block.alloc_buffers)
        if block.init is not None and _keeps_small(block):
            found.append(block.body.buffer)

    walked(body, (s_tir.SBlock, see))
    return [buffer for buffer in found if buffer in inner]


def _keeps_small(block: s_tir.SBlock) -> bool:
    """Whether a block reduces integers to their extreme, and 32 bits hold all of them."""
    value = block.body.value
    if not isinstance(value, tirx.Min | tirx.Max) or dtype_of(value) != "int64":
        return False
    analyzer = tvm.sym.Analyzer()
    for axis in block.iter_vars:
        analyzer.bind(axis.var, axis.dom)
    others = [
        side
        for side in (value.a, value.b)
        if not (isinstance(side, tvm.ir.TensorLoad) and side.source == block.body.buffer)
    ]
    return len(others) == 1 and _is_small(others[0], analyzer)


def _is_small(expr: Expr, analyzer: tvm.sym.Analyzer) -> bool:
    """Whether 32 bits hold an integer and what is counted in them of what it is computed of."""
    if isinstance(expr, tirx.Select):
        return all(_is_small(each, analyzer) for each in (expr.true_value, expr.false_value))
    if isinstance(expr, _EXTREMES) and not all(_is_small(e, analyzer) for e in (expr.a, expr.b)):
        return False
    bound = analyzer.const_int_bound(expr)
    return bound.min_value >= -(2**31) and bound.max_value < 2**31
