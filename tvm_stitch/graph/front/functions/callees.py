"""What passes of this folder ask about calls of TIR.

In: a module. Out: its PrimFuncs, each read once; which tensors a call is given. Knows no kernel.
"""

from __future__ import annotations

import tvm
from tvm.ir import Expr

from tvm_stitch.graph.front.callee import Callee, operator_name
from tvm_stitch.graph.front.read import is_call_tir
from tvm_stitch.graph.front.symbols import is_symbol
from tvm_stitch.stages.op_pattern import Pattern, classify
from tvm_stitch.stages.stage import Refused, Stage


class Callees:
    """The PrimFuncs of a module, each read once."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.mod = mod
        self._found: dict[str, Callee] = {}

    def of(self, value: Expr) -> Callee | None:
        """What a value calls; None if it is no call of TIR."""
        if not is_call_tir(value):
            return None
        name = value.args[0].name_hint
        if name not in self._found:
            self._found[name] = Callee(operator_name(name), self.mod[value.args[0]])
        return self._found[name]

    def stages(self, value: Expr) -> tuple[Stage, ...]:
        """What a call computes; of anything else, and of what cannot be read, nothing."""
        callee = self.of(value)
        return () if callee is None or isinstance(callee.stages, Refused) else callee.stages

    def pattern(self, value: Expr) -> Pattern:
        """What kind of operator a value is the result of."""
        return classify(self.stages(value))


def operands_of(value: Expr) -> list[Expr]:
    """The tensors that a call of TIR is given; of anything else none."""
    if not is_call_tir(value):
        return []
    return [each for each in value.args[1].fields[:] if not is_symbol(each)]
