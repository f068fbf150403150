"""The report's entries for what cuDNN computes: convolutions and attention.

In: a lowered module. Out: a Kernel for every different call. Must not decide anything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import tvm
from tvm import relax

from tvm_stitch.device import Device
from tvm_stitch.graph.front.decompose.stages import dtype_of, shape_of
from tvm_stitch.kernel.ir.mapping import LIBRARY
from tvm_stitch.library import attention, convolution
from tvm_stitch.library.locate import CUDNN
from tvm_stitch.report.data import Kernel
from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.stage import item_bytes

What = convolution.Convolution | attention.Attention
Shapes = tuple[tuple[int, ...], ...]
_Call = tuple[str, What, str, Shapes]

DECODERS: dict[str, Callable[[Sequence[int]], What]] = {
    convolution.NAME: convolution.decoded,
    attention.NAME: attention.decoded,
}
"""What the numbers of a call say, by the packed function's name."""


def library_calls(mod: tvm.IRModule, device: Device, extents: Extents) -> tuple[Kernel, ...]:
    """The kernels that cuDNN launches for a module, as far as it says which."""
    counts: Counter[_Call] = Counter()

    def visit(expr: Any) -> None:
        is_packed = isinstance(expr, tvm.ir.Call) and isinstance(expr.op, relax.ExternFunc)
        if is_packed and str(expr.op.global_symbol) in DECODERS:
            counts[_read(expr, extents)] += 1

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    numbers = {name: iter(range(len(counts))) for name in DECODERS}
    return tuple(
        _kernel(call, next(numbers[call[0]]), launches, device) for call, launches in counts.items()
    )


def _read(call: tvm.ir.Call, extents: Extents) -> _Call:
    *tensors, numbers, result, _workspace = call.args
    shapes = tuple(
        tuple(int(extents.size(extent)) for extent in shape_of(each)) for each in (*tensors, result)
    )
    name = str(call.op.global_symbol)
    what = DECODERS[name]([int(number) for number in numbers.values])
    return name, what, str(dtype_of(result)), shapes


def _kernel(call: _Call, number: int, launches: int, device: Device) -> Kernel:
    name, what, dtype, shapes = call
    if isinstance(what, attention.Attention):
        of, elements = "", what.elements + sum(map(prod, shapes[3:-1]))
    else:
        data, weight, *_ = ("x".join(map(str, shape)) for shape in shapes)
        of, elements = f" of {data} and {weight}", sum(map(prod, shapes))
    least = elements * item_bytes(dtype)
    return Kernel(
        name=f"{name.rpartition('.')[2]}{number or ''}",
        ops=what.operators,
        scheme=LIBRARY,
        mapping=f"{CUDNN.title} maps it",
        bytes_min=least,
        bytes_planned=least,
        floor_us=least / device.bandwidth * 1e6,
        predicted_us=None,
        why=f"{dtype}{of} by {CUDNN.title}: {what}",
        launches=launches,
    )
