"""The calls of PrimFuncs and of cuDNN in a module, and what each reads of which others.

In: a Relax module in which all kernels are settled, before calls are rewritten to take their
results as arguments. Out: FunctionCalls, and of these a Flow of kernels. Must not know stitching.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_stitch.graph.front.dataflow import AND_WORKSPACE
from tvm_stitch.plan.plan import Cut
from tvm_stitch.report.data import Edge, Flow, Kernel
from tvm_stitch.report.findings.fold import folded
from tvm_stitch.report.findings.library_calls import LibraryCall, library_call
from tvm_stitch.report.findings.reasons import Between, Reasons
from tvm_stitch.report.findings.types import bytes_at, shown_type, type_bytes
from tvm_stitch.stages.extents import NOMINAL, Extents

Expr = Any


@dataclass(frozen=True)
class Read:
    """A value that a call takes, and the call that wrote it."""

    writer: int
    value: str
    bytes: int | None  # None where a symbolic shape leaves them open
    type: Any = field(default=None, compare=False)
    is_factor: bool = False  # whether the call is of a matrix product that multiplies it


@dataclass(frozen=True)
class FunctionCall:
    """One call of a PrimFunc, or of cuDNN, which may launch several kernels."""

    function: str  # the same for the same kernels
    value: str  # its result, by the name of the variable
    type: str
    reads: tuple[Read, ...]
    library: LibraryCall | None = None


def function_calls(
    mod: tvm.IRModule, factors: Mapping[str, Collection[int]]
) -> tuple[FunctionCall, ...]:
    """All calls, in order; `factors` are those arguments that products in a function multiply."""
    walk = _Walk(mod, factors)
    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            walk.body(function.body)
    return tuple(walk.calls)


@dataclass
class _Walk:
    """What has been seen of a module's bindings so far."""

    mod: tvm.IRModule
    factors: Mapping[str, Collection[int]]
    calls: list[FunctionCall] = field(default_factory=list)
    writers: dict[relax.Var, frozenset[int]] = field(default_factory=dict)

    def body(self, body: Expr) -> frozenset[int]:
        """Go through a function's or a branch's bindings; the writers of its result."""
        if not isinstance(body, relax.SeqExpr):
            return self._of(body)
        for block in body.blocks:
            for binding in block.bindings:
                self.writers[binding.var] = self._bound(binding)
        return self._of(body.body)

    def _bound(self, binding: Any) -> frozenset[int]:
        value = binding.value
        if isinstance(value, relax.If):
            return self.body(value.true_branch) | self.body(value.false_branch)
        library = library_call(value, binding.var.ty)
        function = library.key if library else _callee(self.mod, value)
        if function is None:
            return self._of(value)
        found = self._taken(value, self.factors.get(function, ()))
        name = binding.var.name.removesuffix(AND_WORKSPACE)
        self.calls.append(FunctionCall(function, name, shown_type(binding.var.ty), found, library))
        return frozenset([len(self.calls) - 1])

    def _of(self, value: Expr) -> frozenset[int]:
        """The calls that wrote what an expression is made of."""
        if isinstance(value, relax.Var):
            return self.writers.get(value, frozenset())
        parts = (self._of(part) for part in _parts(value))
        return frozenset().union(*parts)

    def _taken(self, call: Any, factors: Collection[int]) -> tuple[Read, ...]:
        """What a call reads, each value once."""
        given = [
            arg for arg in call.args if not isinstance(arg, (tvm.ir.GlobalVar, relax.ExternFunc))
        ]
        arguments = [each for arg in given for each in _fields(arg)]
        found: dict[Read, bool] = {}
        for place, arg in enumerate(arguments):
            for read in self._reads(arg):
                found[read] = found.get(read, False) or place in factors
        return tuple(replace(read, is_factor=is_factor) for read, is_factor in found.items())

    def _reads(self, value: Expr) -> Iterator[Read]:
        if isinstance(value, relax.Var):
            for writer in sorted(self.writers.get(value, ())):
                yield Read(writer, value.name, type_bytes(value.ty), value.ty)
        else:
            for part in _parts(value):
                yield from self._reads(part)


def _fields(value: Expr) -> Sequence[Expr]:
    return list(value.fields) if isinstance(value, relax.Tuple) else [value]


def _parts(value: Expr) -> Sequence[Expr]:
    if isinstance(value, relax.Tuple):
        return list(value.fields)
    if isinstance(value, relax.TupleGetItem):
        return [value.tuple_value]
    return list(value.args) if isinstance(value, tvm.ir.Call) else []


def _callee(mod: tvm.IRModule, value: Expr) -> str | None:
    """The PrimFunc that an expression calls."""
    if isinstance(value, tvm.ir.Call):
        for part in (value.op, *value.args):
            if isinstance(part, tvm.ir.GlobalVar) and isinstance(mod[part], tirx.PrimFunc):
                return str(part.name_hint)
    return None


def flow(
    calls: Sequence[FunctionCall],
    kernels: Sequence[Kernel],
    held: Mapping[str, Sequence[int]],
    cuts: Sequence[Cut],
    extents: Extents = NOMINAL,
) -> Flow:
    """The launches of calls whose functions hold these kernels, and what flows between them.

    Bytes of symbolic shapes are for the sizes of `extents`.
    """
    reasons = Reasons(kernels, cuts)
    launches: list[int] = []
    edges: list[Edge] = []
    last: dict[int, int] = {}  # launch of each call's last kernel
    for number, call in enumerate(calls):
        places = held.get(call.function, ())
        for writer, reads in _by_writer(call.reads) if places else ():
            if writer in last:
                between = _between(launches[last[writer]], places[0], reads)
                size = _bytes_at(reads, extents)
                values = tuple(read.value for read in reads)
                ends = last[writer], len(launches)
                edges.append(Edge(*ends, values, size, reasons.of(between)))
        for place in places:
            if number in last:  # a function's next kernel takes from its last
                between = Between(launches[last[number]], place, None, False)
                edges.append(Edge(last[number], len(launches), (), None, reasons.of(between)))
            last[number] = len(launches)
            launches.append(place)
    return Flow(tuple(launches), tuple(edges), folded(launches))


def _by_writer(reads: Iterable[Read]) -> list[tuple[int, list[Read]]]:
    found: dict[int, list[Read]] = {}
    for read in reads:
        found.setdefault(read.writer, []).append(read)
    return list(found.items())


def _between(writer: int, reader: int, reads: Sequence[Read]) -> Between:
    size = reads[0].bytes if len(reads) == 1 else None
    return Between(writer, reader, size, any(read.is_factor for read in reads))


def _bytes_at(reads: Sequence[Read], extents: Extents) -> int | None:
    """The bytes of values, symbolic dimensions of these sizes."""
    found = [bytes_at(r.type, extents) if r.bytes is None else r.bytes for r in reads]
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None
