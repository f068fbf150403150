"""What TVM's virtual machine asks of a function's arguments, in one host function.

In: what every argument must be. Out: a PrimFunc for the host, in the calling convention of packed
functions, with assertions for each demand. Must not know what the function does with them.

TVM has a builtin for every demand. A call of one takes a tenth of a microsecond and more, these
assertions some nanoseconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.stages.stage import Expr

# What tvm_struct_get reads (TVM's StructFieldKind): of a tensor, of an argument, of an array.
SHAPE, NDIM, CODE, BITS, LANES, DEVICE_ID, DEVICE_TYPE = 2, 4, 5, 6, 7, 9, 10
TYPE_INDEX, VALUE = 13, 15
INT64_ELEMENT = 17
# Type indices of tvm-ffi: a bare DLTensor, and a managed tensor, whose DLTensor follows a header.
DLTENSOR, TENSOR = 7, 70
HEADER_BYTES = 24
PACKED_CONVENTION = 1
# TVM's numbers of CUDA among devices, and of the count of multiprocessors among what they say.
CUDA, MULTIPROCESSORS = 2, 7


@dataclass(frozen=True)
class Demand:
    """A tensor of that dtype, and of that rank and shape where they are known.

    `context` is what TVM puts before the message of such an error.
    """

    context: str
    ndim: int | None
    dtype: str
    shape: tuple[int, ...] = ()


def check_functions(
    name: str, demands: list[Demand], multiprocessors: int = 0
) -> dict[str, tirx.PrimFunc]:
    """A host function of as many arguments as demands, which raises what TVM's builtins raise.

    It raises as well where the first argument's GPU has fewer multiprocessors than needed.

    The virtual machine finds it by its symbol. Where TVM compiles Relax functions instead
    (exec_mode="compiled"), it takes the symbol of the function of that name and puts the prefix
    before it once more: the second function, which nobody calls, is there to have that symbol.
    """
    parameters = [
        tirx.Var("self", "handle"),
        arguments := tirx.Var("arguments", "handle"),
        tirx.Var("count", "int32"),
        tirx.Var("result", "handle"),
    ]
    assertions = [
        assertion
        for number, demand in enumerate(demands)
        for assertion in _assertions(arguments, number, demand)
    ]
    if multiprocessors and demands:
        assertions.append(_has_multiprocessors(assertions[1].var, multiprocessors))
    return {
        f"{name}_checked": _packed(f"__tvm_ffi_{name}", parameters, assertions),
        name: _packed(name, parameters, []),
    }


def _packed(symbol: str, parameters: list[tirx.Var], body: list[tirx.Stmt]) -> tirx.PrimFunc:
    """A host function that is as MakePackedAPI would leave it."""
    done = tirx.Return(tirx.IntImm("int32", 0))
    whole = tirx.SeqStmt([*body, done]) if body else done
    function = tirx.PrimFunc(parameters, whole, tvm.ir.PrimType("int32"))
    attributes = {
        "global_symbol": symbol,
        "calling_conv": PACKED_CONVENTION,
        "tirx.is_host_func": True,
    }
    return function.with_attrs(attributes)


def _assertions(arguments: tirx.Var, number: int, demand: Demand) -> Iterator[tirx.Stmt]:
    handle = arguments.ty
    kind = _field(arguments, number, TYPE_INDEX, "int32")
    is_tensor = tirx.any(kind == TENSOR, kind == DLTENSOR)
    yield _assert("TypeError", is_tensor, demand, "expect a Tensor")
    tensor = tirx.Var(f"tensor_{number}", "handle")
    header = tirx.Cast("int32", kind == TENSOR) * HEADER_BYTES
    value = _field(arguments, number, VALUE, handle)
    yield tirx.Bind(tensor, tirx.call_intrin(handle, "tirx.handle_add_byte_offset", value, header))
    as_wanted, words = _has_dtype(tensor, demand.dtype), f"expect Tensor with dtype {demand.dtype}"
    if demand.ndim is not None:
        as_wanted = tirx.all(as_wanted, _field(tensor, 0, NDIM, "int32") == demand.ndim)
        words += f" and ndim {demand.ndim}"
    yield _assert("ValueError", as_wanted, demand, words)
    if demand.shape:
        lengths = _field(tensor, 0, SHAPE, handle)
        as_long = (
            _field(lengths, axis, INT64_ELEMENT, "int64") == tirx.IntImm("int64", length)
            for axis, length in enumerate(demand.shape)
        )
        words = f"match_cast error, expect shape {list(demand.shape)}"
        yield _assert("RuntimeError", tirx.all(*as_long), demand, words)


def _has_multiprocessors(tensor: tirx.Var, needed: int) -> tirx.Stmt:
    """The GPU must hold all blocks of a kernel at once, or the driver refuses to launch it."""
    number = _field(tensor, 0, DEVICE_ID, "int32")
    count = tirx.call_packed("runtime.GetDeviceAttr", CUDA, number, MULTIPROCESSORS)
    words = (
        f"this module was compiled for a GPU of at least {needed} multiprocessors, all of which "
        "meet in one of its kernels, and this one has fewer: compile it on this machine, or for a "
        'target whose attribute "model" names this GPU (tvm_stitch.device)'
    )
    enough = tirx.Cast("int32", count) >= needed
    refusal = tirx.AssertStmt(enough, tvm.ir.StringImm("RuntimeError"), [tvm.ir.StringImm(words)])
    return tirx.IfThenElse(_field(tensor, 0, DEVICE_TYPE, "int32") == CUDA, refusal, None)


def _field(handle: Expr, index: int, field: int, dtype: object) -> Expr:
    return tirx.call_intrin(dtype, "tirx.tvm_struct_get", handle, index, field)


def _has_dtype(tensor: tirx.Var, dtype: str) -> Expr:
    wanted = tvm_ffi.dtype(dtype)
    return tirx.all(
        _field(tensor, 0, CODE, "uint8") == tirx.IntImm("uint8", wanted.type_code),
        _field(tensor, 0, BITS, "uint8") == tirx.IntImm("uint8", wanted.bits),
        _field(tensor, 0, LANES, "uint16") == tirx.IntImm("uint16", wanted.lanes),
    )


def _assert(kind: str, condition: Expr, demand: Demand, text: str) -> tirx.Stmt:
    parts = [tvm.ir.StringImm(part) for part in (demand.context, text)]
    return tirx.AssertStmt(condition, tvm.ir.StringImm(kind), parts)
