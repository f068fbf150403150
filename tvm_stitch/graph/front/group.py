"""Groups of bindings become Primitive functions, which FuseTIR merges.

In: a Relax function's dataflow block, its StitchGraph and a Plan's groups. Out: the block with one
call for each group, and the functions. This stands where FuseOps stands in TVM's pipeline.
"""

from __future__ import annotations

import heapq
from collections import Counter
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.ir.expr import GenericConst

from tvm_stitch.graph.front.read import Node, StitchGraph, is_call_tir
from tvm_stitch.graph.front.symbols import symbols_given, symbols_of
from tvm_stitch.stages.visit import mapped

Expr = Any
MAX_NAME = 60


class Grouping:
    """Collects the functions of all groups of a module; the builder keeps equal ones once."""

    def __init__(self, mod: tvm.IRModule) -> None:
        self.builder = relax.BlockBuilder(mod)

    def rewrite(
        self,
        graph: StitchGraph,
        groups: list[tuple[tuple[int, ...], tuple[Expr, ...]]],
        kept: frozenset[int] = frozenset(),
    ) -> tuple[relax.DataflowBlock, tuple[str, ...]]:
        """The block with every group (nodes, output variables) as one call; the functions' names.

        A node that is in several groups is computed in each; one that is `kept` stays as well.
        """
        covered = {index for nodes, _ in groups for index in nodes} - kept
        items: list[tuple[tuple[int, ...], list[relax.Binding]]] = [
            ((node.index,), list(node.bindings))
            for node in graph.nodes
            if node.index not in covered
        ]
        calls = [self._call(graph, nodes, outputs) for nodes, outputs in groups]
        items += [(nodes, found) for (nodes, _), (_, found) in zip(groups, calls, strict=True)]
        return relax.DataflowBlock(_in_order(graph, items)), tuple(name for name, _ in calls)

    def _call(
        self, graph: StitchGraph, nodes: tuple[int, ...], outputs: tuple[Expr, ...]
    ) -> tuple[str, list[relax.Binding]]:
        members = [graph.nodes[index] for index in nodes]
        function, arguments = function_of(members, outputs, Primitive=True)
        var = self.builder.add_func(function, _name(members))
        call = tvm.ir.Call(var, arguments)
        if len(outputs) == 1:
            return var.name_hint, [relax.VarBinding(outputs[0], _typed(call, outputs[0].ty))]
        together = relax.TupleType([output.ty for output in outputs])
        results = relax.DataflowVar(f"{var.name_hint}_results", together)
        bindings: list[relax.Binding] = [relax.VarBinding(results, _typed(call, together))]
        for index, output in enumerate(outputs):
            bindings.append(relax.VarBinding(output, relax.TupleGetItem(results, index)))
        return var.name_hint, bindings


def _typed(call: tvm.ir.Call, ty: Any) -> tvm.ir.Call:
    return tvm.ir.Call(call.op, call.args, ret_ty=ty)


def _name(members: list[Node]) -> str:
    names = list(dict.fromkeys(node.name for node in members))
    return ("stitched_" + "_".join(names))[:MAX_NAME].rstrip("_")


def function_of(
    members: list[Node], outputs: tuple[Expr, ...], **attributes: Any
) -> tuple[relax.Function, list[Expr]]:
    """A function of the members with these attributes, and the arguments to call it with.

    Symbols that no parameter's shape tells come behind the tensors, as TVM's FuseOps has them.
    """
    inside = {binding.var for node in members for binding in node.bindings}
    mapping: dict[Any, relax.Var] = {}
    arguments: list[Expr] = []
    named: Counter[str] = Counter()
    for node in members:
        for operand in node.operands:
            key = operand if isinstance(operand, relax.Var) else operand.__chandle__()
            if operand not in inside and key not in mapping:
                name = operand.name if isinstance(operand, relax.Var) else "constant"
                number = f"_{named[name]}" if named[name] else ""
                named[name] += 1
                mapping[key] = relax.Var(name + number, operand.ty)
                arguments.append(operand)
    params = list(mapping.values())
    symbols = _untold(members, params)
    if symbols:
        params.append(relax.Var("tir_vars", relax.ShapeType(symbols)))
        arguments.append(relax.ShapeExpr(symbols))

    def renamed(expr: Expr) -> Expr:
        key = expr if isinstance(expr, relax.Var) else expr.__chandle__()
        return mapping.get(key, expr)

    bindings: list[relax.Binding] = []
    for node in members:
        for binding in node.bindings:
            value = mapped(binding.value, (relax.Var, renamed), (GenericConst, renamed))
            ty = binding.var.ty
            mapping[binding.var] = relax.DataflowVar(binding.var.name, ty)
            bindings.append(relax.VarBinding(mapping[binding.var], value))
    result = [mapping[output] for output in outputs]
    value = result[0] if len(result) == 1 else relax.Tuple(result)
    ty = outputs[0].ty if len(outputs) == 1 else relax.TupleType([o.ty for o in outputs])
    returned = relax.Var("result", ty)
    bindings.append(relax.VarBinding(returned, value))
    body = relax.SeqExpr([relax.DataflowBlock(bindings)], returned)
    attrs = tvm.ir.make_node("ir.DictAttrs", **attributes)
    return relax.Function(params, body, ty, True, attrs), arguments


def _untold(members: list[Node], params: list[relax.Var]) -> list[Expr]:
    """The symbols in what members compute, or are given, that are no extent of a parameter."""
    told = {symbol for p in params for symbol in relax.analysis.definable_tir_vars_in_type(p.ty)}
    bindings = [binding for node in members for binding in node.bindings]
    used = dict.fromkeys(symbol for b in bindings for symbol in symbols_of(b.var.ty))
    given = (arg for b in bindings if is_call_tir(b.value) for arg in symbols_given(b.value))
    used |= dict.fromkeys(var for arg in given for var in tirx.analysis.undefined_vars(arg))
    return [symbol for symbol in used if symbol not in told]


def _in_order(
    graph: StitchGraph,
    items: list[tuple[tuple[int, ...], list[relax.Binding]]],
) -> list[relax.Binding]:
    """Bindings such that each follows what it uses; otherwise in the order of the nodes."""
    defined_by = {b.var: number for number, (_, found) in enumerate(items) for b in found}
    waiting: list[set[int]] = []
    for number, (_, bindings) in enumerate(items):
        used = {var for b in bindings for var in graph.needs(b)}
        waiting.append({defined_by[var] for var in used if var in defined_by} - {number})
    users: dict[int, list[int]] = {}
    for number, needs in enumerate(waiting):
        for need in needs:
            users.setdefault(need, []).append(number)
    ready = [(items[number][0], number) for number, needs in enumerate(waiting) if not needs]
    heapq.heapify(ready)
    ordered: list[relax.Binding] = []
    while ready:
        _, number = heapq.heappop(ready)
        ordered.extend(items[number][1])
        for user in users.get(number, []):
            waiting[user].discard(number)
            if not waiting[user]:
                heapq.heappush(ready, (items[user][0], user))
    return ordered
