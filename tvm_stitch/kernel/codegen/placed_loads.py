"""Loads that are issued where they stand, or before the condition that they stand behind.

In: a load of what nobody writes while the kernel runs. Out: an expression for the same value, or a
call that loads a vector where a condition holds. The CUDA compiler moves such a load down to where
its value is used, behind a barrier or a long sum if need be, and the memory's latency is then
waited for; those of several conditions it makes branches of, each with its addresses, which wait
one for the other. It moves no volatile assembly.

In: a kernel's statements. Out: the same, in which no Select of what is likely is a branch.
"""

from __future__ import annotations

from functools import reduce

import ml_dtypes
import numpy as np
import tvm
from tvm import tirx
from tvm.script import tirx as T
from tvm.tirx import ForKind

from tvm_stitch.kernel.codegen.bfloat16 import BFLOAT16, takes_half
from tvm_stitch.stages.guards import conjuncts, is_branch
from tvm_stitch.stages.stage import Expr, Var, dtype_of, item_bytes
from tvm_stitch.stages.symbolic_analyzer import int64
from tvm_stitch.stages.visit import mapped, walked

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
# Names of loads behind a condition, which leave registers as they are or fill them.
_PREDICATED, _IF, _FILLED = "tvm_stitch_load_vector_", "_if", "_or"
KEPT = -1  # in place of what fills registers: they have what another load gave them
# By bytes: how PTX calls a vector of registers that a load fills, beyond one.
_VECTORS = {4: "", 8: ".v2", 16: ".v4"}
_PREDICATED_SOURCE = """
__device__ __forceinline__ void {name}(void* into, const void* from, int exists{parameter}) {{
  unsigned* to = (unsigned*)into;
  asm volatile("{{ .reg .pred exists; setp.ne.s32 exists, %{exists}, 0; {fills}"
               "@exists ld.global{vector}.b32 {registers}, [%{count}]; }}"
               : {outputs} : "l"(from), "r"(exists){operand});
}}
"""
# Of a Select that loads TVM makes a branch, even if it loads of registers.
_CHOOSE = "tvm_stitch_choose"
_CHOOSE_SOURCE = f"""
template <typename T>
__device__ __forceinline__ T {_CHOOSE}(int condition, T one, T other) {{
  return condition ? one : other;
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


def can_be_predicated(dtype: str, lanes: int, into: Expr) -> bool:
    """Whether there is such a load of so many elements, to a place among a thread's own."""
    if lanes * item_bytes(dtype) not in _VECTORS:
        return False
    return bool(tvm.sym.Analyzer().can_prove_equal(tirx.floormod(into, lanes), 0))


