"""Which convolutions cuDNN takes, and what they ask of it.

In: a call of one of Relax's convolutions. Out: a Convolution, or why it stays TVM's. A transposed
convolution is the gradient of another for its data; Relax writes the gradient for the weights as a
convolution over the batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import tvm
from tvm import relax
from tvm.ir import Call, Expr

from tvm_stitch.graph.front.decompose.stages import HALF, dtype_of, has_shape, is_empty, shape_of
from tvm_stitch.library.convolution import DATA, FORWARD, WEIGHT, Convolution
from tvm_stitch.stages.stage import Refused

DTYPES = ("float16", "bfloat16", "float32")
_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
_OPERATORS = {
    f"relax.nn.conv{rank}d{suffix}": (rank, bool(suffix))
    for rank in _SPATIAL
    for suffix in ("", "_transpose")
}

Layouts = tuple[str, str, str]
"""Those of the data, of the weights and of the result, as Relax names them."""


def is_convolution(expr: Expr) -> bool:
    """Whether an expression convolves."""
    return isinstance(expr, Call) and getattr(expr.op, "name", "") in _OPERATORS


def convolutions_of(mod: tvm.IRModule) -> Iterator[Call]:
    """The convolutions of a module's Relax functions."""
    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            for block in function.body.blocks:
                for binding in block.bindings:
                    if is_convolution(binding.value):
                        yield binding.value


def layouts_of(what: str, rank: int, channels_last: bool) -> Layouts:
    """The layouts that cuDNN takes of one of the three things to compute."""
    axes = _SPATIAL[rank]
    if what == WEIGHT:
        return (
            (f"C{axes}N", f"I{axes}O", f"C{axes}N")
            if channels_last
            else (f"CN{axes}", f"IO{axes}", f"CN{axes}")
        )
    outer, inner = ("I", "O") if what == DATA else ("O", "I")
    data = f"N{axes}C" if channels_last else f"NC{axes}"
    weight = f"{outer}{axes}{inner}" if channels_last else f"{outer}{inner}{axes}"
    return data, weight, data


def by_tensor_cores(call: Call, tf32: bool) -> bool:
    """Whether tensor cores multiply what a convolution does: halves, and float32 by TF32."""
    dtype = dtype_of(call)
    return dtype in HALF or (tf32 and dtype == "float32")


def convolution_of(call: Call, tf32: bool = False) -> Convolution | Refused:
    """What a convolution asks of cuDNN, or why it is not asked; TF32 of float32, if it may be."""
    rank, is_transposed = _OPERATORS[call.op.name]
    refused = _refused(call)
    if refused is not None:
        return refused
    found = stated_layouts(call)
    ways = (DATA,) if is_transposed else (FORWARD, WEIGHT)
    for what in ways:
        for channels_last in (False, True):
            if found == layouts_of(what, rank, channels_last):
                return _convolution(what, channels_last, call, rank, tf32)
    return Refused(f"cuDNN takes no layouts {found[0]}, {found[1]} and {found[2]}")


def _convolution(
    what: str, channels_last: bool, call: Call, rank: int, tf32: bool
) -> Convolution | Refused:
    attrs = call.attrs
    before, after = (_numbers(attrs.padding)[n * rank : (n + 1) * rank] for n in range(2))
    strides, dilation = _numbers(attrs.strides), _numbers(attrs.dilation)
    groups = int(attrs.groups)
    if what == WEIGHT:
        if groups != 1:
            return Refused("TVM writes this gradient of a grouped convolution in pieces")
        strides, dilation = dilation, strides
    tf32 = tf32 and dtype_of(call) == "float32"
    return Convolution(what, channels_last, groups, strides, before, after, dilation, tf32=tf32)


def _refused(call: Call) -> Refused | None:
    operands = call.args[:2]
    if not all(map(has_shape, (*operands, call))):
        return Refused("the shapes of its operands are not known")
    if any(is_empty(shape_of(each)) for each in operands):
        return Refused("an operand has no elements")
    dtypes = [dtype_of(each) for each in (*operands, call)]
    if len(set(dtypes)) > 1 or dtypes[0] not in DTYPES:
        return Refused(f"cuDNN is asked for no {dtypes[2]} of {dtypes[0]} and {dtypes[1]}")
    return None


def stated_layouts(call: Call) -> Layouts:
    """The layouts that a convolution has."""
    attrs = call.attrs
    data, weight, out = (
        str(getattr(attrs, name)) for name in ("data_layout", "kernel_layout", "out_layout")
    )
    return data, weight, out or data


def is_plain(layout: str, outer: str) -> bool:
    """Whether a layout names these and the spatial axes once each, in any order, and packs none."""
    return layout.isalpha() and sorted(layout) == sorted(outer + spatial_axes(layout))


def spatial_axes(layout: str) -> str:
    """The spatial axes of a layout, outermost first."""
    return "".join(axis for axis in "DHW" if axis in layout)


def _numbers(values: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(value) for value in values)
