"""The passes, for those who build their own pipeline.

Decompose()                       compound operators become stages, before LegalizeOps
Approximate()                     costly functions by fast ones, after LegalizeOps
StitchOps(target, options)        stands where relax.transform.FuseOps stood, or before it
StitchSchedule(target, database)  fused functions become kernels, after FuseTIR
FewerCalls()                      less work for the virtual machine, after VMShapeLower
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, tirx

from tvm_stitch import timing
from tvm_stitch.device import Device, device_of
from tvm_stitch.errors import InputError
from tvm_stitch.graph.back.alternate_traversal import with_alternate_traversal
from tvm_stitch.graph.back.dissolve import dissolved, group_names, with_groups, without_groups
from tvm_stitch.graph.back.vm_calls.fewer_calls import FewerCalls
from tvm_stitch.graph.back.workspace import with_workspaces
from tvm_stitch.graph.front import decompose
from tvm_stitch.graph.front.functions.approximate import Approximate
from tvm_stitch.graph.front.functions.erf import SumOfErf
from tvm_stitch.graph.front.group import Grouping
from tvm_stitch.graph.front.read import StitchGraph, read_block
from tvm_stitch.kernel.build import VIEW, is_emitted, is_library_call, kernel_of
from tvm_stitch.kernel.choose import NO_BOUNDS, Bounds
from tvm_stitch.kernel.ir.mapping import LIBRARY
from tvm_stitch.kernel.library_product.build import with_timed_algorithms
from tvm_stitch.kernel.stated_sizes import with_stated_sizes
from tvm_stitch.options import Options
from tvm_stitch.plan.measured import measured
from tvm_stitch.plan.measured_products import faster_without
from tvm_stitch.plan.plan import Fallback, Plan
from tvm_stitch.plan.planner import Known, Timed, plan_graph
from tvm_stitch.plan.processes.job import Source
from tvm_stitch.plan.saved import saved
from tvm_stitch.plan.search.dequantize import with_dequantized_weights
from tvm_stitch.plan.shared import once
from tvm_stitch.stages.extents import EXPECTED_SIZES, UPPER_BOUND, points_of, sizes_stated
from tvm_stitch.stages.stage import Refused
from tvm_stitch.target import cuda_target
from tvm_stitch.tuning.apply import Database, Records
from tvm_stitch.tuning.clock import GpuClock
from tvm_stitch.workarounds.few_collections import few_collections

# What is left to a product where one of its ways is switched off: kernels of ours want all threads
# of a block.
WITHOUT_LIBRARY, WITHOUT_OURS = frozenset({LIBRARY}), frozenset({"regional"})

__all__ = ["Approximate", "Decompose", "FewerCalls", "StitchOps", "StitchSchedule"]

# So that it comes out of TVM's pass infrastructure as what it was.
tvm_ffi.register_error("InputError", InputError)


def Decompose() -> tvm.transform.Pass:
    """Write compound operators out as stages that accumulate in float32; put it before LegalizeOps.

    Where erf goes into a sum with a constant, as in GELU, it becomes cheaper TIR. Matrix products
    read transposed and reshaped operands where they lie.
    """
    return tvm.transform.Sequential([decompose.Decompose(), SumOfErf()], name="Decompose")


def StitchOps(
    target: Any, options: Options | None = None, log: list[Plan] | None = None
) -> tvm.transform.Pass:
    """Group operators that one kernel can hold; FuseTIR then merges each group.

    Put it after LegalizeOps and AnnotateTIROpPattern. What it leaves alone can go through
    relax.transform.FuseOps afterwards. `log` receives the Plan of every dataflow block.
    """
    cuda = cuda_target(target)

    @tvm.transform.module_pass(opt_level=0, name="StitchOps")
    def stitch_ops(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        with few_collections():
            stitched = grouped(mod, cuda, options, log is not None)
        if log is not None:
            log.extend(plan for _, plan in stitched.blocks)
        return stitched.module

    return stitch_ops


@dataclass(frozen=True)
class Grouped:
    """A module whose groups are functions, and the graph and plan of each dataflow block."""

    grouped: tvm.IRModule
    blocks: tuple[tuple[StitchGraph, Plan], ...]
    names: frozenset[str]  # of the groups' functions

    @property
    def module(self) -> tvm.IRModule:
        """The module, remembering what its groups are made of in case that no kernel holds one."""
        return with_groups(self.grouped, self.names)


def grouped(
    mod: tvm.IRModule,
    target: Any,
    options: Options | None = None,
    explained: bool = False,
    left: Mapping[relax.Var, str] = MappingProxyType({}),
    known: Known | None = None,
) -> Grouped:
    """What StitchOps does; what computes a variable of `left` stays out, for the reason given.

    `known` are the planner's, from this module before something was left out.
    """
    cuda = cuda_target(target)
    device = device_of(cuda)
    chosen, known = options or Options(), known or Known()
    known.deadline(chosen)  # reading counts
    grouping = Grouping(mod)
    blocks: list[tuple[StitchGraph, Plan]] = []
    with _timing(mod, cuda, chosen) as timed:
        for var, function in mod.functions_items():
            if not isinstance(function, relax.Function) or "Primitive" in (function.attrs or {}):
                continue
            planned = _plan_function(
                mod, var, function, device, chosen, explained, timed, left, known
            )
            rewritten, named = _group_function(function, planned, grouping)
            grouping.builder.update_func(var, rewritten)
            graphs = (graph for graph, _ in planned.values())
            blocks += zip(graphs, named, strict=True)
    # Gives the new bodies their types.
    found = relax.transform.Normalize()(grouping.builder.get())
    names = {group.function for _, plan in blocks for group in plan.groups}
    return Grouped(found, tuple(blocks), frozenset(names))


@contextmanager
def _timing(mod: tvm.IRModule, cuda: tvm.target.Target, options: Options) -> Iterator[Timed | None]:
    """What times a region of the module, if anything is to be timed."""
    if not options.measure:
        yield None
        return
    with closing(GpuClock(cuda, options.ways, options.dependent_launch)) as clock:
        yield lambda region, plan: measured(mod, region, plan, clock)


def _plan_function(
    mod: tvm.IRModule,
    var: tvm.ir.GlobalVar,
    function: relax.Function,
    device: Device,
    options: Options,
    explained: bool,
    timed: Timed | None,
    left: Mapping[relax.Var, str],
    known: Known,
) -> dict[int, tuple[StitchGraph, Plan]]:
    """A plan for each dataflow block, by its number."""
    bounds = bounds_of(function, options)
    found: dict[int, tuple[StitchGraph, Plan]] = {}
    for number, block in enumerate(function.body.blocks):
        if isinstance(block, relax.DataflowBlock):
            read = read_block(mod, block, dict(bounds.of)).without(left)
            graph = with_dequantized_weights(read, device, bounds, options)
            block_name = f"{var.name_hint}/{number}"
            if options.plan is not None:
                plan = options.plan.block(block_name, graph)
            else:
                source = Source(mod, var.name_hint, number, left)
                plan = plan_graph(graph, device, bounds, options, explained, timed, known, source)
            if explained:
                plan = replace(plan, saved=saved(block_name, graph, plan))
            found[number] = graph, plan
    return found


def _group_function(
    function: relax.Function, planned: dict[int, tuple[StitchGraph, Plan]], grouping: Grouping
) -> tuple[relax.Function, list[Plan]]:
    """The function with its groups as calls, and the plans with the groups' names."""
    blocks, plans = list(function.body.blocks), []
    for number, (graph, plan) in planned.items():
        groups = [(group.nodes, group.outputs) for group in plan.groups]
        blocks[number], names = grouping.rewrite(graph, groups, plan.kept)
        named = (replace(g, function=name) for g, name in zip(plan.groups, names, strict=True))
        plans.append(replace(plan, groups=tuple(named)))
    body = relax.SeqExpr(blocks, function.body.body)
    params, returns = function.params, function.ret_ty
    return relax.Function(params, body, returns, function.is_pure, function.attrs), plans


