"""The report's entries for the kernels of a module, stitched ones and TVM's own.

In: the lowered module, and what the passes told. Out: Kernels by the function that launches them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import tvm
from tvm import s_tir, tirx

from tvm_stitch.device import Device
from tvm_stitch.graph.back.launches import calls, kernel_names, nests
from tvm_stitch.graph.back.reverse_blocks import REVERSED
from tvm_stitch.graph.front.functions.operator_names import operator_name
from tvm_stitch.plan.plan import Group
from tvm_stitch.report.data import DEFAULT, Kernel, Stage
from tvm_stitch.report.findings.launches import FunctionCall
from tvm_stitch.report.findings.library_calls import library_kernel
from tvm_stitch.report.findings.notes import Notes
from tvm_stitch.report.findings.open_sizes import bytes_formula, sizes_assumed
from tvm_stitch.report.findings.operators import Operator
from tvm_stitch.report.findings.stitched import Fused, entry_of
from tvm_stitch.stages.extents import Extents
from tvm_stitch.stages.stage import buffer_shape, dtype_of, substitute

READY_MADE = "its TIR came with a schedule"


def kernels_by_function(
    mod: tvm.IRModule, notes: Notes, device: Device, extents: Extents
) -> dict[str, tuple[Kernel, ...]]:
    """One entry for every kernel that the module calls, and for what it asks of cuDNN."""
    describing = _Describing(mod, notes, device, extents)
    own = {name: tuple(describing.kernels(name, n)) for name, n in calls(mod).items()}
    return {**own, **describing.library_kernels()}


def places(kernels: Mapping[str, Sequence[Kernel]]) -> dict[str, range]:
    """Where the kernels of each function stand among all."""
    found, start = {}, 0
    for function, each in kernels.items():
        found[function] = range(start, start + len(each))
        start += len(each)
    return found


@dataclass(frozen=True, eq=False)
class _Describing:
    """What is the same for all kernels of a module."""

    mod: tvm.IRModule
    notes: Notes
    device: Device
    extents: Extents

    def kernels(self, name: str, launches: int) -> Iterable[Kernel]:
        """Those of one function."""
        function = self.mod[name]
        stitched = self._stitched(function, name, launches)
        if stitched is None:
            yield from self._default(function, name, launches)
            return
        if REVERSED in function.attrs:
            mapping = f"{stitched.mapping}; from the last block to the first"
            stitched = replace(stitched, mapping=mapping)
        if name in self.notes.fused:
            counted = operations(self.notes.fused[name], self.extents)
            stitched = replace(stitched, operations=counted)
        yield _with_group(stitched, self._groups[name]) if name in self._groups else stitched

    def library_kernels(self) -> dict[str, tuple[Kernel, ...]]:
        """Those of cuDNN, by what their calls have in common."""
        found: dict[str, tuple[Kernel, ...]] = {}
        numbers: Counter[str] = Counter()
        for key, each in self._calls.items():
            call = each[0].library
            if call is not None:
                number = numbers[call.function]
                kernel = library_kernel(call, number, len(each), self.device, self.extents)
                sources = self._unmistakable(key, call.name)
                stages = tuple(replace(stage, sources=sources) for stage in kernel.stages)
                found[key] = (replace(kernel, stages=stages),)
                numbers[call.function] += 1
        return found

    def _stitched(self, function: tirx.PrimFunc, name: str, launches: int) -> Kernel | None:
        describe = entry_of(function)
        if describe is None:
            return None
        held, (kernel,) = self._operators(name), kernel_names(name, 1)
        # What came with a schedule of ours was not fused.
        fused = Fused(kernel, held, self.notes.fused.get(name, function), launches)
        found = describe(fused, function, self.device, self.extents)
        return replace(found, stages=self._with_sources(name, found.stages))

    def _default(self, function: tirx.PrimFunc, name: str, launches: int) -> Iterable[Kernel]:
        held, found = self._operators(name), nests(function)
        stages = tuple(Stage(each.name, each.type, each.reads) for each in held)
        fused = self.notes.fused.get(name)
        for kernel, nest in zip(kernel_names(name, len(found)), found, strict=True):
            tensors = nest.tensors()
            least = sum(map(self.extents.bytes, tensors))
            yield Kernel(
                name=kernel,
                ops=tuple(operator.name for operator in held),
                scheme=DEFAULT,
                mapping=nest.mapping,
                bytes_min=least,
                bytes_planned=None,
                floor_us=least / self.device.bandwidth * 1e6,
                predicted_us=None,
                why=self._reasons.get(name, READY_MADE),
                launches=launches,
                formula=bytes_formula(tensors),
                sizes=sizes_assumed(tensors, self.extents),
                stages=self._with_sources(name, stages),
                operations=operations(fused, self.extents) if fused and len(found) == 1 else None,
            )

    def _operators(self, name: str) -> tuple[Operator, ...]:
        if name in self.notes.ops:
            return self.notes.ops[name]
        types = [call.type for call in self._calls.get(name, ())]
        return (Operator(operator_name(name), 0, types[0] if types else ""),)

    def _with_sources(self, name: str, stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
        """The stages with the operators that they come from, as far as that is certain."""
        places = self._origins.get(name)
        if places is None or len(places) != len(stages):
            places = [self._unmistakable(name, stage.operator) for stage in stages]
        return tuple(replace(s, sources=p) for s, p in zip(stages, places, strict=True))

    def _unmistakable(self, function: str, operator: str) -> tuple[int, ...]:
        """Operators of this name that compute a function's results, or else the only one."""
        named = self._sources_by_operator.get(operator, {})
        results = (call.value for call in self._calls.get(function, ()))
        found = tuple(named[value] for value in results if value in named)
        return found or (tuple(named.values()) if len(named) == 1 else ())

    @cached_property
    def _calls(self) -> Mapping[str, Sequence[FunctionCall]]:
        found: dict[str, list[FunctionCall]] = {}
        for call in self.notes.calls:
            found.setdefault(call.function, []).append(call)
        return found

    @cached_property
    def _reasons(self) -> Mapping[str, str]:
        return {fallback.op: fallback.reason for fallback in self.notes.left}

    @cached_property
    def _groups(self) -> Mapping[str, Group]:
        plans = self.notes.plans
        return {group.function: group for plan in plans for group in plan.groups}

    @cached_property
    def _origins(self) -> Mapping[str, Sequence[tuple[int, ...]]]:
        """By function: of each of its operators where it comes from, for each equal group."""
        found: dict[str, list[list[int]]] = {}
        for plan in self.notes.plans:
            for group in plan.groups if plan.origins else ():
                found.setdefault(group.function, []).append([plan.origins[n] for n in group.nodes])
        return {
            name: [tuple(n for n in places if n >= 0) for places in zip(*groups, strict=True)]
            for name, groups in found.items()
        }

    @cached_property
    def _sources_by_operator(self) -> Mapping[str, Mapping[str, int]]:
        """By operator and by the variable that it computes."""
        found: dict[str, dict[str, int]] = {}
        for place, source in enumerate(self.notes.sources):
            variable, _, call = source.text.partition(" = ")
            operator = call.partition("(")[0].rpartition(".")[2]
            found.setdefault(operator, {})[variable] = place
        return found


def operations(function: tirx.PrimFunc, extents: Extents) -> float | None:
    """The arithmetic of a function by TVM's count; None where it does not count."""
    symbols = {
        symbol
        for buffer in function.params
        if isinstance(buffer.ty, tirx.BufferType)
        for extent in buffer_shape(buffer)
        for symbol in tirx.analysis.undefined_vars(extent)
    }
    # TVM counts loops of symbolic length once.
    sizes = {each: tirx.IntImm(dtype_of(each), extents.size(each)) for each in symbols}
    counted = tirx.PrimFunc(list(function.params), substitute(function.body, sizes))
    try:
        return float(s_tir.analysis.estimate_tir_flops(tvm.IRModule({"main": counted})))
    except Exception:  # of what has no loops
        return None


def _with_group(kernel: Kernel, group: Group) -> Kernel:
    return replace(
        kernel,
        together=group.why,
        launches_saved=group.launches_saved,
        bytes_saved=group.bytes_saved,
    )
