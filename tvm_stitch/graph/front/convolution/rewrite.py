"""The pass: convolutions become calls of the library, with what it computes behind them.

In: a Relax module before decomposition, and which convolutions are taken. Out: the module with
calls of destination-passing packed functions, and for every other convolution why it is none, but
for those that are written out (see direct).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import tvm
from tvm import relax
from tvm.ir import Call, GenericConst

from tvm_stitch.errors import last_line
from tvm_stitch.graph.front.convolution.choose import (
    convolution_of,
    convolutions_of,
    is_convolution,
)
from tvm_stitch.graph.front.convolution.direct import is_direct
from tvm_stitch.graph.front.convolution.epilogue import Fused, fused
from tvm_stitch.graph.front.convolution.layout import with_channels_last
from tvm_stitch.graph.front.convolution.rounded import rounded_at_once
from tvm_stitch.graph.front.convolution.subpixel import as_subpixel
from tvm_stitch.graph.front.convolution.weights import with_all_rows
from tvm_stitch.graph.front.dataflow import definitions, in_blocks, library_call, only_readers
from tvm_stitch.graph.front.decompose.stages import dtype_of, has_shape, shape_of
from tvm_stitch.graph.front.decompose.view import RESHAPES, Definition, views_of
from tvm_stitch.library.convolution import NAME, WEIGHT, WORKSPACE_BYTES
from tvm_stitch.stages.stage import Refused, constant

TRANSPOSE = "relax.permute_dims"
Heard = Callable[[str, str], None]
"""Receives an operator that is not the library's, and the reason."""


def LibraryConvolutions(
    heard: Heard | None = None, tf32: bool = False, timed: bool = False
) -> tvm.transform.Pass:
    """Let cuDNN compute the convolutions that it takes; by tensor cores with channels last.

    With `tf32` these compute those of float32, too. With `timed` the clock chooses their engines.
    """
    tell = heard or (lambda _operator, _reason: None)

    @tvm.transform.module_pass(opt_level=0, name="LibraryConvolutions")
    def library_convolutions(mod: tvm.IRModule, _context: object) -> tvm.IRModule:
        if next(convolutions_of(mod), None) is None:
            return mod
        mod = in_blocks(relax.transform.Normalize()(mod), rounded_at_once)
        try:
            mod = with_channels_last(mod, tf32)
        except Exception as error:  # TVM's pass was not made for every operator between them
            tell("convolutions", f"channels stay where they are: {last_line(error)}")
        mod = in_blocks(mod, lambda block: _rewritten(as_subpixel(tf32, block), tell, tf32, timed))
        return relax.transform.Normalize()(mod)

    return library_convolutions


def _rewritten(
    block: relax.DataflowBlock, tell: Heard, tf32: bool, timed: bool
) -> relax.DataflowBlock:
    """The block with a call in place of the last operator of each chain, and none before it."""
    chains = _chains(block, tell, tf32)
    ends = {chain.result: chain for chain in chains}
    members = {member for chain in chains for member in chain.members}
    definition = definitions(block.bindings)
    bindings = []
    for binding in block.bindings:
        chain = ends.get(binding.var)
        if chain is not None:
            numbers = replace(chain.convolution, timed=timed).encoded()
            workspace = _workspace(chain)
            bindings += library_call(chain.result, NAME, chain.operands, numbers, workspace)
        elif binding.var not in members:
            bindings.append(_without_moving(binding, definition))
    return relax.DataflowBlock(bindings)


def _workspace(chain: Fused) -> int:
    """Bytes that a chain may work in: as many as a rule where only run time knows its extents."""
    shapes = [[constant(extent) for extent in shape_of(each)] for each in chain.operands[:2]]
    known = [[extent for extent in shape if extent is not None] for shape in shapes]
    return chain.convolution.workspace(*known) if known == shapes else WORKSPACE_BYTES


def _without_moving(binding: relax.Binding, definition: Definition) -> relax.Binding:
    """Transposes that move nothing, as of weights of 1 x 1, and reshapes behind them, as one view.

    TVM launches nothing for a reshape, but a kernel for a transpose, and for two reshapes.
    """
    value = binding.value
    if _is_transposed_constant(value):
        return relax.VarBinding(binding.var, _transposed(value))
    name = getattr(value.op, "name", "") if isinstance(value, Call) else ""
    if name not in (TRANSPOSE, *RESHAPES) or not has_shape(value) or not has_shape(value.args[0]):
        return binding
    view = views_of(binding.var, definition)[0]
    # Of a reshape whose dimensions share no factors with those before, the only view is itself.
    if view.is_moved or view.source.same_as(binding.var):
        return binding
    if name != TRANSPOSE and view.source.same_as(value.args[0]):
        return binding
    return relax.VarBinding(binding.var, relax.op.reshape(view.source, shape_of(value)))


def _is_transposed_constant(value: relax.Expr) -> bool:
    is_call = isinstance(value, Call) and getattr(value.op, "name", "") == TRANSPOSE
    return is_call and isinstance(value.args[0], GenericConst) and has_shape(value)


def _transposed(call: Call) -> GenericConst:
    """Weights that are known, as they are to lie."""
    (constant,), axes = call.args, call.attrs.axes
    array = constant.value.numpy()
    order = None if axes is None else [int(axis) for axis in axes]
    return relax.const(np.ascontiguousarray(array.transpose(order)), dtype_of(call))


def _chains(block: relax.DataflowBlock, tell: Heard, tf32: bool) -> list[Fused]:
    """What a library computes of a block."""
    readers, definition = only_readers(block.bindings), definitions(block.bindings)
    found: list[Fused] = []
    taken: set[relax.Var] = set()  # the sum of two convolutions is the first one's alone
    for binding in block.bindings:
        if not isinstance(binding, relax.VarBinding) or is_direct(binding.value):
            continue
        if is_convolution(binding.value):
            convolution = convolution_of(binding.value, tf32)
            operator = binding.value.op.name.rpartition(".")[2]
            if isinstance(convolution, Refused):
                tell(operator, convolution.reason)
                continue
            if convolution.what == WEIGHT:
                convolution, call = with_all_rows(convolution, binding.value, definition)
                binding = relax.VarBinding(binding.var, call)
            chain = fused(binding, convolution, readers, definition, taken)
            taken |= {*chain.members, chain.result}
            found.append(chain)
    return found
