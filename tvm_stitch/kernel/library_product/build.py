"""Matrix products as calls of cuBLASLt: stages in, a function of the host out, or why not.

The function has the parameters of the fused one and a workspace, as a kernel of this package may,
and takes its place; it calls the shim (library/), which has the library launch its kernel.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.codegen.prim_func import kernel_function
from tvm_stitch.kernel.ir.mapping import LIBRARY
from tvm_stitch.kernel.library_product.cost import library_us
from tvm_stitch.kernel.library_product.epilogue import (
    GELU,
    NONE,
    RELU,
    LibraryEpilogue,
    library_epilogue,
)
from tvm_stitch.kernel.library_product.matrices import Batches, batches
from tvm_stitch.kernel.tensor_core.program import TensorProduct, tensor_product
from tvm_stitch.library import shim
from tvm_stitch.library.locate import CUBLASLT, is_off
from tvm_stitch.stages.stage import Expr, Refused, Stage, Var, dtype_of, element_bytes

LIBRARY_ATTRIBUTE = "tvm_stitch.library"
MULTIPLIED = ("float32", "float16", "bfloat16")
# What NVIDIA recommends on Hopper; memory planning lets all calls share it.
WORKSPACE_BYTES = 32 << 20
_CODES = {NONE: 0, RELU: 1, GELU: 2}  # of activations, as the shim has them


@dataclass(frozen=True, eq=False)
class LibraryKernel:
    """A product, how its factors lie in memory, what it ends with, and what that should take."""

    product: TensorProduct
    batches: Batches
    epilogue: LibraryEpilogue
    cost_us: float

    def __str__(self) -> str:
        ending = f", {self.epilogue}" if str(self.epilogue) else ""
        return f"{CUBLASLT.title}{ending}"


class LibraryMissing(Refused):
    """The library has such a product, but is not on this machine; the reason says what to do."""


def library_kernel(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...], device: Device, schemes: Sequence[str]
) -> LibraryKernel | Refused:
    """The product that stages are, by the library; or why it cannot be."""
    if LIBRARY not in schemes or is_off():
        return Refused("libraries are switched off")
    found = _readable(stages, outputs, device)
    if isinstance(found, Refused):
        return found
    missing = shim.unusable(CUBLASLT)
    return found if missing is None else LibraryMissing(missing)


def _readable(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...], device: Device
) -> LibraryKernel | Refused:
    product = tensor_product(stages, outputs, MULTIPLIED, fewest_rows=1)
    if isinstance(product, Refused):
        return product
    output = dtype_of(product.outputs[0])
    if output not in ("float32", product.multiplied):
        return Refused(f"the library has no products of {product.multiplied} in {output}")
    found = batches(product)
    if isinstance(found, Refused):
        return found
    epilogue = library_epilogue(product)
    if isinstance(epilogue, Refused):
        return epilogue
    cost = found.calls * library_us(replace(product, entries=found.batch), device)
    return LibraryKernel(product, found, epilogue, cost)


def library_function(func: tirx.PrimFunc, kernel: LibraryKernel) -> tirx.PrimFunc:
    """The function that calls the library, in place of the fused one that it was read from."""
    workspace = tirx.decl_buffer((WORKSPACE_BYTES,), "uint8", "workspace")
    call = _with_plain_types(f"{shim.PREFIX}matmul", _arguments(kernel, workspace))
    found = kernel_function(func, tirx.Evaluate(call), workspaces=[workspace])
    described = {"function": "matmul", "epilogue": str(kernel.epilogue)}
    return found.with_attr(LIBRARY_ATTRIBUTE, json.dumps(described))


def _arguments(kernel: LibraryKernel, workspace: Var) -> list[Expr]:
    """In the order of the shim's function."""
    product, epilogue, found = kernel.product, kernel.epilogue, kernel.batches
    tensors = [product.left.buffer, product.right.buffer, epilogue.bias, epilogue.residual]
    nothing = tirx.reinterpret("handle", tirx.const(0, "uint64"))
    types = [8 * element_bytes(product.left.buffer), 8 * element_bytes(product.outputs[0])]
    is_bfloat = product.multiplied == "bfloat16"
    sizes = [found.calls, found.batch, product.rows, product.columns, product.contracted]
    for factor in (found.left, found.right):
        sizes += [factor.start, int(factor.by_depth), factor.line, factor.stride, factor.leap]
    sizes += [found.stride, found.leap, _CODES[epilogue.activation]]
    return [
        *(nothing if tensor is None else tensor for tensor in tensors),
        product.outputs[0],
        workspace,
        *(tirx.IntImm("int64", size) for size in (*types, int(is_bfloat), *sizes)),
        tirx.FloatImm("float64", epilogue.scale),
    ]


def _with_plain_types(name: str, arguments: Sequence[Expr]) -> Expr:
    """A call with bfloat16 tensors described as integers of the same size.

    TVM's lowering of bfloat16 changes the type in the description, but not the tensor.
    """

    def plain(call: tvm.ir.Call) -> tvm.ir.Call:
        if getattr(call.op, "name", "") != "tirx.tvm_stack_make_array":
            return call
        *before, element, offset = call.args
        if dtype_of(element) != "bfloat16":
            return call
        changed = [*before, tirx.const(0, "uint16"), offset]
        return tvm.ir.Call(call.op, changed, ret_ty=call.ty)

    return tvm_ffi.structural_map(tirx.call_packed(name, *arguments), (tvm.ir.Call, plain))
