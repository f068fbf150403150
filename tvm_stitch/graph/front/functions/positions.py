"""Values that depend on positions alone, as a causal mask does, are computed where they are read.

In: dataflow blocks of calls of TIR. Out: the same, but every reader has such values to itself, as
far as few operators compute them: a kernel finds out what it would else wait for and read, and no
kernel writes it. Knows no kernel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import tvm
from tvm import relax
from tvm.ir import Call, Expr

from tvm_stitch.graph.front.dataflow import in_blocks
from tvm_stitch.graph.front.functions.callees import Callees, operands_of
from tvm_stitch.stages.op_pattern import Pattern

_REDUCTIONS = (Pattern.ROW_REDUCTION, Pattern.COLUMN_REDUCTION)
_ELEMENTS = (Pattern.RESHAPE, Pattern.ELEMENTWISE, Pattern.BROADCAST, Pattern.INJECTIVE)


def OwnPositions(most: int) -> tvm.transform.Pass:
    """The pass; what more than so many operators compute stays as it is. 0: all does."""

    @tvm.transform.module_pass(opt_level=0, name="OwnPositions")
    def own_positions(mod: tvm.IRModule, _context: object) -> tvm.IRModule:
        callees = Callees(mod)
        return in_blocks(mod, lambda block: _Block(block, callees, most).rewritten())

    return own_positions


def _computes(callees: Callees, value: Expr) -> bool:
    """Whether it is more than elements of others, or of nothing, in other places."""
    return any(
        stage.reads and not isinstance(stage.value, tvm.ir.TensorLoad)
        for stage in callees.stages(value)
    )


class _Block:
    def __init__(self, block: relax.DataflowBlock, callees: Callees, most: int) -> None:
        self.bindings, self.callees, self.most = block.bindings[:], callees, most
        # What positions alone decide, each with all that it is made of, in order.
        self.made_of: dict[relax.Var, tuple[relax.VarBinding, ...]] = {}
        self.in_memory: set[relax.Var] = set()  # of them, what must be written after all
        self.taken: set[relax.Var] = set()  # that a reader has to itself

    def rewritten(self) -> relax.DataflowBlock:
        """The block, in which no two readers share what positions decide."""
        for binding in self.bindings:
            self._note(binding)
        return relax.DataflowBlock([b for each in self.bindings for b in self._with_its_own(each)])

    def _note(self, binding: relax.Binding) -> None:
        """Whether a binding is decided by positions, and cheap; else what it needs in memory."""
        pattern, operands = self.callees.pattern(binding.value), operands_of(binding.value)
        inner = isinstance(binding.var, relax.DataflowVar)
        if inner and pattern in _ELEMENTS and all(each in self.made_of for each in operands):
            before = (each for operand in operands for each in self.made_of[operand])
            whole = (*dict.fromkeys(before), binding)
            if sum(_computes(self.callees, each.value) for each in whole) <= self.most:
                self.made_of[binding.var] = whole
        if pattern not in (*_ELEMENTS, *_REDUCTIONS):
            self.in_memory.update(relax.analysis.free_vars(binding.value))

    def _with_its_own(self, binding: relax.Binding) -> Iterable[relax.Binding]:
        """A reader, after copies of what others read as well."""
        values = [each for each in operands_of(binding.value) if each in self.made_of]
        values = [each for each in values if each not in self.in_memory]
        if not values or binding.var in self.made_of:
            return [binding]
        needed = dict.fromkeys(each for var in values for each in self.made_of[var])
        own = {each.var for each in needed}
        if self.taken.isdisjoint(own):
            self.taken |= own
            return [binding]
        copies: dict[relax.Var, relax.Var] = {}
        found = [self._copied(each, copies) for each in needed]
        return [*found, relax.VarBinding(binding.var, _with(binding.value, copies))]

    def _copied(
        self, binding: relax.VarBinding, copies: dict[relax.Var, relax.Var]
    ) -> relax.VarBinding:
        var = relax.DataflowVar(binding.var.name, binding.var.ty)
        found = relax.VarBinding(var, _with(binding.value, copies))
        copies[binding.var] = var
        return found


def _with(call: Expr, copies: Mapping[relax.Var, relax.Var]) -> Expr:
    """A call of TIR that reads copies."""
    operands = relax.Tuple([copies.get(each, each) for each in call.args[1].fields[:]])
    arguments = [call.args[0], operands, *call.args[2:]]
    return Call(call.op, arguments, call.attrs, call.ty_args)