def bits_of(dtype: str, fill: Expr | None) -> int | None:
    """What fills 32 bits where nothing is loaded, or KEPT; None: nothing that is known.

    Of what is not used either: registers that a predicated load alone defines are none at all where
    it does not load, and ptxas of CUDA 13 makes of a choice by the same predicate what it likes (an
    H200's depthwise convolutions behind a norm had other rows in place of their padding).
    """
    if fill is None:
        return 0
    if fill is KEPT:
        return KEPT
    if item_bytes(dtype) > 4 or not isinstance(fill, tirx.FloatImm):
        return None
    each = np.array(fill.value, ml_dtypes.bfloat16 if dtype == BFLOAT16 else dtype).tobytes()
    return int.from_bytes(each * (4 // len(each)), "little")


def load_if(exists: Expr, address: Expr, into: Expr, lanes: int, dtype: str, bits: int) -> Expr:
    """A call that loads so many elements into registers where a condition holds.

    Else they are filled with 32 bits again and again, or stay what they are if these are KEPT.
    """
    size, keeps = lanes * item_bytes(dtype), bits == KEPT
    count, vector = size // 4, _VECTORS[size]
    registers = ", ".join(f"%{n}" for n in range(count))
    name = f"{_PREDICATED}{size}{_IF if keeps else _FILLED}"
    fills = "" if keeps else " ".join(f"mov.b32 %{n}, %{count + 2};" for n in range(count)) + " "
    source = _PREDICATED_SOURCE.format(
        name=name,
        parameter="" if keeps else ", unsigned fill",
        exists=count + 1,
        fills=fills,
        vector=vector,
        registers=f"{{{registers}}}" if vector else registers,
        count=count,
        outputs=", ".join(f'"{"+r" if keeps else "=&r"}"(to[{n}])' for n in range(count)),
        operand="" if keeps else ', "r"(fill)',
    )
    given = [into, address, _at_once(exists).astype("int32")]
    given += [] if keeps else [tirx.IntImm("uint32", bits)]
    return T.cuda.func_call(name, *given, source_code=source)


def without_predicated_halves(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """The kernel in which loads of bfloat16 behind conditions are branches again.

    For GPUs that keep it as float32, into which no bytes of memory can be loaded as they are.
    """

    def branch(evaluated: tirx.Evaluate) -> tirx.Stmt:
        call = evaluated.value
        name = call.args[0].value if _is_predicated(call) else ""
        if not name or dtype_of(call.args[1].args[0]) != BFLOAT16:
            return evaluated
        into, source = (call.args[n].args[0] for n in (1, 2))
        lane = tirx.Var("lane", "int64")
        (first,), (place,) = into.indices, source.indices
        lanes = int(name.split("_")[-2]) // item_bytes(BFLOAT16)

        def stored(value: Expr) -> tirx.Stmt:
            store = tirx.BufferStore(into.source, value, [first + lane])
            return tirx.For(lane, int64(0), int64(lanes), ForKind.VECTORIZED, store)

        otherwise = None
        if name.endswith(_FILLED):
            bits = int(call.args[4]).to_bytes(4, "little")[: item_bytes(BFLOAT16)]
            number = float(np.frombuffer(bits, ml_dtypes.bfloat16)[0])
            otherwise = stored(tirx.const(number, BFLOAT16))
        return tirx.IfThenElse(call.args[3] != 0, stored(source.source[place + lane]), otherwise)

    return kernel.with_body(mapped(kernel.body, (tirx.Evaluate, branch)))


def _is_predicated(call: Expr) -> bool:
    name = call.args[0] if isinstance(call, tvm.ir.Call) and len(call.args) > 0 else None
    return isinstance(name, tvm.ir.StringImm) and name.value.startswith(_PREDICATED)


def chosen_at_once(value: Expr) -> Expr:
    """A value in which what only registers and conditions one behind the other decide is no branch.

    The CUDA compiler makes branches of such conditions, which neighbours take apart if a thread's
    own elements are asked: gradients of max pooling took 120 instructions an element.
    """

    def chosen(node: Expr) -> Expr:
        parts = _of_choice(node)
        if parts is None or not isinstance(parts[0], tirx.And) or not _is_of_registers(node):
            return node
        return mapped(node, (tirx.Select, _as_call), (tvm.ir.Call, _as_call))

    return mapped(value, (tirx.Select, chosen), (tvm.ir.Call, chosen), pre=True)


def _as_call(node: Expr) -> Expr:
    """A choice as a call that is given both values."""
    parts = _of_choice(node)
    if parts is None:
        return node
    arguments = [_at_once(parts[0]).astype("int32"), *parts[1:]]
    return T.cuda.func_call(
        _CHOOSE, *arguments, source_code=_CHOOSE_SOURCE, return_type=dtype_of(node)
    )


def _of_choice(node: Expr) -> list[Expr] | None:
    """The condition and the two values of a branch or a Select."""
    if isinstance(node, tirx.Select):
        return [node.condition, node.true_value, node.false_value]
    return list(node.args) if isinstance(node, tvm.ir.Call) and is_branch(node) else None


def _at_once(condition: Expr) -> Expr:
    """A condition all of whose parts are asked, whichever of them fails."""
    return reduce(tirx.bitwise_and, conjuncts(condition))


def _is_of_registers(node: Expr) -> bool:
    """Whether a choice is between a thread's own elements, with next to nothing to compute."""
    own: list[bool] = []
    costly: list[Expr] = []

    def call(each: Expr) -> None:
        if not (is_branch(each) or takes_half(each) or _is_address(each)):
            costly.append(each)

    walked(
        node,
        (tvm.ir.TensorLoad, lambda load: own.append(load.source.ty.storage_scope == "local")),
        (tvm.ir.Call, call),
        (tirx.Div, costly.append),
        (tirx.Let, costly.append),
    )
    return bool(own) and all(own) and not costly


def _is_address(call: Expr) -> bool:
    return bool(getattr(call.op, "name", "").endswith("address_of"))


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
