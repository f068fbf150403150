"""Transposed convolutions between transposes: with channels last, and without those.

In: a dataflow block. Out: the same, in which each transposed convolution that cuDNN takes, whose
operands are transposed to channels first for it and whose result is transposed back, reads and
writes what lies with channels last. Gradients for images are written so: Relax has no other way.
"""

from __future__ import annotations

from tvm import relax
from tvm.ir import Call, Expr

from tvm_stitch.graph.front.convolution.choose import (
    by_tensor_cores,
    convolution_of,
    is_convolution,
    layouts_of,
)
from tvm_stitch.graph.front.dataflow import as_variable, definitions, name_of, readers_of
from tvm_stitch.graph.front.decompose.stages import dtype_of
from tvm_stitch.graph.front.decompose.view import Definition
from tvm_stitch.library.convolution import DATA, Convolution

PERMUTE = "permute_dims"


def without_transposes(tf32: bool, block: relax.DataflowBlock) -> relax.DataflowBlock:
    """The block; transposes that nobody reads any more are still in it."""
    readers, definition = readers_of(block.bindings), definitions(block.bindings)
    bindings: list[relax.Binding] = []
    done: set[relax.Var] = set()
    for binding in block.bindings:
        if binding.var in done:
            continue
        found = _with_channels_last(binding, readers.get(binding.var, []), definition, tf32)
        done.update(each.var for each in found)
        bindings += found or [binding]
    return relax.DataflowBlock(bindings)


def _with_channels_last(
    binding: relax.Binding, readers: list[relax.Binding], definition: Definition, tf32: bool
) -> list[relax.Binding]:
    """A convolution with channels last, and its result as it was; nothing if it is no such one."""
    call = binding.value
    if not is_convolution(call) or not by_tensor_cores(call, tf32):
        return []
    found, spatial = convolution_of(call, tf32), len(call.attrs.strides)
    if not isinstance(found, Convolution) or found.what != DATA or found.channels_last:
        return []
    to_first, to_last = (0, spatial + 1, *range(1, spatial + 1)), (0, *range(2, spatial + 2), 1)
    operands = [_before(definition(each), to_first) for each in call.args[:2]]
    back = next((each for each in readers if _before(each.value, to_last) is not None), None)
    if back is None or None in operands:
        return []
    convolved = as_variable(binding.var.name, _convolved(call, operands, spatial))
    # TVM's ConvertLayout leaves such a transpose, which becomes a view; behind it the convolution
    # ends: of gradients with a sum behind them nobody has measured that cuDNN's are faster.
    still = relax.op.permute_dims(convolved.var, list(range(spatial + 2)))
    first = relax.op.permute_dims(back.var, list(to_first))
    return [convolved, _bound(back.var, still), _bound(binding.var, first)]


def _bound(var: relax.Var, value: Expr) -> relax.VarBinding:
    return relax.VarBinding(var, relax.BlockBuilder().normalize(value))


def _before(value: Expr | None, axes: tuple[int, ...]) -> Expr | None:
    """What a value transposes in this way; None if it does not."""
    if not isinstance(value, Call) or name_of(value) != PERMUTE or value.attrs.axes is None:
        return None
    return value.args[0] if tuple(map(int, value.attrs.axes)) == axes else None


def _convolved(call: Call, operands: list[Expr], spatial: int) -> Expr:
    data, weight, out = layouts_of(DATA, spatial, True)
    attrs = call.attrs
    made = getattr(relax.op.nn, f"conv{spatial}d_transpose")(
        *operands, attrs.strides, attrs.padding, attrs.output_padding, attrs.dilation,
        attrs.groups, data, weight, out, dtype_of(call),
    )  # fmt: skip
    return relax.BlockBuilder().normalize(made)
