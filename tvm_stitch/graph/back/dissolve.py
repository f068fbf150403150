"""Groups that became no kernel are taken apart: their operators go the way TVM would take them.

In: a module after FuseTIR, and the names of merged functions that nothing could be made of. Out:
the same module with the operators of these groups as they were before, fused by TVM's own FuseOps.
TVM's schedules miscompile functions that FuseOps would not form. Must not know kernels.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx
from tvm_ffi.dataclasses import py_class

from tvm_stitch.graph.front.read import is_call_tir
from tvm_stitch.graph.front.symbols import is_symbol, match_shape, symbols_given

NAMES_ATTRIBUTE = "tvm_stitch.group_names"
GROUPS_ATTRIBUTE = "tvm_stitch.groups"

Expr = Any


@py_class("tvm_stitch.Groups", structural_eq="tree")
class Groups(tvm_ffi.Object):
    """Of a module: a module of its groups' functions with what they call.

    As an object of a type of its own it survives whatever is done with modules: an IRModule as an
    attribute could not be printed.
    """

    module: tvm.IRModule


def group_names(mod: tvm.IRModule) -> frozenset[str]:
    """The groups that a module remembers."""
    return frozenset((mod.attrs or {}).get(NAMES_ATTRIBUTE, ()))


def groups_alone(mod: tvm.IRModule, names: Collection[str]) -> tvm.IRModule:
    """Primitive functions of a module with what they call."""
    kept: dict[tvm.ir.GlobalVar, Any] = {}
    for name in names:
        function = mod[name]
        kept[mod.get_global_var(name)] = function
        for block in function.body.blocks:
            for binding in block.bindings[:]:
                if is_call_tir(binding.value):
                    kept[binding.value.args[0]] = mod[binding.value.args[0]]
    return tvm.IRModule(kept)


def with_groups(mod: tvm.IRModule, names: Collection[str]) -> tvm.IRModule:
    """The module, remembering what these Primitive functions of it are made of."""
    if not names:
        return mod
    groups = Groups(groups_alone(mod, names))
    return mod.with_attrs({NAMES_ATTRIBUTE: sorted(names), GROUPS_ATTRIBUTE: groups})


def without_groups(mod: tvm.IRModule) -> tvm.IRModule:
    """The module without what with_groups added."""
    if not group_names(mod):
        return mod
    return mod.without_attr(GROUPS_ATTRIBUTE).without_attr(NAMES_ATTRIBUTE)


def dissolved(mod: tvm.IRModule, names: Collection[str]) -> tvm.IRModule:
    """Take the groups of these names apart, and fuse what they were made of as TVM does."""
    dissolver = _Dissolver(mod, names)
    for var, function in mod.functions_items():
        if isinstance(function, relax.Function):
            dissolver.builder.update_func(var, dissolver.rewrite(function))
    found = dissolver.builder.get()
    for name in names:
        del found[name]
    passes = [
        relax.transform.Normalize(),
        relax.transform.FuseOps(),
        relax.transform.FuseTIR(),
    ]
    for each in passes:
        found = each(found)
    return found


def _projections(block: relax.BindingBlock) -> dict[relax.Var, dict[int, relax.Var]]:
    """For every tuple of a block, the variables that hold its fields."""
    found: dict[relax.Var, dict[int, relax.Var]] = {}
    for binding in block.bindings[:]:
        value = binding.value
        if isinstance(value, relax.TupleGetItem):
            found.setdefault(value.tuple_value, {})[value.index] = binding.var
    return found


def _given(params: Sequence[relax.Var], call: tvm.ir.Call) -> dict[Any, Expr]:
    """What a call gives for a group's parameters and for the symbols in their types.

    FuseTIR has made scalars of the symbols that the group takes as a shape of their own.
    """
    tensors = [arg for arg in call.args[1].fields if not is_symbol(arg)]
    mapping: dict[Any, Expr] = dict(zip(params, tensors, strict=False))
    for param, tensor in mapping.copy().items():
        match_shape(param.ty.shape.values, tensor.ty.shape.values, mapping)
    for param in params[len(tensors) :]:
        match_shape(param.ty.values, symbols_given(call), mapping)
    return mapping


class _Dissolver:
    def __init__(self, mod: tvm.IRModule, names: Collection[str]) -> None:
        self.builder = relax.BlockBuilder(mod)
        self.operators = mod.attrs[GROUPS_ATTRIBUTE].module
        self.groups = {name: self.operators[name] for name in names}

    def rewrite(self, function: relax.Function) -> relax.Function:
        """The function with the calls of these groups replaced."""
        blocks = [
            type(block)(self._bindings(block)) if self._calls_any(block) else block
            for block in function.body.blocks
        ]
        body = relax.SeqExpr(blocks, function.body.body)
        params, returns = function.params, function.ret_ty
        return relax.Function(params, body, returns, function.is_pure, function.attrs)

    def _group(self, value: Expr) -> relax.Function | None:
        return self.groups.get(value.args[0].name_hint) if is_call_tir(value) else None

    def _calls_any(self, block: relax.BindingBlock) -> bool:
        return any(self._group(binding.value) is not None for binding in block.bindings[:])

    def _bindings(self, block: relax.BindingBlock) -> list[relax.Binding]:
        fields = _projections(block)
        found: list[relax.Binding] = []
        done: set[relax.Var] = set()
        for binding in block.bindings[:]:
            group = self._group(binding.value)
            if group is not None:
                parts = fields.get(binding.var, {})
                done.update(parts.values())
                found += self._operators(group, binding, parts)
            elif binding.var not in done:
                found.append(binding)
        return found

    def _operators(
        self, group: relax.Function, binding: relax.Binding, parts: dict[int, relax.Var]
    ) -> list[relax.Binding]:
        """The operators of a group, bound to what the call's results were bound to."""
        (block,) = group.body.blocks
        *inner, last = block.bindings[:]
        mapping = _given(group.params, binding.value)
        if isinstance(last.value, relax.Tuple):
            mapping |= {
                last.value.fields[index]: var
                for index, var in parts.items()
                if last.value.fields[index] not in mapping
            }
        else:
            mapping[last.value] = binding.var
        found: list[relax.Binding] = []
        for each in inner:
            renamed = ((relax.Var, tirx.Var), lambda var: mapping.get(var, var))
            value = tvm_ffi.structural_map(
                each.value, [renamed, (tvm.ir.GlobalVar, self._function)]
            )
            if each.var not in mapping:
                ty = tvm_ffi.structural_map(each.var.ty, [renamed])
                mapping[each.var] = relax.DataflowVar(each.var.name, ty)
            found.append(relax.VarBinding(mapping[each.var], value))
        return found

    def _function(self, var: tvm.ir.GlobalVar) -> tvm.ir.GlobalVar:
        """The operator's function in the module, which may have it no more."""
        return self.builder.add_func(self.operators[var], var.name_hint)
