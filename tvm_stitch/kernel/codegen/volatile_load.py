"""Loads that are issued where they stand.

In: a load of what nobody writes while the kernel runs. Out: an expression for the same value. The
CUDA compiler moves such a load down to where its value is used, behind a barrier or a long sum if
need be, and the memory's latency is then waited for. It moves no volatile assembly.
"""

from __future__ import annotations

from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.stages.stage import Expr, dtype_of, item_bytes

# By bytes: the type of the bits, PTX's name for it, and the constraint of such a register.
_BITS = {2: ("unsigned short", "uint16", "b16", "h"), 4: ("unsigned", "uint32", "b32", "r")}
_SOURCE = """
__device__ __forceinline__ {type} {name}(const void* from) {{
  {type} bits;
  asm volatile("ld.global.{ptx} %0, [%1];" : "={register}"(bits) : "l"(from));
  return bits;
}}
"""


def can_load_now(dtype: str) -> bool:
    """Whether there is such a load."""
    return dtype != "bool" and item_bytes(dtype) in _BITS


def load_now(load: Expr) -> Expr:
    """The value of a load from device memory."""
    dtype = dtype_of(load)
    kind, bits, ptx, register = _BITS[item_bytes(dtype)]
    name = f"tvm_stitch_load_{ptx}"
    source = _SOURCE.format(type=kind, name=name, ptx=ptx, register=register)
    address = load.source.ptr_to(list(load.indices))
    loaded = T.cuda.func_call(name, address, source_code=source, return_type=bits)
    return tirx.reinterpret(dtype, loaded)
