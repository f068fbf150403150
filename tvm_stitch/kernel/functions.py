"""Functions for results that are rounded to 16 bits: fewer instructions, digits enough.

In: an expression of a Program whose outputs are all halves. Out: the same with quicker functions.
"""

from __future__ import annotations

import tvm_ffi
from tvm import ir
from tvm.script import tirx as T

from tvm_stitch.kernel.program import Program
from tvm_stitch.kernel.stage import Expr, dtype_of

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


def is_coarse(program: Program) -> bool:
    """Whether all results are rounded to 16 bits."""
    return all(dtype_of(buffer) in ("float16", "bfloat16") for buffer in program.outputs)


def quick(value: Expr) -> Expr:
    """The same value with functions that are as exact as 16 bits show."""

    def visit(call: Expr) -> Expr:
        if getattr(call.op, "name", "") != "tirx.erf" or dtype_of(call) != "float32":
            return call
        (at,) = call.args
        return T.cuda.func_call(ERF, at, source_code=ERF_SOURCE, return_type="float32")

    return tvm_ffi.structural_map(value, (ir.Call, visit))
