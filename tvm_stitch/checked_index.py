"""Indices that only running tells, checked where they are used, as PyTorch checks them.

In: an index and the extent that it has to be within, in TIR. Out: the same index, as a call that
stops the kernel where it is not: on a GPU by a trap, on the CPU (`on_host`) by an IndexError.
Must not know who asks.
"""

from __future__ import annotations

from typing import Any

import tvm
import tvm_ffi
from tvm import tirx
from tvm.ir import Call
from tvm.script import tirx as T

_NAME = "tvm_stitch_checked_index"
_ERROR = "tvm_stitch.index_error"
_CALL = "tirx.cuda.func_call"
TRAP = "__trap();  // an index out of bounds"
"""What the line says that is left when an index is out of bounds."""
_SOURCE = f"""
__device__ __forceinline__ long long {_NAME}(long long index, long long extent) {{
  if ((unsigned long long)index >= (unsigned long long)extent)
    {TRAP}
  return index;
}}
"""


def checked(index: Any, extent: Any) -> Any:
    """An int64 index that is known to be at least 0 and below the extent when it is used."""
    return T.cuda.func_call(_NAME, index, extent, source_code=_SOURCE, return_type="int64")


def on_host(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with its indices checked by what the CPU can call."""
    return tvm_ffi.structural_map(mod, (Call, _checked_on_host))


def OnHost() -> tvm.transform.Pass:
    """`on_host` as a pass."""

    @tvm.transform.module_pass(opt_level=0, name="CheckedIndexOnHost")
    def checked_on_host(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        return on_host(mod)

    return checked_on_host


def _checked_on_host(call: Call) -> Any:
    if getattr(call.op, "name", "") != _CALL or str(call.args[0].value) != _NAME:
        return call
    index, extent = call.args[1:3]
    inside = tirx.all(index >= tirx.const(0, "int64"), index < extent)
    raised = tirx.call_packed(_ERROR, index, extent).astype("int64")
    return tirx.if_then_else(inside, index, raised)


@tvm.register_global_func(_ERROR, override=True)
def _raise(index: int, extent: int) -> None:
    raise IndexError(f"index {index} is out of bounds for a dimension of {extent} elements")
