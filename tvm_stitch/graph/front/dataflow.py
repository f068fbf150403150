"""What passes over Relax's dataflow blocks have in common.

In: a module or a block. Out: the module with other blocks, which operators it has, and its calls of
libraries; who reads a variable, and what it is bound to. Knows no operator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.ir import Call, Expr

from tvm_stitch.graph.front.decompose.view import Definition
from tvm_stitch.graph.front.functions.unused import without_unused

_OPAQUE = 8  # a pattern of operators, to TVM's FuseOps
AND_WORKSPACE = "_and_workspace"
"""Behind the name of a library's result: both that and the workspace that its call has besides."""


def name_of(value: Expr | None) -> str:
    """The name of the operator that a value is a call of; empty if it is none."""
    name = getattr(value.op, "name", "") if isinstance(value, Call) else ""
    return str(name).removeprefix("relax.")


def operators_of(functions: Iterable[Any]) -> frozenset[str]:
    """The names of all operators that Relax functions call, others among them left out."""
    found: set[str] = set()
    for function in functions:
        if isinstance(function, relax.Function):
            relax.analysis.post_order_visit(function, lambda value: found.add(name_of(value)))
    return frozenset(found - {""})


def in_blocks(
    mod: tvm.IRModule, change: Callable[[relax.DataflowBlock], relax.DataflowBlock]
) -> tvm.IRModule:
    """The module with other dataflow blocks, and without what nobody reads any more."""
    changed = mod.clone()
    for var, function in mod.functions_items():
        if isinstance(function, relax.Function):
            blocks = [
                change(block) if isinstance(block, relax.DataflowBlock) else block
                for block in function.body.blocks
            ]
            body = relax.SeqExpr(blocks, function.body.body)
            params, returns = function.params, function.ret_ty
            other = relax.Function(params, body, returns, function.is_pure, function.attrs)
            changed.update_func(var, without_unused(other))
    return changed


def block_pass(
    name: str,
    gains: Callable[[frozenset[str]], bool],
    change: Callable[[relax.DataflowBlock], relax.DataflowBlock],
) -> tvm.transform.Pass:
    """A pass over the dataflow blocks of modules that gain by it, by the operators they call."""

    @tvm.transform.module_pass(opt_level=0, name=name)
    def rewritten(mod: tvm.IRModule, _context: object) -> tvm.IRModule:
        if not gains(operators_of(mod.functions.values())):
            return mod
        changed = in_blocks(relax.transform.Normalize()(mod), change)
        return relax.transform.Normalize()(changed)

    return rewritten


def mutated(mod: tvm.IRModule, mutator: relax.PyExprMutator) -> tvm.IRModule:
    """The module with its Relax functions as a mutator of it leaves them."""
    for var, function in mod.functions_items():
        if isinstance(function, relax.Function):
            mutator.builder_.update_func(var, mutator.visit_expr(function))
    return mutator.builder_.get()


def readers_of(bindings: Sequence[relax.Binding]) -> dict[relax.Var, list[relax.Binding]]:
    """The bindings that read a variable, in order, for every variable that is read."""
    readers: dict[relax.Var, list[relax.Binding]] = {}
    for binding in bindings:
        for var in relax.analysis.free_vars(binding.value):
            readers.setdefault(var, []).append(binding)
    return readers


def only_readers(bindings: Sequence[relax.Binding]) -> dict[relax.Var, relax.VarBinding]:
    """For every variable that exactly one binding of its block reads, and nobody else, that one."""
    outside = {each.var for each in bindings if not isinstance(each.var, relax.DataflowVar)}
    return {
        var: found[0]
        for var, found in readers_of(bindings).items()
        if len(found) == 1 and var not in outside and isinstance(found[0], relax.VarBinding)
    }


def definitions(bindings: Sequence[relax.Binding]) -> Definition:
    """What a variable of a block is bound to."""
    bound = {each.var: each for each in bindings if isinstance(each, relax.VarBinding)}

    def definition(value: relax.Expr) -> relax.Expr | None:
        while isinstance(value, relax.Var):
            if value not in bound:
                return None
            value = bound[value].value
        return value

    return definition


def library_call(
    var: relax.Var, function: str, operands: Sequence[Expr], numbers: Sequence[int], bytes_: int
) -> list[relax.VarBinding]:
    """Bindings of a variable to a library's result: by a packed function, which has a workspace."""
    workspace = relax.TensorType([bytes_], "uint8")
    arguments = relax.Tuple([*operands, relax.ShapeExpr(list(numbers))])
    call = relax.call_dps_packed(function, arguments, [var.ty, workspace])
    both = as_variable(f"{var.name}{AND_WORKSPACE}", call)
    return [both, relax.VarBinding(var, relax.TupleGetItem(both.var, 0))]


def bound(bindings: list[relax.Binding], name: str, value: Expr) -> relax.Var:
    """A value as a variable of its block, behind the bindings that there are."""
    bindings.append(as_variable(name, value))
    return bindings[-1].var


def as_variable(name: str, value: Expr) -> relax.VarBinding:
    """A value as a variable of its block."""
    normal = relax.BlockBuilder().normalize(value)
    return relax.VarBinding(relax.DataflowVar(name, normal.ty), normal)


def unfused(kernel: tirx.PrimFunc) -> tirx.PrimFunc:
    """A scheduled kernel as functions of a graph are that nothing is fused with."""
    return kernel.with_attr("op_pattern", _OPAQUE)
