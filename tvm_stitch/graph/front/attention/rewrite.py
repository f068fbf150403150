"""The pass: attention becomes calls of the library, or of a kernel of this package.

In: a Relax module before decomposition, who makes such kernels, and what attention costs by each
way. Out: the module with calls of destination-passing packed functions and of TIR, heads read and
written where they lie, and for all other attention why it is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass, field
from typing import Protocol

import tvm
from tvm import relax, tirx
from tvm.ir import Expr

from tvm_stitch.device import Device
from tvm_stitch.graph.front.attention.bindings import Bindings
from tvm_stitch.graph.front.attention.cost import is_slower, refused_as_slower
from tvm_stitch.graph.front.attention.match import WHOLE, Found, attention_at, whole_attention
from tvm_stitch.graph.front.dataflow import (
    as_variable,
    in_blocks,
    library_call,
    operators_of,
    unfused,
)
from tvm_stitch.graph.front.decompose.stages import dtype_of
from tvm_stitch.library.attention import NAME, WORKSPACE_BYTES, Attention, Size
from tvm_stitch.stages.stage import Refused

OPERATOR = "attention"
Heard = Callable[[str, str], None]
"""Receives what is not the library's, and the reason."""


class OwnAttention(Protocol):
    """Who makes this package's kernels for attention."""

    def us(self, attention: Attention) -> float | Refused:
        """What the kernel takes, or why there is none."""

    def kernel(
        self, attention: Attention, tensors: Sequence[tuple[Sequence[Size], str]]
    ) -> tirx.PrimFunc | Refused:
        """The kernel of query, keys, values, perhaps a bias, and the result: shapes and types."""


def FusedAttention(
    device: Device,
    heard: Heard | None = None,
    missing: str | None = None,
    own: OwnAttention | None = None,
) -> tvm.transform.Pass:
    """Let cuDNN, or a kernel of this package, compute attention where that is sooner.

    Where cuDNN is `missing`, the text says why.
    """
    tell = heard or (lambda _operator, _reason: None)

    @tvm.transform.module_pass(opt_level=0, name="FusedAttention")
    def fused_attention(mod: tvm.IRModule, _context: object) -> tvm.IRModule:
        if not _may_attend(operators_of(mod.functions.values())):
            return mod
        choice = _Choice(device, tell, missing, own)
        changed = in_blocks(relax.transform.Normalize()(mod), choice.rewritten)
        if not choice.changes:
            return mod
        for var, kernel in choice.kernels.get().functions.items():
            changed.update_func(var, kernel)
        return relax.transform.Normalize()(changed)

    return fused_attention


def _may_attend(operators: Set[str]) -> bool:
    """Whether there is all that attention takes."""
    is_written_out = "matmul" in operators and not operators.isdisjoint(("nn.softmax", "exp"))
    return is_written_out or not operators.isdisjoint(WHOLE)


@dataclass(eq=False)
class _Choice:
    """Who computes the attention of a module, and the kernels made for it."""

    device: Device
    tell: Heard
    missing: str | None
    own: OwnAttention | None
    kernels: relax.BlockBuilder = field(default_factory=relax.BlockBuilder)
    changes: bool = False

    def rewritten(self, block: relax.DataflowBlock) -> relax.DataflowBlock:
        """The block with a call in place of the last operator of each attention."""
        bindings = Bindings(block)
        ends: dict[relax.Var, list[relax.VarBinding]] = {}
        members: set[relax.Var] = set()
        for binding in bindings.ordered:
            found = whole_attention(binding, bindings) or attention_at(binding, bindings)
            called = self._called(found) if isinstance(found, Found) else found
            if isinstance(called, Refused):
                self.tell(OPERATOR, called.reason)
            elif called is not None:
                assert isinstance(found, Found)
                ends[found.result] = called
                members |= found.members
        self.changes |= bool(ends)
        others = [each for each in block.bindings if each.var not in members]
        return relax.DataflowBlock([b for each in others for b in ends.get(each.var, [each])])

    def _called(self, found: Found) -> list[relax.VarBinding] | Refused:
        """The bindings that compute it, or why it stays as it is."""
        operands, bindings = _operands(found)
        kernel = self._kernel(found, operands)
        if kernel is not None:
            var = self.kernels.add_func(unfused(kernel), OPERATOR)
            call = relax.op.call_tir(var, operands, [found.result.ty])
            return [*bindings, relax.VarBinding(found.result, call)]
        if not found.attention.is_fixed:
            return Refused("cuDNN is asked for attention of known sizes only")
        slower = refused_as_slower(found.attention, self.device)
        if slower is not None or self.missing:
            return slower or Refused(self.missing or "")
        numbers = found.attention.encoded()
        return [*bindings, *library_call(found.result, NAME, operands, numbers, WORKSPACE_BYTES)]

    def _kernel(self, found: Found, operands: Sequence[Expr]) -> tirx.PrimFunc | None:
        """The kernel of this package, where others are slower."""
        us = None if self.own is None else self.own.us(found.attention)
        if self.own is None or us is None or isinstance(us, Refused):
            return None
        may_call = self.missing is None and found.attention.is_fixed
        if is_slower(us, found.attention.expected, self.device, library=may_call):
            return None
        given = *operands, found.result
        tensors = [(found.sizes.of(each) or (), str(dtype_of(each))) for each in given]
        kernel = self.own.kernel(found.attention, tensors)
        return None if isinstance(kernel, Refused) else kernel


def _operands(found: Found) -> tuple[list[Expr], list[relax.VarBinding]]:
    """What is read, a condition as the bias that it is; and the bindings of that."""
    if not found.is_chosen:
        return list(found.operands), []
    *operands, condition = found.operands
    dtype = dtype_of(found.result)
    zero, none = relax.const(0.0, dtype), relax.const(float("-inf"), dtype)
    bias = as_variable("bias", relax.op.where(condition, zero, none))
    return [*operands, bias.var], [bias]
