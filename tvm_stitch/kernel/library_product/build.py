"""Matrix products as calls of cuBLASLt: stages in, a function of the host out, or why not.

The function has the parameters of the fused one and a workspace, as a kernel of this package may,
and takes its place; it calls the shim (library/), which has the library launch its kernel.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.contiguity import Extent, is_at_least
from tvm_stitch.kernel.choose import Bounds
from tvm_stitch.kernel.codegen.prim_func import IN_PLACE_ATTRIBUTE, kernel_function
from tvm_stitch.kernel.ir.mapping import LIBRARY, TF32
from tvm_stitch.kernel.kernel import Implementation, Kernel, Missing
from tvm_stitch.kernel.library_product.cost import ending_us, library_us, timing_of
from tvm_stitch.kernel.library_product.epilogue import (
    GELU,
    MOST_STAGES,
    NONE,
    RELU,
    LibraryEpilogue,
    library_epilogue,
)
from tvm_stitch.kernel.library_product.matrices import Batches, batches
from tvm_stitch.kernel.tensor_core.program import TensorProduct, tensor_product
from tvm_stitch.library import shim
from tvm_stitch.library.locate import CUBLASLT, is_off
from tvm_stitch.stages.stage import (
    Expr,
    Refused,
    Stage,
    Var,
    as_int64,
    dtype_of,
    element_bytes,
    handle,
)

LIBRARY_ATTRIBUTE = "tvm_stitch.library"
MULTIPLIED = ("float32", "float16", "bfloat16")
# What NVIDIA recommends on Hopper; memory planning lets all calls share it.
WORKSPACE_BYTES = 32 << 20
# Matrices of unequal distances take a call for each part of their batch. Beyond so many times what
# one call would take TVM's kernels are faster: of 16 x 12 heads that lie side by side, products of
# 128 x 64 x 128 in float32, twelve calls take 88 us on an H200, TVM's kernel 25.
CALLS_AT_MOST = 2.5
_FUNCTION = f"{shim.PREFIX}matmul"
_CODES = {NONE: 0, RELU: 1, GELU: 2}  # of activations, as the shim has them


@dataclass(frozen=True, eq=False)
class LibraryKernel(Kernel):
    """A product, how its factors lie in memory, and what it ends with."""

    product: TensorProduct
    batches: Batches
    epilogue: LibraryEpilogue
    tf32: bool  # whether factors of float32 are rounded to 10 bits of mantissa
    # An activation is several operators, of which the library takes all or none.
    most_at_once: ClassVar[int] = MOST_STAGES

    @property
    def buffers(self) -> tuple[Var, ...]:
        """The tensors that it reads and writes."""
        return self.product.buffers

    @cached_property
    def cost_us(self) -> float:
        """What its calls should take, on average at the sizes that symbols may have."""
        return self.us(self.batches.calls, self.batches.batch)

    def us(self, calls: int, batch: Extent) -> float:
        """The same of so many calls of a batch each."""
        one, adds = replace(self.product, entries=batch), self.epilogue.residual is not None
        timing = timing_of(self.product, self.tf32, adds)
        return self.bounds.mean(
            lambda point: (
                calls * library_us(one, self.device, timing, point)
                + ending_us(self.product, self.epilogue, self.device, point)
            )
        )

    def check(self, _seen: set[Hashable] | None = None) -> None:
        """Nobody looks at what the library launches."""

    def emit(self, func: tirx.PrimFunc) -> tirx.PrimFunc:
        """The function that calls the library, with its name and what it ends with as JSON."""
        workspace = tirx.decl_buffer((WORKSPACE_BYTES,), "uint8", "workspace")
        call = _with_plain_types(_FUNCTION, self._arguments(workspace))
        found = kernel_function(func, tirx.Evaluate(call), workspaces=[workspace])
        pairs = self._overwritable(func)
        if pairs:
            found = found.with_attr(IN_PLACE_ATTRIBUTE, json.dumps(pairs))
        described = {"function": "matmul", "epilogue": str(self.epilogue), "tf32": self.tf32}
        return found.with_attr(LIBRARY_ATTRIBUTE, json.dumps(described))

    def _overwritable(self, func: tirx.PrimFunc) -> list[tuple[int, int]]:
        """What it adds, which the library lets the result be written over, and the result."""
        added, (result,) = self.epilogue.residual, self.product.outputs
        if added is None or dtype_of(added) != dtype_of(result):
            return []
        number = {handle(param): n for n, param in enumerate(func.params)}
        return [(number[handle(added)], number[handle(result)])]

    def _arguments(self, workspace: Var) -> list[Expr]:
        """In the order of the shim's function."""
        product, epilogue, found = self.product, self.epilogue, self.batches
        tensors = [product.left.buffer, product.right.buffer, epilogue.bias, epilogue.residual]
        nothing = tirx.reinterpret("handle", tirx.const(0, "uint64"))
        types = [8 * element_bytes(product.left.buffer), 8 * element_bytes(product.outputs[0])]
        is_bfloat = product.multiplied == "bfloat16"
        sizes = [found.calls, found.batch, product.rows, product.columns, product.contracted]
        for factor in (found.left, found.right):
            sizes += [factor.start, int(factor.by_depth), factor.line, factor.stride, factor.leap]
        sizes += [found.line, found.stride, found.leap, _CODES[epilogue.activation]]
        sizes += [int(self.tf32), int(False)]  # not by the clock
        return [
            *(nothing if tensor is None else tensor for tensor in tensors),
            product.outputs[0],
            workspace,
            *map(as_int64, (*types, int(is_bfloat), *sizes)),
            tirx.FloatImm("float64", epilogue.scale),
        ]


