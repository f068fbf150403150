"""The pass: convolutions become calls of the library, with what it computes behind them.

In: a Relax module before decomposition, and which convolutions are taken. Out: the module with
calls of destination-passing packed functions, and for every other convolution why it is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm
from tvm import relax
from tvm.ir import Call

from tvm_stitch.errors import last_line
from tvm_stitch.graph.front.convolution.choose import convolution_of, is_convolution
from tvm_stitch.graph.front.convolution.epilogue import Fused, fused, only_readers
from tvm_stitch.graph.front.convolution.layout import with_channels_last
from tvm_stitch.library.convolution import NAME, Convolution
from tvm_stitch.stages.stage import Refused

Heard = Callable[[str, str], None]
"""Receives an operator that is not the library's, and the reason."""


def LibraryConvolutions(heard: Heard | None = None) -> tvm.transform.Pass:
    """Let cuDNN compute the convolutions that it takes; halves with channels last."""
    tell = heard or (lambda _operator, _reason: None)

    @tvm.transform.module_pass(opt_level=0, name="LibraryConvolutions")
    def library_convolutions(mod: tvm.IRModule, _context: object) -> tvm.IRModule:
        if not _convolves(mod):
            return mod
        mod = relax.transform.Normalize()(mod)
        try:
            mod = with_channels_last(mod)
        except Exception as error:  # TVM's pass was not made for every operator between them
            tell("convolutions", f"channels stay where they are: {last_line(error)}")
        changed = {
            var: _with_calls(function, tell)
            for var, function in mod.functions_items()
            if isinstance(function, relax.Function)
        }
        mod = mod.clone()
        for var, function in changed.items():
            mod.update_func(var, function)
        return relax.transform.Normalize()(mod)

    return library_convolutions


def _convolves(mod: tvm.IRModule) -> bool:
    return any(
        is_convolution(binding.value)
        for function in mod.functions.values()
        if isinstance(function, relax.Function)
        for block in function.body.blocks
        for binding in block.bindings
    )


def _with_calls(function: relax.Function, tell: Heard) -> relax.Function:
    """The function with the library's calls in its dataflow blocks."""
    blocks = [
        _rewritten(block, tell) if isinstance(block, relax.DataflowBlock) else block
        for block in function.body.blocks
    ]
    body = relax.SeqExpr(blocks, function.body.body)
    params, returns = function.params, function.ret_ty
    changed = relax.Function(params, body, returns, function.is_pure, function.attrs)
    return relax.analysis.remove_all_unused(changed)


def _rewritten(block: relax.DataflowBlock, tell: Heard) -> relax.DataflowBlock:
    """The block with a call in place of the last operator of each chain, and none before it."""
    chains = _chains(block, tell)
    ends = {chain.result: chain for chain in chains}
    members = {member for chain in chains for member in chain.members}
    bindings = []
    for binding in block.bindings:
        chain = ends.get(binding.var)
        if chain is not None:
            call = library_call(chain.convolution, chain.operands, binding.var.ty)
            bindings.append(relax.VarBinding(binding.var, call))
        elif binding.var not in members:
            bindings.append(binding)
    return relax.DataflowBlock(bindings)


def _chains(block: relax.DataflowBlock, tell: Heard) -> list[Fused]:
    """What a library computes of a block."""
    bound = {binding.var: binding for binding in block.bindings}
    outside = frozenset(var for var in bound if not isinstance(var, relax.DataflowVar))
    readers = only_readers(block.bindings, outside)

    def definition(value: relax.Expr) -> relax.Expr | None:
        while isinstance(value, relax.Var):
            binding = bound.get(value)
            if not isinstance(binding, relax.VarBinding):
                return None
            value = binding.value
        return value

    found = []
    for binding in block.bindings:
        if isinstance(binding, relax.VarBinding) and is_convolution(binding.value):
            convolution = convolution_of(binding.value)
            if isinstance(convolution, Refused):
                tell(binding.value.op.name.rpartition(".")[2], convolution.reason)
            else:
                found.append(fused(binding, convolution, readers, definition))
    return found


def library_call(
    convolution: Convolution, operands: Sequence[relax.Expr], result: relax.TensorType
) -> Call:
    """The call of the packed function, whose result is of this type."""
    numbers = relax.ShapeExpr(list(convolution.encoded()))
    return relax.call_dps_packed(NAME, relax.Tuple([*operands, numbers]), result)
