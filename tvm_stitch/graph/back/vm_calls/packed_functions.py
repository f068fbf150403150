"""Host functions in the calling convention of packed functions, as MakePackedAPI would leave them.

In: assertions and other statements over the arguments. Out: PrimFuncs that the virtual machine
calls for a few nanoseconds, where a builtin of TVM's takes a tenth of a microsecond and more.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, count

import tvm
from tvm import tirx

from tvm_stitch.stages.stage import Expr

# What tvm_struct_get reads (TVM's StructFieldKind): of a tensor, of an argument, of an array.
SHAPE, STRIDES, NDIM, CODE, BITS, LANES, BYTE_OFFSET, DEVICE_ID, DEVICE_TYPE = range(2, 11)
TYPE_INDEX, VALUE = 13, 15
INT64_ELEMENT = 17
# Type indices of tvm-ffi: an integer; a bare DLTensor, and a managed tensor, whose DLTensor follows
# a header.
INTEGER, DLTENSOR, TENSOR = 1, 7, 70
HEADER_BYTES = 24
_PACKED_CONVENTION = 1


class Parameters:
    """Of every packed function: itself, the arguments, how many, and where the result goes."""

    def __init__(self) -> None:
        self.arguments = tirx.Var("arguments", "handle")
        self.result = tirx.Var("result", "handle")
        self.all = [
            tirx.Var("self", "handle"), self.arguments, tirx.Var("count", "int32"), self.result
        ]  # fmt: skip

    def type_of(self, number: int) -> Expr:
        """The type index of an argument."""
        return field(self.arguments, number, TYPE_INDEX, "int32")

    def tensor(self, number: int) -> Expr:
        """The address of the DLTensor that an argument is, or holds."""
        handle = self.arguments.ty
        header = tirx.Cast("int32", self.type_of(number) == TENSOR) * HEADER_BYTES
        value = field(self.arguments, number, VALUE, handle)
        return tirx.call_intrin(handle, "tirx.handle_add_byte_offset", value, header)


def field(handle: Expr, index: int, which: int, dtype: object) -> Expr:
    """A field of the tensor, argument or array behind an address."""
    return tirx.call_intrin(dtype, "tirx.tvm_struct_get", handle, index, which)


def packed_functions(
    name: str, parameters: Parameters, body: Iterable[tirx.Stmt]
) -> dict[str, tirx.PrimFunc]:
    """A host function with that body; the virtual machine finds it by its symbol.

    Where TVM compiles Relax functions instead (exec_mode="compiled"), it takes the symbol of the
    function of that name and puts the prefix before it once more: the second function, which nobody
    calls, is there to have that symbol.
    """
    return {
        f"{name}_called": _packed(f"__tvm_ffi_{name}", parameters, list(body)),
        name: _packed(name, parameters, []),
    }


def free_name(mod: tvm.IRModule, wish: str) -> str:
    """The wish, or it with a number, that no name in the module begins with."""
    taken = [var.name_hint for var in mod.get_global_vars()]
    candidates = chain([wish], (f"{wish}_{number}" for number in count(1)))
    return next(c for c in candidates if not any(name.startswith(c) for name in taken))


def _packed(symbol: str, parameters: Parameters, body: list[tirx.Stmt]) -> tirx.PrimFunc:
    done = tirx.Return(tirx.IntImm("int32", 0))
    whole = tirx.SeqStmt([*body, done]) if body else done
    function = tirx.PrimFunc(parameters.all, whole, tvm.ir.PrimType("int32"))
    attributes = {
        "global_symbol": symbol,
        "calling_conv": _PACKED_CONVENTION,
        "tirx.is_host_func": True,
    }
    return function.with_attrs(attributes)
