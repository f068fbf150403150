"""Two sums of tensor cores rounded by one instruction.

In: a Writer, two sums and where the halves go. What is rounded by itself ptxas 13.0 moves in front
of the wait for the sums, or, where it sees that, it waits behind every product (C7514).
"""

from __future__ import annotations

from tvm.script import tirx as T

from tvm_stitch.kernel.codegen.tir_builder import Writer
from tvm_stitch.stages.stage import Expr, Var, dtype_of
from tvm_stitch.stages.symbolic_analyzer import int64


def round_pair(writer: Writer, low: Expr, high: Expr, to: Var) -> None:
    """Both, to the first two elements of a buffer of halves."""
    dtype = dtype_of(to)
    scalar, pair = ("half", "half2") if dtype == "float16" else ("nv_bfloat16", "bfloat162")
    name = f"tvm_stitch_round_{pair}"
    source = f"""
__forceinline__ __device__ void {name}(float low, float high, {scalar}& to, {scalar}& beside) {{
  auto pair = __float22{pair}_rn(make_float2(low, high));
  to = pair.x;
  beside = pair.y;
}}
"""
    places = (to[int64(0)], to[int64(1)])
    writer.call(T.cuda.func_call(name, low, high, *places, source_code=source))
