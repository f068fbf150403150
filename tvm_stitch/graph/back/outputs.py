"""What a function gives away as a reshape is a view, as reshapes within it are: TVM copies there.

In: a module after FuseTIR. Out: the same module, such a reshape bound to a variable of its own
dataflow block first, where TVM's RewriteDataflowReshape looks for views. Must not know kernels.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_stitch.graph.front.read import is_call_tir
from tvm_stitch.stages.op_pattern import Pattern, classify
from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import Refused

Expr = Any


def ViewOutputs() -> tvm.transform.Pass:
    """The pass; it comes after FuseTIR and before anything is scheduled."""

    @tvm.transform.module_pass(opt_level=0, name="ViewOutputs")
    def view_outputs(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
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
        return relax.transform.Normalize()(mod)

    return view_outputs


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
        var = binding.var
        if var in seen and shared[seen[var]] == 1:
            view = relax.DataflowVar(f"{var.name}_view", var.ty)
            bindings += [relax.VarBinding(view, binding.value), relax.VarBinding(var, view)]
        else:
            bindings.append(binding)
    return relax.DataflowBlock(bindings) if len(bindings) > len(block.bindings) else block


Tensor = tuple[relax.Var, int]
"""A variable, and which field of it if it is a tuple."""


def _computed(mod: tvm.IRModule, value: Expr, bound: dict[relax.Var, Expr]) -> Tensor | None:
    """What a value is a reshape of, if the block has computed it for itself alone."""
    tensor = None
    while is_call_tir(value) and _is_reshape(mod[value.args[0]]):
        var = value.args[1].fields[0]  # what follows are symbols of its shape
        if not isinstance(var, relax.DataflowVar):
            return None
        tensor, value = (var, 0), bound[var]
    if isinstance(value, relax.TupleGetItem):
        tensor = value.tuple_value, value.index
        value = bound.get(value.tuple_value)
    return tensor if is_call_tir(value) else None


def _is_reshape(function: Expr) -> bool:
    stages = read_stages(function) if isinstance(function, tirx.PrimFunc) else Refused("no TIR")
    return not isinstance(stages, Refused) and classify(stages) is Pattern.RESHAPE
