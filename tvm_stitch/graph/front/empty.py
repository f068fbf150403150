"""Tensors without elements: nothing computes them, and nothing is summed over them.

WithoutElements, before Decompose: an operator whose result is known to have no elements becomes an
empty tensor, a mean of none not-a-number, as in NumPy; a table that gets no updates stays as it is.
FewerLoops, after LegalizeOps: loops over nothing leave the TIR; of a sum over nothing, what it
starts from remains. TVM's schedules would divide by an extent of zero, and launch no blocks, which
CUDA refuses. Knows no kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, s_tir, tirx
from tvm.tirx import IterVar

from tvm_stitch.graph.front.dataflow import mutated
from tvm_stitch.graph.front.decompose.stages import dtype_of, has_shape, is_empty, shape_of

Expr = Any
_MEANS = ("relax.mean", "relax.variance", "relax.std")
_SCATTERS = ("relax.scatter_nd", "relax.scatter_elements")
_ALLOCATES = "relax.builtin.alloc_tensor"


def WithoutElements() -> tvm.transform.Pass:
    """The pass over Relax functions."""

    @tvm.transform.module_pass(opt_level=0, name="WithoutElements")
    def without_elements(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        return mutated(mod, _Emptied(mod))

    return without_elements


@relax.expr_functor.mutator
class _Emptied(relax.PyExprMutator):
    def visit_constant_(self, constant: Expr) -> Expr:
        if _holds_nothing(constant.ty):
            return _allocated(constant.ty)
        return super().visit_constant_(constant)

    def visit_call_(self, call: tvm.ir.Call) -> Expr:
        if not _is_pure_operator(call):
            return super().visit_call_(call)
        if isinstance(call.ty, relax.TupleType):
            if all(map(_holds_nothing, call.ty.fields)):
                return relax.Tuple([_allocated(field) for field in call.ty.fields])
            return super().visit_call_(call)
        if _holds_nothing(call.ty):
            return _allocated(call.ty)
        if call.op.name in _SCATTERS and any(_holds_nothing(each.ty) for each in call.args[1:3]):
            return self.visit_expr(call.args[0])
        if call.op.name in _MEANS and has_shape(call.args[0]) and is_empty(shape_of(call.args[0])):
            nothing = relax.const(float("nan"), dtype_of(call))
            return relax.op.full(call.ty.shape, nothing, dtype_of(call))
        return super().visit_call_(call)


def _holds_nothing(ty: Any) -> bool:
    """Whether a type is that of a tensor without elements."""
    known = isinstance(ty, relax.TensorType) and isinstance(ty.shape, relax.ShapeExpr)
    return known and is_empty(ty.shape.values)


def _allocated(ty: relax.TensorType) -> Expr:
    """An empty tensor. It is no constant: TVM cannot load one that has no bytes."""
    return relax.op.builtin.alloc_tensor(ty.shape, str(ty.dtype.dtype), 0)


def _is_pure_operator(call: tvm.ir.Call) -> bool:
    return (
        isinstance(call.op, tvm.ir.Op)
        and call.op.name != _ALLOCATES
        and bool(call.op.get_attr("FPurity"))
        and isinstance(call.ty, (relax.TensorType, relax.TupleType))
    )


def FewerLoops() -> tvm.transform.Pass:
    """The pass over PrimFuncs that nobody has scheduled."""

    @tvm.transform.module_pass(opt_level=0, name="FewerLoops")
    def fewer_loops(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        changed = {
            var: _without_empty_loops(function)
            for var, function in mod.functions_items()
            if isinstance(function, tirx.PrimFunc)
            and "tirx.is_scheduled" not in (function.attrs or {})
            and isinstance(function.body, s_tir.SBlockRealize)
            and _has_empty_axis(function)
        }
        if not changed:
            return mod
        mod = mod.clone()
        for var, function in changed.items():
            mod.update_func(var, function)
        return mod

    return fewer_loops


def _has_empty_axis(function: tirx.PrimFunc) -> bool:
    found: list[bool] = []

    def visit(node: Any) -> None:
        axes = node.iter_vars if isinstance(node, s_tir.SBlock) else ()
        extents = [axis.dom.extent for axis in axes]
        buffers = [node.source] if isinstance(node, tvm.ir.TensorLoad) else []
        found.append(is_empty(extents) or any(is_empty(buffer.ty.shape) for buffer in buffers))

    tvm_ffi.structural_walk(function.body, ((s_tir.SBlock, tvm.ir.TensorLoad), visit))
    return any(found)


def _without_empty_loops(function: tirx.PrimFunc) -> tirx.PrimFunc:
    realize = function.body
    root = realize.block
    nests = root.body.seq if isinstance(root.body, tirx.SeqStmt) else [root.body]
    left = [nest for nest in map(_nest, nests) if nest is not None]
    body = tirx.SeqStmt(left) if len(left) > 1 else left[0] if left else tirx.Evaluate(0)
    # What reads an empty tensor does so under a condition that never holds.
    body = tvm_ffi.structural_map(body, (tvm.ir.TensorLoad, _loaded))
    buffers = [buffer for buffer in root.alloc_buffers if not is_empty(buffer.ty.shape)]
    changed = s_tir.SBlock([], [], [], root.name_hint, body, alloc_buffers=buffers)
    whole = s_tir.SBlockRealize([], realize.predicate, changed)
    return tirx.PrimFunc(function.params, whole, function.ret_type, function.attrs)


def _loaded(load: Expr) -> Expr:
    return tirx.const(0, str(load.ty.dtype)) if is_empty(load.source.ty.shape) else load


def _nest(stmt: tirx.Stmt) -> tirx.Stmt | None:
    """A loop nest without empty loops; None if nothing is left."""
    loops: list[tirx.For] = []
    inner = stmt
    while isinstance(inner, tirx.For):
        loops.append(inner)
        inner = inner.body
    if not is_empty([loop.extent for loop in loops]) or not isinstance(inner, s_tir.SBlockRealize):
        return stmt
    block = inner.block
    spatial = [axis.iter_type == IterVar.DataPar for axis in block.iter_vars]
    extents = [axis.dom.extent for axis in block.iter_vars]
    kept = [extent for extent, keep in zip(extents, spatial, strict=True) if keep]
    if block.init is None or is_empty(kept):
        return None
    return _start(inner, loops, spatial)


def _start(
    realize: s_tir.SBlockRealize, loops: Sequence[tirx.For], spatial: Sequence[bool]
) -> tirx.Stmt:
    """What a reduction over nothing leaves: its start, for every element of the result."""
    block = realize.block
    values = [v for v, keep in zip(realize.iter_values, spatial, strict=True) if keep]
    axes = [axis for axis, keep in zip(block.iter_vars, spatial, strict=True) if keep]
    start = s_tir.SBlock(axes, [], block.writes, block.name_hint, block.init)
    body: tirx.Stmt = s_tir.SBlockRealize(values, tirx.const(True, "bool"), start)
    used = set(values)
    for loop in reversed(loops):
        if loop.loop_var in used:
            body = tirx.For(loop.loop_var, loop.min, loop.extent, loop.kind, body)
    return body
