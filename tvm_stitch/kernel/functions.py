"""Functions that take fewer instructions than what CUDA's headers and library make of them.

In: an expression of a Program. Out: the same with quicker functions.
"""

from __future__ import annotations

import tvm_ffi
from tvm import ir, tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.program import Program
from tvm_stitch.kernel.stage import Expr, buffer_shape, constant, dtype_of

ERF = "tvm_stitch_erf"
# The quotient of two polynomials in x^2 that XLA takes as well: off by 3.2e-7 at most, 5 units in
# the last place of float32, where CUDA's is off by 2. It needs 18 instructions instead of 25, and
# no selections, which run at half speed: x + bias, GELU of 4096 x 3072 float16 takes 15.7 us
# instead of 18.4. Its limits keep NaN, which fminf and fmaxf do not.
ERF_SOURCE = f"""
__device__ __forceinline__ float {ERF}(float x) {{
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  asm("max.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(-3.7439f));
  asm("min.NaN.f32 %0, %0, %1;" : "+f"(x) : "f"(3.7439f));
#else
  x = x < -3.7439f ? -3.7439f : x > 3.7439f ? 3.7439f : x;
#endif
  float s = x * x;
  float p = 0.00022905065861350646f;
  p = p * s + 0.0034082910107109506f;
  p = p * s + 0.050955695062380861f;
  p = p * s + 0.18520832239976145f;
  p = p * s + 1.128379143519084f;
  float q = -1.1791602954361697e-7f;
  q = q * s + 0.000023547966471313185f;
  q = q * s + 0.0010179625278914885f;
  q = q * s + 0.014070470171167667f;
  q = q * s + 0.11098505178285362f;
  q = q * s + 0.49746925110067538f;
  q = q * s + 1.0f;
  return __fdividef(x * p, q);
}}
"""

WIDEN = "tvm_stitch_widen"
# A bfloat16 is the upper half of a float32. Taken from a pair, either is one instruction, where the
# upper of a pair takes two if it is cut out first.
WIDEN_SOURCE = f"""
__device__ __forceinline__ float {WIDEN}(const nv_bfloat16* tile, int element) {{
  unsigned pair = ((const unsigned*)tile)[element >> 1];
  return __uint_as_float(element & 1 ? pair & 0xffff0000u : pair << 16);
}}
"""


def is_coarse(program: Program) -> bool:
    """Whether all results are rounded to 16 bits."""
    return all(dtype_of(buffer) in ("float16", "bfloat16") for buffer in program.outputs)


def quick(value: Expr, coarse: bool) -> Expr:
    """The same value; if it is `coarse`, with functions that are as exact as 16 bits show."""

    def call(node: Expr) -> Expr:
        if not coarse or getattr(node.op, "name", "") != "tirx.erf" or dtype_of(node) != "float32":
            return node
        (at,) = node.args
        return T.cuda.func_call(ERF, at, source_code=ERF_SOURCE, return_type="float32")

    def cast(node: Expr) -> Expr:
        load = node.value
        if dtype_of(node) != "float32" or not _of_pair(load):
            return node
        tile, (element,) = load.source, load.indices
        args = tile.ptr_to([tirx.IntImm("int64", 0)]), element.astype("int32")
        return T.cuda.func_call(WIDEN, *args, source_code=WIDEN_SOURCE, return_type="float32")

    return tvm_ffi.structural_map(value, [(ir.Call, call), (tirx.Cast, cast)])


def _of_pair(load: Expr) -> bool:
    """Whether it loads one of a thread's own bfloat16 values, of which there are pairs."""
    if not isinstance(load, ir.TensorLoad) or dtype_of(load) != "bfloat16":
        return False
    size = constant(buffer_shape(load.source)[0])
    return load.source.ty.storage_scope == "local" and size is not None and size % 2 == 0
