"""Kernels for GPUs that know no bfloat16: TVM computes in float32 there, and keeps it in float32.

In: an emitted kernel. Out: the same with what TVM can print of it: vectors of four, which are 16
bytes of float32, and casts that are TVM's own.
"""

from __future__ import annotations

import tvm_ffi
from tvm import ir, tirx
from tvm.tirx import ForKind

from tvm_stitch.kernel.codegen.bf16_widen import WIDEN
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES, int64
from tvm_stitch.stages.stage import Expr, constant, dtype_of, item_bytes, substitute

BFLOAT16 = "bfloat16"
CAPABILITY = 80  # from which on GPUs know it
LANES = ACCESS_BYTES // item_bytes("float32")


def stored_bytes(dtype: str, capability: int) -> int:
    """Bytes of an element in registers or shared memory, as TVM lowers it."""
    return item_bytes("float32" if dtype == BFLOAT16 and capability < CAPABILITY else dtype)


def without_bfloat16(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """The kernel with narrower vectors of bfloat16 and without calls that take its bits."""
    visitors = [(tirx.For, _narrower), (ir.Call, _cast)]
    return kernel.with_body(tvm_ffi.structural_map(kernel.body, visitors))


def _narrower(loop: tirx.For) -> tirx.Stmt:
    lanes = constant(loop.extent) or 0
    if loop.kind != ForKind.VECTORIZED or lanes <= LANES or not _has_bfloat16(loop.body):
        return loop
    part, lane = tirx.Var("part", "int64"), tirx.Var(loop.loop_var.name, "int64")
    body = substitute(loop.body, {loop.loop_var: part * LANES + lane})
    inner = tirx.For(lane, int64(0), int64(LANES), ForKind.VECTORIZED, body)
    return tirx.For(part, int64(0), int64(lanes // LANES), ForKind.UNROLLED, inner)


def _has_bfloat16(stmt: tirx.Stmt) -> bool:
    found: list[str] = []
    stored = (tirx.BufferStore, lambda store: found.append(dtype_of(store.buffer)))
    loaded = (ir.TensorLoad, lambda load: found.append(dtype_of(load)))
    tvm_ffi.structural_walk(stmt, [stored, loaded])
    return any(dtype == BFLOAT16 for dtype in found)


def _cast(call: ir.Call) -> Expr:
    """A call of kernel/codegen/bf16_widen's helper as the cast that it stands for."""
    if not any(isinstance(arg, ir.StringImm) and arg.value == WIDEN for arg in call.args):
        return call
    _name, address, element, *_rest = call.args
    tile = address.args[0].source
    return tirx.Cast("float32", tile[element.astype("int64")])
