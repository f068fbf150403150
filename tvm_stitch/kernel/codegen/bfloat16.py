"""bfloat16 in kernels: pairs widened cheaply, and GPUs that know none of it.

In: an expression of a thread's elements, or an emitted kernel. Out: casts to float32 as calls that
take a value's bits, fewer instructions than CUDA's header makes of them; or, where TVM computes in
float32 and keeps it in float32, a kernel with what TVM can print of that: vectors of four, which
are 16 bytes of float32, and casts that are TVM's own.
"""

from __future__ import annotations

import tvm_ffi
from tvm import ir, tirx
from tvm.script import tirx as T
from tvm.tirx import ForKind

from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES
from tvm_stitch.stages.stage import Expr, buffer_shape, constant, dtype_of, item_bytes, substitute
from tvm_stitch.stages.symbolic_analyzer import int64

BFLOAT16 = "bfloat16"
CAPABILITY = 80  # from which on GPUs know it
LANES = ACCESS_BYTES // item_bytes("float32")
WIDEN = "tvm_stitch_widen"
# A bfloat16 is the upper half of a float32. Taken from a pair, either is one instruction, where the
# upper of a pair takes two if it is cut out first.
WIDEN_SOURCE = f"""
__device__ __forceinline__ float {WIDEN}(const nv_bfloat16* tile, int element) {{
  unsigned pair = ((const unsigned*)tile)[element >> 1];
  return __uint_as_float(element & 1 ? pair & 0xffff0000u : pair << 16);
}}
"""


def widened(value: Expr) -> Expr:
    """The same value, casts of a thread's own bfloat16 elements taken from pairs."""

    def cast(node: Expr) -> Expr:
        load = node.value
        if dtype_of(node) != "float32" or not _of_pair(load):
            return node
        tile, (element,) = load.source, load.indices
        args = tile.ptr_to([tirx.IntImm("int64", 0)]), element.astype("int32")
        return T.cuda.func_call(WIDEN, *args, source_code=WIDEN_SOURCE, return_type="float32")

    return tvm_ffi.structural_map(value, (tirx.Cast, cast))


def takes_half(call: ir.Call) -> bool:
    """Whether a call takes a bfloat16 of a pair."""
    return any(isinstance(arg, ir.StringImm) and arg.value == WIDEN for arg in call.args)


def _of_pair(load: Expr) -> bool:
    """Whether it loads one of a thread's own bfloat16 values, of which there are pairs."""
    if not isinstance(load, ir.TensorLoad) or dtype_of(load) != BFLOAT16:
        return False
    size = constant(buffer_shape(load.source)[0])
    return load.source.ty.storage_scope == "local" and size is not None and size % 2 == 0


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
    """A call of kernel/codegen/bfloat16's helper as the cast that it stands for."""
    if not takes_half(call):
        return call
    _name, address, element, *_rest = call.args
    tile = address.args[0].source
    return tirx.Cast("float32", tile[element.astype("int64")])
