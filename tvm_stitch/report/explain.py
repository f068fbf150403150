"""explain: runs the passes, compiles nothing, and says what became of every operator.

In: a Relax module. Out: a Report. Works without a GPU; must not decide anything by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import tvm
from tvm import relax
from tvm.relax.backend.cuda import pipeline as cuda_pipeline

import tvm_stitch
from tvm_stitch.build import (
    KEEP_SCRATCH,
    check_well_formed,
    dispatch_passes,
    in_stages,
    launch_passes,
    stitch_passes,
)
from tvm_stitch.device import device_of
from tvm_stitch.errors import InputError, StitchError, first_line
from tvm_stitch.graph.back.launches import calls, outside_calls
from tvm_stitch.graph.front.functions.operator_names import operator_name
from tvm_stitch.options import Options
from tvm_stitch.plan.plan import Cut, Fallback
from tvm_stitch.plan.saved import SavedPlan
from tvm_stitch.report.data import DEFAULT, Kernel, Limits
from tvm_stitch.report.findings.before import ByDefault
from tvm_stitch.report.findings.code import CodeOf
from tvm_stitch.report.findings.kernels import READY_MADE, kernels_by_function, places
from tvm_stitch.report.findings.launches import flow
from tvm_stitch.report.findings.library_calls import DECODERS
from tvm_stitch.report.findings.notes import Listener, Notes
from tvm_stitch.report.report import Report
from tvm_stitch.target import full_target
from tvm_stitch.timing import stage
from tvm_stitch.transform import bounds_of_module
from tvm_stitch.tuning.apply import Database

PACKED = ("call_pure_packed", "call_dps_packed", "call_inplace_packed")  # named by their callees


def explain(
    mod: tvm.IRModule,
    target: Any = "cuda",
    options: Options | None = None,
    database: Database | None = None,
    *,
    sizes: Mapping[str, int] | None = None,
) -> Report:
    """What stitching makes of a Relax module: its kernels before and after, and why.

    With `database`, the path of a record store, kernels that were tuned say so. Figures of symbolic
    dimensions are for `sizes`, by name, and change no kernel; without them for what the options
    say. Nothing is compiled, so no GPU and no CUDA is needed.
    """
    _check(mod)
    cuda = full_target(target)
    device = device_of(cuda)
    notes = Notes()
    passes = [
        *dispatch_passes(cuda),
        *stitch_passes(
            cuda,
            options,
            database,
            notes.plans,
            notes.left,
            undone=notes.undone,
            asked=notes.asked,
        ),
        *cuda_pipeline.dataflow_lower_passes(cuda),
    ]
    lowered = _run(mod, cuda, passes, notes)
    extents = bounds_of_module(mod, options).representative.at(sizes or {})
    with notes.timed("describing"):
        found = kernels_by_function(lowered, notes, device, extents)
    kernels = tuple(kernel for each in found.values() for kernel in each)
    cuts = tuple(_named(cut) for plan in notes.plans for cut in plan.cuts)
    return Report(
        target=str(cuda.attrs.get("arch", cuda.kind.name)),
        device=device.name,
        kernels=kernels,
        fallbacks=_fallbacks(kernels, notes, outside_calls(lowered)),
        for_library=_for_library(kernels, notes),
        cuts=cuts,
        plan=SavedPlan(
            tuple(plan.saved for plan in notes.plans if plan.saved is not None),
            tuple(sorted(notes.undone.items())),
        ),
        measured=tuple(each for plan in notes.plans for each in plan.measured),
        plans=tuple(plan.solved for plan in notes.plans if plan.solved.regions),
        flow=flow(notes.calls, kernels, places(found), cuts, extents),
        sources=notes.sources,
        passes=notes.passes,
        limits=Limits(device.bandwidth, device.float32_rate, device.tensor_rate),
        code=CodeOf(lowered, cuda, _names(lowered, found), launch_passes(cuda, options)),
        # The module may be changed by its owner until somebody asks.
        by_default=ByDefault(mod.clone(), cuda, device, extents, notes.sources),
        versions=f"tvm_stitch {tvm_stitch.__version__} and TVM {tvm.__version__}",
    )


def _check(mod: Any) -> None:
    """Raise for what is no module, or none that passes may be applied to."""
    if not isinstance(mod, tvm.IRModule):
        raise InputError(f"explain takes a Relax IRModule, not {type(mod).__name__}")
    if not any(isinstance(function, relax.Function) for function in mod.functions.values()):
        raise InputError("the module holds no Relax function: there is nothing to explain")
    check_well_formed(mod)


def _run(mod: tvm.IRModule, cuda: tvm.target.Target, passes: Sequence[Any], notes: Notes) -> Any:
    """Apply the passes; an error names the one that raised it."""
    listener = Listener(notes)
    disabled = list(tvm.transform.PassContext.current().disabled_pass)
    context = tvm.transform.PassContext(
        opt_level=3,
        disabled_pass=disabled,
        config={KEEP_SCRATCH: True},
        instruments=[listener],
    )
    try:
        with cuda, context:
            for name, part in in_stages(passes):
                with stage(name):
                    for each in part:
                        mod = mod if each.info.name in disabled else each(mod)
    except StitchError:
        raise
    except Exception as error:
        raise InputError(
            f"the pass {listener.running} refuses the module: {first_line(error)}; see whether "
            "relax.analysis.well_formed accepts it and tvm.compile alone compiles it"
        ) from error
    return mod


def _names(
    lowered: tvm.IRModule, found: Mapping[str, Sequence[Kernel]]
) -> Mapping[str, Sequence[str]]:
    """The names of the kernels of each function that is called."""
    return {function: [kernel.name for kernel in found[function]] for function in calls(lowered)}


def _named(cut: Cut) -> Cut:
    """With operators named as everywhere else in the report."""
    writer, reader = (tuple(map(operator_name, side)) for side in (cut.writer, cut.reader))
    return replace(cut, writer=writer, reader=reader)


def _left(kernels: Iterable[Kernel]) -> frozenset[str]:
    return frozenset(op for kernel in kernels if kernel.scheme == DEFAULT for op in kernel.ops)


def _for_library(kernels: Sequence[Kernel], notes: Notes) -> tuple[Fallback, ...]:
    """What a library does not take although stitched kernels compute it, or parts of it."""
    left = _left(kernels)
    return tuple(dict.fromkeys(each for each in notes.asked if each.op not in left))


def _fallbacks(
    kernels: Sequence[Kernel], notes: Notes, outside: Iterable[str]
) -> tuple[Fallback, ...]:
    """Every operator that no stitched kernel took, with the planner's reason where it has one."""
    callees = [name.rpartition(".")[2] for name in DECODERS]
    planned = [
        Fallback(operator_name(each.op), each.reason)
        for plan in notes.plans
        for each in plan.fallbacks
        if each.op not in (*PACKED, *callees)
    ]
    reasons: dict[str, dict[str, None]] = {}  # operators of one name may have several
    for each in planned:
        reasons.setdefault(each.op, {})[each.reason] = None
    found: dict[Fallback, None] = {}
    for kernel in kernels:
        if kernel.scheme == DEFAULT:
            for op in kernel.ops:
                own = {} if kernel.why == READY_MADE else reasons.get(op, {})
                found.update(dict.fromkeys(Fallback(op, why) for why in own or (kernel.why,)))
    in_kernels, left = {op for kernel in kernels for op in kernel.ops}, _left(kernels)
    found.update(dict.fromkeys(each for each in planned if each.op not in in_kernels))
    found.update(dict.fromkeys(each for each in notes.asked if each.op in left))
    for name in outside:
        if name in DECODERS:  # it is among the kernels
            continue
        operator = name.removeprefix("relax.run.")
        found[Fallback(operator, f"it runs as the packed function {name}, not as a kernel")] = None
    return tuple(found)
