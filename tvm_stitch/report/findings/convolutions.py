"""The report's entries for convolutions that cuDNN computes.

In: a lowered module. Out: a Kernel for every different call. Must not decide anything.
"""

from __future__ import annotations

from collections import Counter
from math import prod
from typing import Any

import tvm
from tvm import relax

from tvm_stitch.device import Device
from tvm_stitch.graph.front.decompose.stages import dtype_of, shape_of
from tvm_stitch.kernel.ir.mapping import LIBRARY
from tvm_stitch.library.convolution import NAME, Convolution, decoded
from tvm_stitch.library.locate import CUDNN
from tvm_stitch.report.data import Kernel
from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.stage import item_bytes

Shapes = tuple[tuple[int, ...], ...]
_Call = tuple[Convolution, str, Shapes]


def library_convolutions(mod: tvm.IRModule, device: Device, extents: Extents) -> tuple[Kernel, ...]:
    """The kernels that cuDNN launches for a module, as far as it says which."""
    counts: Counter[_Call] = Counter()

    def visit(expr: Any) -> None:
        is_packed = isinstance(expr, tvm.ir.Call) and isinstance(expr.op, relax.ExternFunc)
        if is_packed and str(expr.op.global_symbol) == NAME:
            counts[_read(expr, extents)] += 1

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    return tuple(
        _kernel(call, number, launches, device)
        for number, (call, launches) in enumerate(counts.items())
    )


def _read(call: tvm.ir.Call, extents: Extents) -> _Call:
    *tensors, numbers, result, _workspace = call.args
    shapes = tuple(
        tuple(int(extents.size(extent)) for extent in shape_of(each)) for each in (*tensors, result)
    )
    return decoded([int(number) for number in numbers.values]), str(dtype_of(result)), shapes


def _kernel(call: _Call, number: int, launches: int, device: Device) -> Kernel:
    convolution, dtype, shapes = call
    data, weight, *_ = ("x".join(map(str, shape)) for shape in shapes)
    least = sum(map(prod, shapes)) * item_bytes(dtype)
    return Kernel(
        name=f"convolution{number or ''}",
        ops=convolution.operators,
        scheme=LIBRARY,
        mapping=f"{CUDNN.title} maps it",
        bytes_min=least,
        bytes_planned=least,
        floor_us=least / device.bandwidth * 1e6,
        predicted_us=None,
        why=f"{dtype} of {data} and {weight} by {CUDNN.title}: {convolution}",
        launches=launches,
    )
