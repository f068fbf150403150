"""Reshapes are views, also what a function gives away as one: TVM copies there.

In: a module after FuseTIR, before anything is scheduled. Out: the same module, its calls of TIR
that only give a tensor another shape as Relax's reshape, of which TVM makes views; what is given
away is bound to a variable of its own dataflow block first. Must not know kernels.

TVM's RewriteDataflowReshape does not see that `(a, b)` has as many elements as `(b * a)`.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_stitch.graph.front.read import is_call_tir
from tvm_stitch.stages.op_pattern import copies_in_order
from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import Refused

Expr = Any


def Views() -> tvm.transform.Pass:
    """The pass; it stands where RewriteDataflowReshape stood."""

    @tvm.transform.module_pass(opt_level=0, name="Views")
    def views(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        mod = mod.clone()
        for var, function in mod.functions_items():
            if not isinstance(function, relax.Function) or "Primitive" in (function.attrs or {}):
                continue
            blocks = [_with_views(mod, block) for block in function.body.blocks]
            if all(map(relax.BindingBlock.same_as, blocks, function.body.blocks)):
                continue
            body = relax.SeqExpr(blocks, function.body.body)
            params, returns = function.params, function.ret_ty
            new = relax.Function(params, body, returns, function.is_pure, function.attrs)
            mod.update_func(var, new)
        # Gives the new bodies their types.
        return relax.transform.Normalize()(_without_unread(mod))

    return views


def _without_unread(mod: tvm.IRModule) -> tvm.IRModule:
    """The module without the TIR that was called for views alone, or it would be compiled."""
    called: set[tvm.ir.GlobalVar] = set()

    def visit(value: Expr) -> None:
        if isinstance(value, tvm.ir.GlobalVar):
            called.add(value)

    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, visit)
    for var, function in mod.functions_items():
        mine = isinstance(function, tirx.PrimFunc) and "global_symbol" not in (function.attrs or {})
        if mine and var not in called and _reshapes(function):
            del mod[var]
    return mod


def _with_views(mod: tvm.IRModule, block: relax.BindingBlock) -> relax.BindingBlock:
    if not isinstance(block, relax.DataflowBlock):
        return block
    bound = {binding.var: binding.value for binding in block.bindings}
    seen = {
        var: tensor
        for var, value in bound.items()
        if not isinstance(var, relax.DataflowVar)
        and (tensor := _computed(mod, value, bound)) is not None
    }
    # Two that share their memory would change with each other.
    shared = Counter(seen.values())
    bindings: list[relax.Binding] = []
    for binding in block.bindings:
        var, value = binding.var, binding.value
        given_away = var in seen and shared[seen[var]] == 1
        if not _calls_reshape(mod, value):
            bindings.append(binding)
        elif given_away:
            view = relax.DataflowVar(f"{var.name}_view", var.ty)
            bindings += [relax.VarBinding(view, _reshape(value)), relax.VarBinding(var, view)]
        elif isinstance(var, relax.DataflowVar):
            bindings.append(relax.VarBinding(var, _reshape(value)))
        else:
            bindings.append(binding)
    changed = len(bindings) > len(block.bindings) or any(
        not new.same_as(old) for new, old in zip(bindings, block.bindings, strict=True)
    )
    return relax.DataflowBlock(bindings) if changed else block


def _reshape(call: Expr) -> Expr:
    """The operator that a call of TIR stands for; what follows the tensor are symbols."""
    return relax.op.reshape(call.args[1].fields[0], call.ty.shape)


Tensor = tuple[relax.Var, int]
"""A variable, and which field of it if it is a tuple."""


def _computed(mod: tvm.IRModule, value: Expr, bound: dict[relax.Var, Expr]) -> Tensor | None:
    """What a value is a reshape of, if the block has computed it for itself alone."""
    tensor = None
    while _calls_reshape(mod, value):
        var = value.args[1].fields[0]  # what follows are symbols of its shape
        if not isinstance(var, relax.DataflowVar):
            return None
        tensor, value = (var, 0), bound[var]
    if isinstance(value, relax.TupleGetItem):
        tensor = value.tuple_value, value.index
        value = bound.get(value.tuple_value)
    return tensor if is_call_tir(value) else None


def _calls_reshape(mod: tvm.IRModule, value: Expr) -> bool:
    if not is_call_tir(value) or not isinstance(value.ty, relax.TensorType):
        return False
    function = mod[value.args[0]]
    return isinstance(function, tirx.PrimFunc) and _reshapes(function)


def _reshapes(function: tirx.PrimFunc) -> bool:
    stages = read_stages(function)
    return not isinstance(stages, Refused) and copies_in_order(stages)
