"""Pairs of halves in registers: as tensor cores take them, loaded from memory without a detour, and
as their sums are rounded.

In: flat views of tensors and places in them, or sums. Writes TIR into a Writer. Must not know what
the pairs are of.
"""

from __future__ import annotations

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.kernel.codegen.tir_builder import Writer
from tvm_stitch.kernel.tensor_core.program import WIDEST
from tvm_stitch.stages.stage import Expr, Var, buffer_size, dtype_of
from tvm_stitch.stages.symbolic_analyzer import int64

PAIR = "uint32"
PAIRS = WIDEST // 2  # of a load
LOW, HALF_BITS = 0xFFFF, 16
# A half, and a pair of them in the names of CUDA's functions.
_TYPES = {"float16": ("half", "half2"), "bfloat16": ("nv_bfloat16", "bfloat162")}


def load_pairs(
    writer: Writer,
    view: Var,
    place: Expr,
    to: Var,
    at: Expr,
    pairs: int,
    exists: Expr | None = None,
) -> None:
    """Neighbours of a tensor as pairs, from a register on; zeros where they do not exist."""
    source = writer.view(view, tirx.floordiv(buffer_size(view), 2), dtype=PAIR)
    first = tirx.floordiv(place, 2)
    if exists is not None:
        with writer.unrolled(pairs, "pair") as pair:
            writer.store(to, at + pair, tirx.const(0, PAIR))
    with writer.when(exists), writer.vectorized(pairs, "pair") as pair:
        writer.store(to, at + pair, source[first + pair])


def pair_of(low: Expr, high: Expr, upper: int) -> Expr:
    """The lower, or upper, halves of two pairs as a pair."""
    bits = tirx.const(HALF_BITS, PAIR)
    if upper:
        return (low >> bits) | (high & tirx.const(LOW << HALF_BITS, PAIR))
    return (low & tirx.const(LOW, PAIR)) | (high << bits)


def rounded_pair(low: Expr, high: Expr, dtype: str) -> Expr:
    """Two values of float32 as a pair of halves, by one instruction."""
    name = f"tvm_stitch_pair_of_{dtype}"
    source = f"""
__forceinline__ __device__ unsigned {name}(float low, float high) {{
  auto pair = __float22{_TYPES[dtype][1]}_rn(make_float2(low, high));
  return reinterpret_cast<unsigned&>(pair);
}}
"""
    return T.cuda.func_call(name, low, high, source_code=source, return_type=PAIR)


def round_pair(writer: Writer, low: Expr, high: Expr, to: Var) -> None:
    """Two sums of tensor cores rounded by one instruction, to the first two of a buffer of halves.

    What is rounded by itself ptxas 13.0 moves in front of the wait for the sums, or, where it sees
    that, it waits behind every product (C7514).
    """
    scalar, pair = _TYPES[dtype_of(to)]
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
