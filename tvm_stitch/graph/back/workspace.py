"""Calls of kernels that want a workspace give them one: an output that nobody reads.

In: a module whose stitched functions may have such a buffer after their outputs. Out: the module
with calls that fit. Relax's memory planning then finds room for it like for any other tensor.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from tvm_stitch.graph.front.dataflow import mutated
from tvm_stitch.graph.front.symbols import is_symbol, match_shape, symbols_given
from tvm_stitch.kernel.codegen.prim_func import WORKSPACE_ATTRIBUTE
from tvm_stitch.stages.stage import Expr, buffer_shape, dtype_of, is_buffer, substitute


def with_workspaces(mod: tvm.IRModule) -> tvm.IRModule:
    """The module with a workspace as the last output of every call that needs one."""
    wanted = {
        var: function
        for var, function in mod.functions_items()
        if WORKSPACE_ATTRIBUTE in (function.attrs or {})
    }
    if not wanted:
        return mod
    rest = mod.clone()
    for var in wanted:
        del rest[var]
    return mutated(rest, _Calls(rest, wanted))


@relax.expr_functor.mutator
class _Calls(relax.PyExprMutator):
    def __init__(self, mod: tvm.IRModule, wanted: dict[tvm.ir.GlobalVar, Any]) -> None:
        super().__init__(mod)
        # Variables of their own: the type of a function's variable tells how many buffers it takes.
        self.callee = {
            var: self.builder_.add_func(function, var.name_hint) for var, function in wanted.items()
        }
        self.wanted = wanted

    def visit_call_(self, call: tvm.ir.Call) -> Expr:
        """A call of a kernel that wants a workspace: its own results, out of one more."""
        call = self.visit_expr_post_order(call)
        if getattr(call.op, "name", "") != "relax.call_tir" or call.args[0] not in self.callee:
            return call
        (ty,) = call.ty_args
        own = list(ty.fields) if isinstance(ty, relax.TupleType) else [ty]
        extra = _workspace(self.wanted[call.args[0]], call, own)
        together = relax.op.call_tir(self.callee[call.args[0]], call.args[1], [*own, extra])
        results = self.builder_.emit(together)
        fields = [relax.TupleGetItem(results, number) for number in range(len(own))]
        return relax.Tuple(fields) if isinstance(ty, relax.TupleType) else fields[0]


def _workspace(function: Any, call: tvm.ir.Call, results: list[Any]) -> relax.TensorType:
    """What a function wants last, for the symbols that a call gives it."""
    *own, buffer = filter(is_buffer, function.params)
    tensors = [argument.ty for argument in call.args[1].fields if not is_symbol(argument)]
    mapping: dict[Any, Expr] = {}
    for param, ty in zip(own, [*tensors, *results], strict=True):
        match_shape(buffer_shape(param), tuple(ty.shape.values), mapping)
    scalars = (param for param in function.params if not is_buffer(param))
    mapping.update(zip(scalars, symbols_given(call), strict=True))
    shape = [substitute(extent, mapping) for extent in buffer_shape(buffer)]
    return relax.TensorType(shape, dtype_of(buffer))