def bounds_of(function: relax.Function, options: Options | None = None) -> Bounds:
    """Upper bounds of symbolic dimensions that a function states, and their usual sizes."""
    return _bounds([function], options)


def bounds_of_module(mod: tvm.IRModule, options: Options | None = None) -> Bounds:
    """The same of all functions of a module."""
    functions = [f for f in mod.functions.values() if isinstance(f, relax.Function)]
    return _bounds(functions, options)


def _bounds(functions: Sequence[relax.Function], options: Options | None) -> Bounds:
    upper, expected = (_stated(functions, name) for name in (UPPER_BOUND, EXPECTED_SIZES))
    sizes = {} if options is None else options.extents
    return Bounds(tuple(sorted(upper)), points_of(sizes, dict(upper)), tuple(sorted(expected)))


def _stated(functions: Sequence[relax.Function], attribute: str) -> set[tuple[str, int]]:
    """What functions say of symbols."""
    stated = ((function.attrs or {}).get(attribute, {}) for function in functions)
    return {(str(name), int(value)) for each in stated for name, value in each.items()}


def StitchSchedule(
    target: Any,
    database: Database | None = None,
    options: Options | None = None,
    log: list[Fallback] | None = None,
) -> tvm.transform.Pass:
    """Turn every PrimFunc that one stitched kernel can hold into that kernel.

    Put it after FuseTIR and before DLight, which skips what is scheduled. Of a group that no kernel
    can hold after all, TVM's own FuseOps fuses the operators. `database` is the path of a record
    store, by which tuned kernels get their best schedule. `log` receives what stays, and why.
    """
    device = device_of(cuda_target(target))
    records = None if database is None else Records.open(database, device)
    chosen = options or Options()

    @tvm.transform.module_pass(opt_level=0, name="StitchSchedule")
    def stitch_schedule(mod: tvm.IRModule, _context: Any) -> tvm.IRModule:
        bounds = bounds_of_module(mod, chosen)
        points = sizes_stated(chosen.extents, dict(bounds.of))

        def kernel_of(function: tirx.PrimFunc, without: Set[str]) -> tirx.PrimFunc | Refused:
            schemes = _without(chosen, without)
            if records is not None or bounds != NO_BOUNDS:  # which name symbols of this module
                return _kernel(function, records, device, bounds, schemes)
            return once(
                lambda: (tvm_ffi.StructuralKey(function), repr(device), schemes),
                lambda: _kernel(function, None, device, NO_BOUNDS, schemes),
            )

        slower = _slower_ways(mod, cuda_target(target), chosen, kernel_of)
        refused: dict[str, str] = {}
        while True:
            mod = mod.clone()
            functions = mod.functions_items()
            for number, (var, function) in enumerate(functions):
                timing.step(timing.WRITING, number, len(functions))
                if not isinstance(function, tirx.PrimFunc) or "tirx.is_scheduled" in function.attrs:
                    continue
                kernel = kernel_of(function, slower.get(var.name_hint, frozenset()))
                if points and not isinstance(kernel, Refused):
                    kernel = with_stated_sizes(function, kernel, points, device, kernel_of)
                if not isinstance(kernel, Refused):
                    is_timed = chosen.timed_products or chosen.measure
                    mod.update_func(var, with_timed_algorithms(kernel) if is_timed else kernel)
                    refused.pop(var.name_hint, None)
                elif kernel is not VIEW:
                    refused[var.name_hint] = kernel.reason
            lost = refused.keys() & group_names(mod) & {v.name_hint for v in mod.functions}
            if not lost:
                break
            mod = dissolved(mod, sorted(lost))
        if log is not None:
            log.extend(Fallback(name, reason) for name, reason in refused.items())
        if records is not None:
            records.warn()
        mod = with_workspaces(without_groups(mod))
        return with_alternate_traversal(mod, device.l2_size, points)

    return stitch_schedule


