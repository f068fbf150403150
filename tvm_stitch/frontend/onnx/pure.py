"""Shapes that a model's data tell, read by an operator.

In: what TVM's importer makes of a model. Out: the same without its calls of the runtime's function
for it, which count as impure: no module with one in a pure function is well formed.
"""

from __future__ import annotations

import tvm
from tvm import relax
from tvm.relax.expr_functor import PyExprMutator, mutator

_RUNTIME = "vm.builtin.tensor_to_shape"


def with_pure_shapes(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with relax.tensor_to_shape in place of the virtual machine's function."""
    changed = mod.clone()
    for var, function in mod.functions_items():
        if isinstance(function, relax.Function):
            changed.update_func(var, _Rewriter(mod).visit_expr(function))
    return changed


@mutator
class _Rewriter(PyExprMutator):
    def visit_call_(self, call: tvm.ir.Call) -> tvm.ir.Expr:
        """The operator for the function of the same name."""
        call = super().visit_call_(call)
        if isinstance(call.op, relax.ExternFunc) and call.op.global_symbol == _RUNTIME:
            return relax.op.tensor_to_shape(call.args[0])
        return call
