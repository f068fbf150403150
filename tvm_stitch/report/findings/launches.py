"""The calls of PrimFuncs and of cuDNN in a module, and what each reads of which others.

In: a Relax module in which all kernels are settled, before calls are rewritten to take their
results as arguments. Out: FunctionCalls, and of these a Flow of kernels. Must not know stitching.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tvm
from tvm import relax, tirx

from tvm_stitch.graph.front.dataflow import AND_WORKSPACE
from tvm_stitch.kernel.tensor_core.tiles import ON_TENSOR_CORES
from tvm_stitch.plan.plan import Cut
from tvm_stitch.report.data import Edge, Flow, Kernel
from tvm_stitch.report.findings.fold import folded
from tvm_stitch.report.findings.library_calls import LibraryCall, library_call
from tvm_stitch.report.findings.operators import operator_name
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


@dataclass(frozen=True)
class FunctionCall:
    """One call of a PrimFunc, or of cuDNN, which may launch several kernels."""

    function: str  # the same for the same kernels
    value: str  # its result, by the name of the variable
    type: str
    reads: tuple[Read, ...]
    library: LibraryCall | None = None


def function_calls(mod: tvm.IRModule) -> tuple[FunctionCall, ...]:
    """All calls, in order."""
    walk = _Walk(mod)
    for function in mod.functions.values():
        if isinstance(function, relax.Function):
            walk.body(function.body)
    return tuple(walk.calls)


@dataclass
class _Walk:
    """What has been seen of a module's bindings so far."""

    mod: tvm.IRModule
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
        reads = (self._reads(arg) for arg in value.args)
        found = tuple(dict.fromkeys(read for each in reads for read in each))
        name = binding.var.name.removesuffix(AND_WORKSPACE)
        self.calls.append(FunctionCall(function, name, shown_type(binding.var.ty), found, library))
        return frozenset([len(self.calls) - 1])

    def _of(self, value: Expr) -> frozenset[int]:
        """The calls that wrote what an expression is made of."""
        if isinstance(value, relax.Var):
            return self.writers.get(value, frozenset())
        parts = (self._of(part) for part in _parts(value))
        return frozenset().union(*parts)

    def _reads(self, value: Expr) -> Iterator[Read]:
        if isinstance(value, relax.Var):
            for writer in sorted(self.writers.get(value, ())):
                yield Read(writer, value.name, type_bytes(value.ty), value.ty)
        else:
            for part in _parts(value):
                yield from self._reads(part)


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
    reasons = _Reasons(kernels, cuts)
    launches: list[int] = []
    edges: list[Edge] = []
    sizes: list[int | None] = []  # of their values, where shapes are symbolic
    last: dict[int, int] = {}  # launch of each call's last kernel
    for number, call in enumerate(calls):
        for writer, reads in _by_writer(call.reads):
            if writer in last and held.get(call.function):
                edges.append(_edge(last[writer], len(launches), reads))
                sizes.append(_bytes_at(reads, extents))
        for place in held.get(call.function, ()):
            if number in last:  # a function's next kernel takes from its last
                edges.append(Edge(last[number], len(launches), (), None))
                sizes.append(None)
            last[number] = len(launches)
            launches.append(place)
    found = (reasons.given(edge, launches) for edge in edges)
    sized = tuple(
        replace(edge, bytes=size) if edge.bytes is None else edge
        for edge, size in zip(found, sizes, strict=True)
    )
    return Flow(tuple(launches), sized, folded(launches))


def _by_writer(reads: Iterable[Read]) -> list[tuple[int, list[Read]]]:
    found: dict[int, list[Read]] = {}
    for read in reads:
        found.setdefault(read.writer, []).append(read)
    return list(found.items())


def _edge(writer: int, reader: int, reads: Sequence[Read]) -> Edge:
    known = [read.bytes for read in reads if read.bytes is not None]
    total = sum(known) if len(known) == len(reads) else None
    return Edge(writer, reader, tuple(read.value for read in reads), total)


def _bytes_at(reads: Sequence[Read], extents: Extents) -> int | None:
    """The bytes of values, symbolic dimensions of these sizes."""
    found = [bytes_at(read.type, extents) for read in reads]
    known = [each for each in found if each is not None]
    return sum(known) if len(known) == len(found) else None


class _Reasons:
    """Why two kernels are not one, by what the planner said of their operators."""

    def __init__(self, kernels: Sequence[Kernel], cuts: Sequence[Cut]) -> None:
        self._kernels = kernels
        self._cuts = [(_named(cut.writer), _named(cut.reader), cut) for cut in cuts]
        self._of_writer: dict[int, list[tuple[frozenset[str], Cut]]] = {}
        self._found: dict[tuple[int, int, int | None], str] = {}

    def given(self, edge: Edge, launches: Sequence[int]) -> Edge:
        """The edge with its reason."""
        size = edge.bytes if len(edge.values) == 1 else None
        key = launches[edge.writer], launches[edge.reader], size
        if key not in self._found:
            self._found[key] = self._reason(*key)
        return replace(edge, reason=self._found[key])

    def _reason(self, writer: int, reader: int, size: int | None) -> str:
        for kernel in (self._kernels[writer], self._kernels[reader]):
            if not kernel.stitched:
                whose = "the library's" if kernel.by_library else "TVM's own"
                return f"{kernel.name} is {whose}: {kernel.why}"
        held = frozenset(self._kernels[reader].ops)
        fitting = [
            cut
            for names, cut in self._written_by(writer)
            if names <= held and size in (None, cut.bytes)
        ]
        best = max(fitting, key=lambda cut: len(cut.writer) + len(cut.reader), default=None)
        return best.reason if best else self._by_tensor_cores(writer, reader)

    def _by_tensor_cores(self, writer: int, reader: int) -> str:
        """The reason that such kernels have by themselves, which no cut tells."""
        if ON_TENSOR_CORES in self._kernels[reader].mapping:
            return "a product on tensor cores reads its operands from memory: it begins a kernel"
        if ON_TENSOR_CORES in self._kernels[writer].mapping:
            return "a product on tensor cores ends with its element-wise epilogue"
        return ""

    def _written_by(self, writer: int) -> list[tuple[frozenset[str], Cut]]:
        """The cuts behind a kernel, with the operators that read."""
        if writer not in self._of_writer:
            held = frozenset(self._kernels[writer].ops)
            found = [(reads, cut) for writes, reads, cut in self._cuts if writes <= held]
            self._of_writer[writer] = found
        return self._of_writer[writer]


def _named(nodes: Iterable[str]) -> frozenset[str]:
    return frozenset(map(operator_name, nodes))