def _slower_ways(
    mod: tvm.IRModule,
    cuda: tvm.target.Target,
    options: Options,
    kernel_of: Callable[[tirx.PrimFunc, Set[str]], tirx.PrimFunc | Refused],
) -> dict[str, Set[str]]:
    """By the clock, if it is asked, what products that may go either way do better without."""
    if not options.measure:
        return {}

    def may_be_either(function: tirx.PrimFunc) -> bool:
        own, library = kernel_of(function, WITHOUT_LIBRARY), kernel_of(function, WITHOUT_OURS)
        if isinstance(own, Refused) or isinstance(library, Refused):
            return False
        return is_emitted(own) and is_library_call(library)

    names = {
        var.name_hint
        for var, function in mod.functions_items()
        if isinstance(function, tirx.PrimFunc)
        and "tirx.is_scheduled" not in function.attrs
        and may_be_either(function)
    }
    if not names:
        return {}
    with ExitStack() as stack:
        ways = []
        for without in (WITHOUT_LIBRARY, WITHOUT_OURS):
            clock = GpuClock(cuda, _without(options, without), options.dependent_launch)
            ways.append((without, stack.enter_context(closing(clock))))
        return faster_without(mod, names, ways)


def _without(options: Options, schemes: Set[str]) -> tuple[str, ...]:
    return tuple(each for each in options.ways if each not in schemes)


def _kernel(
    function: tirx.PrimFunc,
    records: Records | None,
    device: Device,
    bounds: Bounds,
    schemes: tuple[str, ...],
) -> tirx.PrimFunc | Refused:
    """The kernel by a record, if there is one of what can be tuned, else as it is chosen."""
    chosen = kernel_of(function, device, bounds, schemes)
    if isinstance(chosen, Refused):
        return chosen
    tuned = None if records is None else records.kernel(function, chosen, schemes)
    return tuned or chosen.emit(function)
