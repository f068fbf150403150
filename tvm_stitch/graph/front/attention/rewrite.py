"""The pass: attention becomes calls of the library, its heads read and written where they lie.

In: a Relax module before decomposition, and what attention costs either way. Out: the module with
calls of destination-passing packed functions, and for all other attention why it is none.
"""

from __future__ import annotations

from collections.abc import Callable, Set

import tvm
from tvm import relax

from tvm_stitch.device import Device
from tvm_stitch.graph.front.attention.bindings import Bindings
from tvm_stitch.graph.front.attention.cost import refused_as_slower
from tvm_stitch.graph.front.attention.match import WHOLE, Found, attention_at, whole_attention
from tvm_stitch.graph.front.dataflow import as_variable, in_blocks, library_call, operators_of
from tvm_stitch.graph.front.decompose.stages import dtype_of
from tvm_stitch.library.attention import NAME, WORKSPACE_BYTES
from tvm_stitch.stages.stage import Refused

OPERATOR = "attention"
Heard = Callable[[str, str], None]
"""Receives what is not the library's, and the reason."""


def LibraryAttention(
    device: Device, heard: Heard | None = None, missing: str | None = None
) -> tvm.transform.Pass:
    """Let cuDNN compute the attention that it takes and computes sooner.

    Where it is `missing`, the text says why, and modules stay as they are.
    """
    tell = heard or (lambda _operator, _reason: None)

    @tvm.transform.module_pass(opt_level=0, name="LibraryAttention")
    def library_attention(mod: tvm.IRModule, _context: object) -> tvm.IRModule:
        if not _may_attend(operators_of(mod.functions.values())):
            return mod
        found: list[Found] = []

        def change(block: relax.DataflowBlock) -> relax.DataflowBlock:
            chosen = _chosen(Bindings(block), device, tell)
            found.extend(chosen)
            return _rewritten(block, chosen)

        changed = in_blocks(relax.transform.Normalize()(mod), change)
        if missing is not None:
            for _ in found:
                tell(OPERATOR, missing)
        return relax.transform.Normalize()(changed) if found and missing is None else mod

    return library_attention


def _may_attend(operators: Set[str]) -> bool:
    """Whether there is all that attention takes."""
    is_written_out = "matmul" in operators and not operators.isdisjoint(("nn.softmax", "exp"))
    return is_written_out or not operators.isdisjoint(WHOLE)


def _chosen(bindings: Bindings, device: Device, tell: Heard) -> list[Found]:
    """What a library computes of a block."""
    chosen: list[Found] = []
    for binding in bindings.ordered:
        found = whole_attention(binding, bindings) or attention_at(binding, bindings)
        if isinstance(found, Found):
            found = refused_as_slower(found.attention, device) or found
        if isinstance(found, Refused):
            tell(OPERATOR, found.reason)
        elif found is not None:
            chosen.append(found)
    return chosen


def _rewritten(block: relax.DataflowBlock, chosen: list[Found]) -> relax.DataflowBlock:
    """The block with a call in place of the last operator of each attention."""
    ends = {found.result: found for found in chosen}
    members = {var for found in chosen for var in found.members}
    bindings: list[relax.Binding] = []
    for binding in block.bindings:
        if binding.var in ends:
            bindings += _called(ends[binding.var])
        elif binding.var not in members:
            bindings.append(binding)
    return relax.DataflowBlock(bindings)


def _called(found: Found) -> list[relax.VarBinding]:
    """The call, behind the bias that a condition is for it."""
    operands, bindings = list(found.operands), []
    if found.is_chosen:
        condition = operands.pop()
        dtype = dtype_of(found.result)
        zero, none = relax.const(0.0, dtype), relax.const(float("-inf"), dtype)
        bias = as_variable("bias", relax.op.where(condition, zero, none))
        bindings.append(bias)
        operands.append(bias.var)
    numbers = found.attention.encoded()
    return [*bindings, *library_call(found.result, NAME, operands, numbers, WORKSPACE_BYTES)]
