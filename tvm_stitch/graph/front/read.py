"""A dataflow block becomes a StitchGraph.

In: a Relax dataflow block after LegalizeOps. Out: nodes, one for each call_tir with its stages over
the graph's own buffers, or with the reason why it cannot be stitched. Must not know what will be
stitched with what.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import filterfalse
from types import MappingProxyType
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.ir.expr import GenericConst

from tvm_stitch.graph.front.callee import Callee, Declared, operator_name
from tvm_stitch.graph.front.symbols import is_symbol, symbols_given, symbols_of
from tvm_stitch.stages.linear import numbers
from tvm_stitch.stages.op_pattern import Pattern, is_product
from tvm_stitch.stages.patterns.matmul_pattern import at_most, small_product
from tvm_stitch.stages.stage import (
    Refused,
    Stage,
    Var,
    as_int64,
    handle,
    interned,
)

Expr = Any


@dataclass(frozen=True, eq=False)
class Node:
    """One binding (with the projections of its tuple), and what it computes."""

    index: int
    bindings: tuple[relax.Binding, ...]
    name: str
    operands: tuple[Expr, ...]  # variables and constants that are tensors
    results: tuple[relax.Var, ...]  # variables that are tensors
    stages: tuple[Stage, ...]
    pattern: Pattern
    reason: str  # why it cannot be stitched; empty if it can
    function: int = 0  # equal for nodes that call equal PrimFuncs
    is_static: bool = False  # whether all of its shapes are numbers
    is_composite: bool = False  # whether it is several operators, a product last

    @property
    def call(self) -> tvm.ir.Call:
        """The call of the first binding."""
        return self.bindings[0].value

    @cached_property
    def variables(self) -> tuple[relax.Var, ...]:
        """What its bindings bind."""
        return tuple(interned(binding.var) for binding in self.bindings)

    @cached_property
    def used(self) -> tuple[tuple[relax.Var, ...], ...]:
        """For each of its bindings, the variables in what it binds."""
        free = (relax.analysis.free_vars(binding.value)[:] for binding in self.bindings)
        return tuple(tuple(map(interned, each)) for each in free)

    @property
    def is_operator(self) -> bool:
        """Whether it does something at run time, other than putting tuples together."""
        return isinstance(self.bindings[0], relax.MatchCast) or isinstance(self.call, tvm.ir.Call)


@dataclass(frozen=True, eq=False)
class StitchGraph:
    """Nodes in order, the buffer that stands for each value, and what is used outside."""

    nodes: tuple[Node, ...]
    buffers: dict[Any, Var]  # relax.Var, or the handle of a constant -> buffer
    used_outside: frozenset[relax.Var]

    @cached_property
    def producer(self) -> dict[relax.Var, int]:
        """The node that computes a variable."""
        return {var: node.index for node in self.nodes for var in node.variables}

    @cached_property
    def found_by(self) -> dict[Var, relax.Var]:
        """For every symbol that the block finds at run time, the variable whose shape tells it."""
        bindings = [binding for node in self.nodes for binding in node.bindings]
        if not any(isinstance(binding, relax.MatchCast) for binding in bindings):
            return {}
        # What comes from outside has brought its symbols along: they are but checked.
        used = {var for binding in bindings for var in relax.analysis.free_vars(binding.value)}
        known = {symbol for var in used - set(self.producer) for symbol in symbols_of(var.ty)}
        found: dict[Var, relax.Var] = {}
        for binding in bindings:
            if isinstance(binding, relax.MatchCast):
                for symbol in relax.analysis.definable_tir_vars_in_type(binding.ty):
                    if symbol not in known:
                        found.setdefault(symbol, binding.var)
        return found

    def told(self, binding: relax.Binding) -> set[Var]:
        """The symbols of a binding that the block finds at run time.

        Its result has them, or what it reads, which then comes after them.
        """
        if not self.found_by:
            return set()
        symbols = (*relax.analysis.free_vars(binding.value), *symbols_of(binding.var.ty))
        return {symbol for symbol in symbols if symbol in self.found_by}

    def needs(self, binding: relax.Binding) -> set[relax.Var]:
        """What must be computed before a binding: what it reads, and what tells its symbols."""
        told = {self.found_by[symbol] for symbol in self.told(binding)}
        return {*relax.analysis.free_vars(binding.value), *told} - {binding.var}

    @cached_property
    def sources(self) -> tuple[frozenset[int], ...]:
        """For every node, the nodes that must have run before it."""
        found = []
        for node in self.nodes:
            used = {self.producer.get(var) for reads in node.used for var in reads}
            for binding in node.bindings if self.found_by else ():
                used.update(map(self.producer.get, self.needs(binding)))
            found.append(frozenset(used - {None, node.index}))
        return tuple(found)  # type: ignore[arg-type]

    @cached_property
    def users(self) -> tuple[frozenset[int], ...]:
        """For every node, the nodes that must wait for it."""
        found: list[set[int]] = [set() for _ in self.nodes]
        for node, sources in enumerate(self.sources):
            for source in sources:
                found[source].add(node)
        return tuple(map(frozenset, found))

    @cached_property
    def users_of(self) -> dict[relax.Var, frozenset[int]]:
        """For every variable, the nodes that use it."""
        found: dict[relax.Var, set[int]] = {}
        for node in self.nodes:
            for reads in node.used:
                for var in reads:
                    if self.producer.get(var) != node.index:
                        found.setdefault(var, set()).add(node.index)
        return {var: frozenset(users) for var, users in found.items()}

    def without(self, reasons: Mapping[relax.Var, str]) -> StitchGraph:
        """The graph with nodes that may not be stitched: those that compute these variables."""
        if self.producer.keys().isdisjoint(reasons):
            return self
        nodes = []
        for node in self.nodes:
            reason = next((reasons[b.var] for b in node.bindings if b.var in reasons), "")
            nodes.append(replace(node, reason=node.reason or reason))
        return replace(self, nodes=tuple(nodes))

    def buffer(self, value: Expr) -> Var:
        """The buffer of a tensor-valued variable or constant."""
        return self.buffers[_key(value)]


def read_block(
    mod: tvm.IRModule,
    block: relax.DataflowBlock,
    bounds: Mapping[str, int] = MappingProxyType({}),
) -> StitchGraph:
    """Read one dataflow block; `bounds` are those of its function's symbols, by name."""
    return _Reader(mod, bounds).read(block)