def library_kernel(
    stages: tuple[Stage, ...],
    outputs: tuple[Var, ...],
    device: Device,
    bounds: Bounds,
    schemes: Sequence[str],
) -> LibraryKernel | Refused:
    """The product that stages are, by the library; or why it cannot be."""
    if LIBRARY not in schemes or is_off():
        return Refused("libraries are switched off")
    found = _readable(stages, outputs, device, bounds, TF32 in schemes)
    if isinstance(found, Refused):
        return found
    missing = shim.unusable(CUBLASLT)
    return found if missing is None else Missing(missing)


def _readable(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...], device: Device, bounds: Bounds, tf32: bool
) -> LibraryKernel | Refused:
    first: Refused | None = None
    kernels: list[LibraryKernel] = []
    for read in _as_matrices(stages, outputs):
        made = read if isinstance(read, Refused) else _kernel(*read, device, bounds, tf32)
        if isinstance(made, Refused):
            first = first or made
        else:
            kernels.append(made)
    if not kernels:
        return first or Refused("a product of nothing")
    return min(kernels, key=lambda kernel: kernel.cost_us)


def _kernel(
    product: TensorProduct, found: Batches, device: Device, bounds: Bounds, tf32: bool
) -> LibraryKernel | Refused:
    output = dtype_of(product.outputs[0])
    if output not in ("float32", product.multiplied):
        return Refused(f"the library has no products of {product.multiplied} in {output}")
    epilogue = library_epilogue(product)
    if isinstance(epilogue, Refused):
        return epilogue
    tf32 = (tf32 and product.multiplied == "float32") or product.is_truncated
    kernel = LibraryKernel(device, bounds, product, found, epilogue, tf32)
    if found.calls > 1 and kernel.cost_us > CALLS_AT_MOST * kernel.us(1, product.entries):
        return Refused(f"the library would take {found.calls} calls")
    return kernel


def _as_matrices(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...]
) -> Iterator[tuple[TensorProduct, Batches] | Refused]:
    """The product by the ways in which its rows are matrices, as their places in memory allow.

    All rows as one matrix, or else several: of neighbouring rows, or of rows that are far apart.
    """
    axes = len(stages[0].axes)
    ways = (0, *range(1, axes), *range(-1, -axes, -1)) if stages[0].is_reduction else (0,)
    for batched in ways:
        product = tensor_product(stages, outputs, MULTIPLIED, fewest_rows=1, batched=batched)
        if isinstance(product, Refused):
            yield product
        elif product.ragged is not None:
            yield Refused("the library has no ragged products")
        elif not is_at_least(product.contracted, 1):
            yield Refused("its depth is known at run time only, and may be 0")
        else:
            found = batches(product)
            yield found if isinstance(found, Refused) else (product, found)
            if not batched and isinstance(found, Batches):
                return


def with_timed_algorithms(func: tirx.PrimFunc) -> tirx.PrimFunc:
    """A function whose products by the library, if it has any, take the fastest algorithm.

    Their first call finds it.
    """
    if LIBRARY_ATTRIBUTE not in func.attrs:
        return func

    def timed(call: tvm.ir.Call) -> tvm.ir.Call:
        if getattr(call.args[0] if call.args else None, "value", None) != _FUNCTION:
            return call
        *before, _, scale = call.args
        return tvm.ir.Call(call.op, [*before, as_int64(int(True)), scale], ret_ty=call.ty)

    return func.with_body(tvm_ffi.structural_map(func.body, (tvm.ir.Call, timed)))


CUBLASLT_PRODUCT = Implementation(LIBRARY_ATTRIBUTE, library_kernel, of_products=True, on_host=True)


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
