"""Loads that are issued where they stand, or before the condition that they stand behind.

In: a load of what nobody writes while the kernel runs. Out: an expression for the same value. The
CUDA compiler moves such a load down to where its value is used, behind a barrier or a long sum if
need be, and the memory's latency is then waited for. It moves no volatile assembly.

In: a kernel's statements. Out: the same, in which no Select of what is likely is a branch.
"""

from __future__ import annotations

import tvm
from tvm import tirx
from tvm.script import tirx as T

from tvm_stitch.stages.stage import Expr, Var, dtype_of, item_bytes
from tvm_stitch.stages.visit import mapped

_LIKELY = tvm.ir.Op.get("prim.likely")
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


def with_likely_loads_first(body: tirx.Stmt) -> tirx.Stmt:
    """Statements in which what a Select loads if something likely holds is loaded in any case.

    Whoever calls a condition likely says that both sides can be computed always. TVM makes a branch
    of a Select that loads, and of several, one after the other, each load then waits for the one
    before it: 64 for an element of deformable attention took 280 us on an H200.
    """

    def known(select: tirx.Select) -> Expr:
        if not is_likely(select.condition):
            return select
        names: list[tuple[Var, Expr]] = []

        def name(value: Expr, of: str) -> Var:
            names.append((tirx.Var(of, dtype_of(value)), value))
            return names[-1][0]

        def ahead(load: Expr) -> Expr:
            if load.source.ty.storage_scope != "global":
                return load
            # Of a sum in 32 bits TVM would make one of 64, whose parts are in 32.
            indices = [
                name(each.value, "place").astype(dtype_of(each))
                if isinstance(each, tirx.Cast) else each
                for each in load.indices
            ]  # fmt: skip
            return name(load.source[indices], "ahead")

        def outwards(let: tirx.Let) -> Expr:  # of a Select in this one, the last one first
            names.insert(0, (let.var, let.value))
            return let.body

        sides = [
            mapped(side, (tirx.Let, outwards)) for side in (select.true_value, select.false_value)
        ]
        sides = [mapped(side, (tvm.ir.TensorLoad, ahead)) for side in sides]
        value: Expr = tirx.Select(select.condition.args[0], *sides)
        for var, bound in reversed(names):
            value = tirx.Let(var, bound, value)
        return value

    return mapped(body, (tirx.Select, known))


def is_likely(condition: Expr) -> bool:
    """Whether whoever wrote a condition called it likely."""
    return isinstance(condition, tvm.ir.Call) and condition.op.same_as(_LIKELY)
