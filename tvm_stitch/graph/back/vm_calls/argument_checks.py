"""What TVM's virtual machine asks of a function's arguments, in one host function.

In: what every argument must be. Out: a PrimFunc for the host, in the calling convention of packed
functions, with assertions for each demand. Must not know what the function does with them.

TVM has a builtin for every demand. A call of one takes a tenth of a microsecond and more, these
assertions some nanoseconds. Where the arguments lie is asked here as well for kernels that do not
ask it themselves (executable/link.py).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.graph.back.vm_calls.packed_functions import (
    BITS,
    BYTE_OFFSET,
    CODE,
    DEVICE_ID,
    DEVICE_TYPE,
    DLTENSOR,
    INT64_ELEMENT,
    LANES,
    NDIM,
    SHAPE,
    STRIDES,
    TENSOR,
    Parameters,
    field,
    packed_functions,
)
from tvm_stitch.stages.stage import Expr

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
    name: str, demands: list[Demand], multiprocessors: int = 0, for_kernels: bool = False
) -> dict[str, tirx.PrimFunc]:
    """A host function of as many arguments as demands, which raises what TVM's builtins raise.

    It raises as well where the first argument's GPU has fewer multiprocessors than needed; and
    `for_kernels`, where tensors are not compact.
    """
    parameters = Parameters()
    assertions = [
        assertion
        for number, demand in enumerate(demands)
        for assertion in _assertions(parameters, number, demand, for_kernels)
    ]
    if multiprocessors and demands:
        assertions.append(_has_multiprocessors(assertions[1].var, multiprocessors))
    return packed_functions(name, parameters, assertions)


def _assertions(
    parameters: Parameters, number: int, demand: Demand, for_kernels: bool
) -> Iterator[tirx.Stmt]:
    handle, kind = parameters.arguments.ty, parameters.type_of(number)
    is_tensor = tirx.any(kind == TENSOR, kind == DLTENSOR)
    yield _assert("TypeError", is_tensor, demand, "expect a Tensor")
    tensor = tirx.Var(f"tensor_{number}", "handle")
    yield tirx.Bind(tensor, parameters.tensor(number))
    as_wanted, words = _has_dtype(tensor, demand.dtype), f"expect Tensor with dtype {demand.dtype}"
    if demand.ndim is not None:
        as_wanted = tirx.all(as_wanted, field(tensor, 0, NDIM, "int32") == demand.ndim)
        words += f" and ndim {demand.ndim}"
    yield _assert("ValueError", as_wanted, demand, words)
    if demand.shape:
        lengths = field(tensor, 0, SHAPE, handle)
        as_long = (
            field(lengths, axis, INT64_ELEMENT, "int64") == tirx.IntImm("int64", length)
            for axis, length in enumerate(demand.shape)
        )
        words = f"match_cast error, expect shape {list(demand.shape)}"
        yield _assert("RuntimeError", tirx.all(*as_long), demand, words)
    if for_kernels:
        yield from _lies_as_kernels_want(demand, tensor)


def _lies_as_kernels_want(demand: Demand, tensor: tirx.Var) -> Iterator[tirx.Stmt]:
    """Compact, and from its first byte on: which device it is on, kernels ask themselves."""
    handle = tensor.ty
    lengths, strides = field(tensor, 0, SHAPE, handle), field(tensor, 0, STRIDES, handle)
    one = wanted = tirx.IntImm("int64", 1)
    compact: list[Expr] = []
    for axis in reversed(range(demand.ndim or 0)):
        length = field(lengths, axis, INT64_ELEMENT, "int64")
        stride = field(strides, axis, INT64_ELEMENT, "int64")
        # Of one or of none it does not matter how far apart they are.
        compact.append(tirx.any(stride == wanted, length <= one, wanted == 0))
        wanted = wanted * length
    if compact:
        words = "expect a compact Tensor: copy it, as PyTorch's contiguous() does"
        is_known = tirx.Not(tirx.isnullptr(strides))
        yield tirx.IfThenElse(
            is_known, _assert("ValueError", tirx.all(*compact), demand, words), None
        )
    starts = field(tensor, 0, BYTE_OFFSET, "uint64") == tirx.IntImm("uint64", 0)
    yield _assert("ValueError", starts, demand, "expect a Tensor without a byte offset")


def _has_multiprocessors(tensor: tirx.Var, needed: int) -> tirx.Stmt:
    """The GPU must hold all blocks of a kernel at once, or the driver refuses to launch it."""
    number = field(tensor, 0, DEVICE_ID, "int32")
    count = tirx.call_packed("runtime.GetDeviceAttr", CUDA, number, MULTIPROCESSORS)
    words = (
        f"this module was compiled for a GPU of at least {needed} multiprocessors, all of which "
        "synchronise in one of its kernels, and this one has fewer: compile it on this machine, "
        'or for a target whose attribute "model" names this GPU (tvm_stitch.device)'
    )
    enough = tirx.Cast("int32", count) >= needed
    refusal = tirx.AssertStmt(enough, tvm.ir.StringImm("RuntimeError"), [tvm.ir.StringImm(words)])
    return tirx.IfThenElse(field(tensor, 0, DEVICE_TYPE, "int32") == CUDA, refusal, None)


def _has_dtype(tensor: tirx.Var, dtype: str) -> Expr:
    wanted = tvm_ffi.dtype(dtype)
    return tirx.all(
        field(tensor, 0, CODE, "uint8") == tirx.IntImm("uint8", wanted.type_code),
        field(tensor, 0, BITS, "uint8") == tirx.IntImm("uint8", wanted.bits),
        field(tensor, 0, LANES, "uint16") == tirx.IntImm("uint16", wanted.lanes),
    )


def _assert(kind: str, condition: Expr, demand: Demand, text: str) -> tirx.Stmt:
    parts = [tvm.ir.StringImm(part) for part in (demand.context, text)]
    return tirx.AssertStmt(condition, tvm.ir.StringImm(kind), parts)
