"""What cuDNN computes in a module: convolutions and attention, with an entry for the report.

In: calls of packed functions. Out: a Kernel for every different call. Must not decide anything.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm
from tvm import relax

from tvm_stitch.device import Device
from tvm_stitch.kernel.ir.mapping import LIBRARY
from tvm_stitch.library import attention, convolution
from tvm_stitch.library.locate import CUDNN
from tvm_stitch.report.data import Kernel, Stage
from tvm_stitch.report.findings.types import shown_type
from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.stage import item_bytes

What = convolution.Convolution | attention.Attention

DECODERS: dict[str, Callable[[Sequence[int]], What]] = {
    convolution.NAME: convolution.decoded,
    attention.NAME: attention.decoded,
}
"""What the numbers of a call say, by the packed function's name."""


@dataclass(frozen=True)
class LibraryCall:
    """A call of a packed function that calls cuDNN."""

    function: str
    numbers: tuple[int, ...]
    types: tuple[Any, ...]  # of the tensors that it takes, and of its result

    @property
    def name(self) -> str:
        """What the packed function is called in its module."""
        return self.function.rpartition(".")[2]

    @property
    def key(self) -> str:
        """The same for calls that do the same, and no PrimFunc's name."""
        return f"{self.function}{self.numbers} of {', '.join(map(shown_type, self.types))}"


def library_call(call: Any, ty: Any) -> LibraryCall | None:
    """What a call whose result has this type asks of cuDNN; None if it is no such call."""
    callee = call.args[0] if isinstance(call, tvm.ir.Call) and len(call.args) == 2 else None
    if not isinstance(callee, relax.ExternFunc) or callee.global_symbol not in DECODERS:
        return None
    *tensors, numbers = call.args[1].fields
    result, _workspace = ty.fields
    return LibraryCall(
        function=str(callee.global_symbol),
        numbers=tuple(int(number) for number in numbers.values),
        types=(*(each.ty for each in tensors), result),
    )


def library_kernel(
    call: LibraryCall, number: int, launches: int, device: Device, extents: Extents
) -> Kernel:
    """The entry of calls that do the same; `number` tells it from others of its packed function."""
    what = DECODERS[call.function](call.numbers)
    shapes = [tuple(map(extents.size, ty.shape.values)) for ty in call.types]
    result = call.types[-1]
    dtype = str(result.dtype.dtype)
    if isinstance(what, attention.Attention):
        of, elements = "", what.elements + sum(map(prod, shapes[3:-1]))
    else:
        data, weight, *_ = ("x".join(map(str, shape)) for shape in shapes)
        of, elements = f" of {data} and {weight}", sum(map(prod, shapes))
    least = elements * item_bytes(dtype)
    return Kernel(
        name=f"{call.name}{number or ''}",
        ops=what.operators,
        scheme=LIBRARY,
        mapping=f"{CUDNN.title} maps it",
        bytes_min=least,
        bytes_planned=least,
        floor_us=least / device.bandwidth * 1e6,
        predicted_us=None,
        why=f"{dtype}{of} by {CUDNN.title}: {what}",
        launches=launches,
        stages=tuple(
            Stage(each, shown_type(result), (place - 1,) if place else ())
            for place, each in enumerate(what.operators)
        ),
    )
