"""bfloat16 to float32 by pairs: fewer instructions than CUDA's header makes of it.

In: an expression of a thread's elements. Out: the same with such casts as calls.
"""

from __future__ import annotations

import tvm_ffi
from tvm import ir, tirx
from tvm.script import tirx as T

from tvm_stitch.stages.stage import Expr, buffer_shape, constant, dtype_of

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


def _of_pair(load: Expr) -> bool:
    """Whether it loads one of a thread's own bfloat16 values, of which there are pairs."""
    if not isinstance(load, ir.TensorLoad) or dtype_of(load) != "bfloat16":
        return False
    size = constant(buffer_shape(load.source)[0])
    return load.source.ty.storage_scope == "local" and size is not None and size % 2 == 0
