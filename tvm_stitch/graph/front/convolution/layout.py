"""Convolutions by tensor cores with channels last, as these read them.

In: a Relax module. Out: the same with those convolutions that cuDNN takes in NHWC, and what lies
between them as well; TVM's ConvertLayout transposes at the borders. IEEE's float32 stays as it is.
"""

from __future__ import annotations

from functools import partial

import tvm
from tvm import relax
from tvm.ir import Call, GenericConst

from tvm_stitch.graph.front.convolution.choose import (
    Layouts,
    by_tensor_cores,
    convolution_of,
    convolutions_of,
    is_convolution,
    layouts_of,
    stated_layouts,
)
from tvm_stitch.graph.front.convolution.transposes import without_transposes
from tvm_stitch.graph.front.dataflow import bound, in_blocks
from tvm_stitch.graph.front.decompose.stages import dtype_of, has_shape, rank_of, shape_of
from tvm_stitch.library.convolution import Convolution

BROADCAST = frozenset(
    f"relax.{name}" for name in ("add", "subtract", "multiply", "divide", "maximum", "minimum")
)
"""Operators whose operands may have fewer dimensions than their result."""
COMMUTATIVE = frozenset(f"relax.{name}" for name in ("add", "multiply", "maximum", "minimum"))


def with_channels_last(mod: tvm.IRModule, tf32: bool) -> tvm.IRModule:
    """The module with the convolutions of halves, or by TF32, that cuDNN takes in NHWC."""

    def desired(call: Call) -> dict[str, list[str]]:
        return {call.op.name: list(_wanted(call, tf32))} if is_convolution(call) else {}

    # TVM's pass takes seconds for a graph of hundreds of operators.
    if _is_as_wanted(mod, tf32):
        return mod
    direct = in_blocks(mod, partial(without_transposes, tf32))
    if _is_as_wanted(direct, tf32):
        return _readable(direct)
    return relax.transform.ConvertLayout({}, desired)(_readable(mod))


def _is_as_wanted(mod: tvm.IRModule, tf32: bool) -> bool:
    return all(_wanted(call, tf32) == stated_layouts(call) for call in convolutions_of(mod))


def _wanted(call: Call, tf32: bool) -> Layouts:
    """The layouts that a convolution shall have."""
    found = convolution_of(call, tf32)
    if isinstance(found, Convolution) and by_tensor_cores(call, tf32):
        return layouts_of(found.what, len(found.strides), True)
    return stated_layouts(call)  # else it would follow its neighbours


def _readable(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with its broadcasting operators as ConvertLayout follows them.

    It gives channels last up where an operand has fewer dimensions than the other, as a bias of
    (channels, 1, 1), and where the convolution is the second operand.
    """
    return relax.transform.Normalize()(in_blocks(mod, _readable_block))


def _readable_block(block: relax.DataflowBlock) -> relax.DataflowBlock:
    bindings: list[relax.Binding] = []
    convolved: set[relax.Var] = set()  # convolutions and what is computed of them
    for binding in block.bindings:
        value = binding.value
        if isinstance(binding, relax.VarBinding) and isinstance(value, Call):
            operator = getattr(value.op, "name", "")
            if operator in BROADCAST and has_shape(value):
                args = [_widened(each, rank_of(value), bindings) for each in value.args]
                if operator in COMMUTATIVE and args[0] not in convolved and args[1] in convolved:
                    args.reverse()
                value = Call(value.op, args, value.attrs, value.ty_args)
                binding = relax.VarBinding(binding.var, value)
            if is_convolution(value) or any(arg in convolved for arg in value.args):
                convolved.add(binding.var)
        bindings.append(binding)
    return relax.DataflowBlock(bindings)


def _widened(value: relax.Expr, rank: int, bindings: list[relax.Binding]) -> relax.Expr:
    """An operand with so many dimensions."""
    if not has_shape(value) or not 0 < rank_of(value) < rank:
        return value
    shape = [*[1] * (rank - rank_of(value)), *shape_of(value)]
    if isinstance(value, GenericConst):
        array = value.value.numpy().reshape([int(extent) for extent in shape])
        return relax.const(array, dtype_of(value))
    return bound(bindings, f"{value.name}_of_{rank}", relax.op.reshape(value, shape))