def _key(value: Expr) -> Any:
    return value if isinstance(value, relax.Var) else handle(value)


class _Reader:
    def __init__(self, mod: tvm.IRModule, bounds: Mapping[str, int]) -> None:
        self.mod, self.bounds = mod, bounds
        self.buffers: dict[Any, Var] = {}
        self.shapes: dict[Any, tuple[int, ...] | None] = {}  # of buffers; None: with symbols
        self.callees: dict[tvm.ir.GlobalVar, Callee] = {}
        self.nodes: list[Node] = []
        self.declared: dict[Any, Declared] = {}  # extents of values

    def read(self, block: relax.DataflowBlock) -> StitchGraph:
        projections = self._projections(block)
        taken: set[relax.Var] = set()
        for binding in block.bindings[:]:
            if binding.var in taken:
                continue
            parts = projections.get(binding.var, ())
            taken.update(part.var for part in parts)
            self.nodes.append(self._node((binding, *parts)))
        variables = (interned(binding.var) for binding in block.bindings[:])
        outside = frozenset(var for var in variables if not isinstance(var, relax.DataflowVar))
        return StitchGraph(tuple(self.nodes), self.buffers, outside)

    def _projections(
        self, block: relax.DataflowBlock
    ) -> dict[relax.Var, tuple[relax.Binding, ...]]:
        """For every call_tir that gives a tuple: its projections, if nothing else uses it."""
        tuples = {
            binding.var
            for binding in block.bindings[:]
            if isinstance(binding.var, relax.DataflowVar)
            and is_call_tir(binding.value)
            and isinstance(binding.var.ty, relax.TupleType)
        }
        parts: dict[relax.Var, list[relax.Binding]] = {}
        for binding in block.bindings[:]:
            value = binding.value
            if isinstance(value, relax.TupleGetItem) and value.tuple_value in tuples:
                parts.setdefault(value.tuple_value, []).append(binding)
            else:
                tuples -= set(relax.analysis.free_vars(value))
        return {var: tuple(found) for var, found in parts.items() if var in tuples}

    def _node(self, bindings: tuple[relax.Binding, ...]) -> Node:
        value = bindings[0].value
        results = tuple(
            interned(binding.var)
            for binding in bindings[1:] or bindings
            if isinstance(binding.var.ty, relax.TensorType)
        )
        name, reason = _describe(value), ""
        operands: tuple[Expr, ...] = ()
        stages: tuple[Stage, ...] = ()
        callee: Callee | None = None
        if isinstance(bindings[0], relax.MatchCast):
            name, reason = "match_cast", "it checks a shape at run time"
        elif name == "builtin.alloc_tensor":  # as graph/front/empty makes them
            reason = "it has no elements, or none yet"
        elif not is_call_tir(value):
            reason = "TVM has no TIR for it"
        else:
            callee = self._callee(value)
            name = callee.name
            operands = tuple(map(interned, filterfalse(is_symbol, value.args[1].fields[:])))
            reason = self._unreadable(value, bindings, operands)
            if not reason:
                found = self._stages_of(value, bindings, operands)
                if isinstance(found, Refused):
                    reason = found.reason
                else:
                    stages = found
        pattern = callee.pattern(stages) if callee and stages else Pattern.OPAQUE
        if name == "reshape" and not stages:  # of a shape known at run time only: still a view
            pattern = Pattern.RESHAPE
        if pattern is Pattern.PRODUCT and (why := self._too_large(stages)) is not None:
            reason = f"a matrix product or convolution: {why}"
        return Node(
            len(self.nodes), bindings, name, operands, results, stages, pattern, reason,
            callee.hash if callee else 0, self._is_static((*operands, *results)),
        )  # fmt: skip

    def _too_large(self, stages: tuple[Stage, ...]) -> str | None:
        """Why one of them is a matrix product that no stitched kernel takes, if so."""
        for stage in stages:
            if stage.is_reduction and is_product(stage):
                found = small_product(at_most(stage, self.bounds) or stage)
                if isinstance(found, Refused):
                    return found.reason
        return None

    def _is_static(self, values: Iterable[Expr]) -> bool:
        return all(self.shapes.get(_key(value)) is not None for value in values)

    def _unreadable(
        self, call: tvm.ir.Call, bindings: tuple[relax.Binding, ...], operands: tuple[Expr, ...]
    ) -> str:
        for operand in operands:
            if not isinstance(operand, (relax.Var, GenericConst)):
                return f"an operand is a {type(operand).__name__}"
            if not _has_static_rank(operand):
                return "an operand's rank or dtype is unknown"
        tuple_result = isinstance(bindings[0].var.ty, relax.TupleType)
        if tuple_result and len(bindings) == 1:
            return "its tuple is used as a whole"
        if not all(map(_has_static_rank, (b.var for b in bindings[1:] or bindings))):
            return "a result's rank or dtype is unknown"
        return ""

    def _stages_of(
        self, call: tvm.ir.Call, bindings: tuple[relax.Binding, ...], operands: tuple[Expr, ...]
    ) -> tuple[Stage, ...] | Refused:
        """The PrimFunc's stages over this graph's buffers and shape variables."""
        callee = self._callee(call)
        if isinstance(callee.stages, Refused):
            return callee.stages
        results = self._results(bindings, len(callee.buffers) - len(operands))
        if results is None:
            return Refused("results of its tuple are not used")
        values = (*operands, *results)
        refused = self._declared_otherwise(callee, values)
        if refused is not None:
            return refused
        given = tuple(map(self._buffer, values))
        shapes = tuple(self.shapes[_key(value)] for value in values)
        return callee.called_with(given, shapes, symbols_given(call))

    def _callee(self, call: tvm.ir.Call) -> Callee:
        var = call.args[0]
        if var not in self.callees:
            self.callees[var] = Callee(operator_name(var.name_hint), self.mod[var])
        return self.callees[var]

    def _declared_otherwise(self, callee: Callee, values: tuple[Expr, ...]) -> Refused | None:
        """Whether a function declares a value unlike others do: FuseTIR would not join them."""
        for param, declared, value in zip(callee.buffers, callee.declared, values, strict=True):
            if isinstance(declared, Refused):
                return declared
            if self.declared.setdefault(_key(value), declared) != declared:
                return Refused(f"its TIR declares {param.name} unlike the TIR of its neighbours")
        return None

    def _results(
        self, bindings: tuple[relax.Binding, ...], count: int
    ) -> tuple[relax.Var, ...] | None:
        """The variables of the results in the order of the function's parameters."""
        if len(bindings) == 1:
            return (interned(bindings[0].var),) if count == 1 else None
        by_index = {binding.value.index: interned(binding.var) for binding in bindings[1:]}
        if len(by_index) != count or len(bindings) - 1 != count:
            return None
        return tuple(by_index[index] for index in range(count))

    def _buffer(self, value: Expr) -> Var:
        key = _key(value)
        if key not in self.buffers:
            name = value.name if isinstance(value, relax.Var) else "constant"
            shape = tuple(as_int64(extent) for extent in value.ty.shape.values[:])
            self.buffers[key] = tirx.decl_buffer(shape, value.ty.dtype, name, layout=None)
            self.shapes[key] = numbers(shape)
        return self.buffers[key]


def is_call_tir(value: Expr) -> bool:
    """Whether a value is what a PrimFunc computes."""
    return isinstance(value, tvm.ir.Call) and getattr(value.op, "name", "") == "relax.call_tir"


def _has_static_rank(value: Expr) -> bool:
    ty = value.ty
    return (
        isinstance(ty, relax.TensorType)
        and isinstance(ty.shape, relax.ShapeExpr)
        and bool(ty.dtype)
    )


def _describe(value: Expr) -> str:
    if isinstance(value, tvm.ir.Call):
        if value.args and isinstance(value.args[0], relax.ExternFunc):
            return value.args[0].global_symbol.rpartition(".")[2]  # relax.run.unique
        name = getattr(value.op, "name", getattr(value.op, "name_hint", "call"))
        return name.removeprefix("relax.")
    return type(value).__name__
