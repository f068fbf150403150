"""explain: runs the passes, compiles nothing, and says what became of every operator.

In: a Relax module. Out: a Report. Works without a GPU; must not decide anything by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax.backend.cuda import pipeline as cuda_pipeline

from tvm_stitch.build import (
    KEEP_SCRATCH,
    check_well_formed,
    dispatch_passes,
    in_stages,
    stitch_passes,
)
from tvm_stitch.device import Device, device_of
from tvm_stitch.errors import InputError, StitchError, first_line
from tvm_stitch.graph.back.launches import calls, kernel_names, nests, outside_calls
from tvm_stitch.kernel.build import SCHEDULE_ATTRIBUTE
from tvm_stitch.kernel.codegen.reverse_blocks import REVERSED
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.tensor_core.build import TILES_ATTRIBUTE
from tvm_stitch.kernel.tensor_core.tiles import Tiles
from tvm_stitch.options import Options
from tvm_stitch.plan.plan import Fallback, Group, Plan
from tvm_stitch.plan.saved import SavedPlan
from tvm_stitch.report.data import DEFAULT, Before, Kernel
from tvm_stitch.report.operators import Operator, operator_name, operators
from tvm_stitch.report.report import Report
from tvm_stitch.report.stitched import Fused, describe, describe_product
from tvm_stitch.stages import stage, timed
from tvm_stitch.target import full_target
from tvm_stitch.tuning.apply import Database, origin_of

READY_MADE = "its TIR came with a schedule"
PACKED = ("call_pure_packed", "call_dps_packed", "call_inplace_packed")  # named by their callees


def explain(
    mod: tvm.IRModule,
    target: Any = "cuda",
    options: Options | None = None,
    database: Database | None = None,
) -> Report:
    """What stitching makes of a Relax module: its kernels before and after, and why.

    With `database`, the path of a record store, kernels that were tuned say so. Nothing is
    compiled, so no GPU and no CUDA is needed.
    """
    if not isinstance(mod, tvm.IRModule):
        raise InputError(f"explain takes a Relax IRModule, not {type(mod).__name__}")
    if not any(isinstance(function, relax.Function) for function in mod.functions.values()):
        raise InputError("the module holds no Relax function: there is nothing to explain")
    check_well_formed(mod)
    cuda = full_target(target)
    device = device_of(cuda)
    notes = _Notes()
    passes = [
        *dispatch_passes(cuda),
        *stitch_passes(cuda, options, database, notes.plans, notes.left, undone=notes.undone),
        *cuda_pipeline.dataflow_lower_passes(cuda),
    ]
    with timed() as seconds:
        lowered = _run(mod, cuda, passes, notes)
        with stage("describing"):
            kernels = tuple(_kernels(lowered, notes, device))
        with stage("TVM's way"):
            before = _before(mod, cuda)
    return Report(
        target=str(cuda.attrs.get("arch", cuda.kind.name)),
        device=device.name,
        before=before,
        kernels=kernels,
        fallbacks=_fallbacks(kernels, notes, outside_calls(lowered)),
        cuts=tuple(cut for plan in notes.plans for cut in plan.cuts),
        plan=SavedPlan(
            tuple(plan.saved for plan in notes.plans if plan.saved is not None),
            tuple(sorted(notes.undone.items())),
        ),
        measured=tuple(each for plan in notes.plans for each in plan.measured),
        plans=tuple(plan.solved for plan in notes.plans if plan.solved.regions),
        seconds=tuple(seconds.items()),
    )


@dataclass
class _Notes:
    """What the passes told on their way."""

    ops: dict[str, tuple[Operator, ...]] = field(default_factory=dict)  # by fused function
    fused: dict[str, tirx.PrimFunc] = field(default_factory=dict)  # before StitchSchedule
    plans: list[Plan] = field(default_factory=list)
    left: list[Fallback] = field(default_factory=list)
    undone: dict[int, str] = field(default_factory=dict)  # operators left whole to TVM, and why

    def note_ops(self, mod: tvm.IRModule) -> None:
        """After FuseOps: the operators of every Primitive function."""
        for var, function in mod.functions_items():
            if isinstance(function, relax.Function) and "Primitive" in (function.attrs or {}):
                self.ops[var.name_hint] = tuple(operators(mod, function))

    def note_fused(self, mod: tvm.IRModule) -> None:
        """After FuseTIR: the functions that StitchSchedule will read."""
        for var, function in mod.functions_items():
            if isinstance(function, tirx.PrimFunc) and "tirx.is_scheduled" not in function.attrs:
                self.fused[var.name_hint] = function


@tvm.ir.instrument.pass_instrument
class _Listener:
    """Notes what is between passes, also those that a pass runs itself, and which one runs."""

    def __init__(self, notes: _Notes) -> None:
        self.notes = notes
        self.running = ""

    def run_before_pass(self, _mod: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
        """The innermost pass is the one to be named in an error."""
        self.running = info.name

    def run_after_pass(self, mod: tvm.IRModule, info: tvm.transform.PassInfo) -> None:
        """Look at what will be gone after later passes."""
        if info.name == "FuseOps":
            self.notes.note_ops(mod)
        elif info.name == "FuseTIR":
            self.notes.note_fused(mod)


def _run(mod: tvm.IRModule, cuda: tvm.target.Target, passes: Sequence[Any], notes: _Notes) -> Any:
    """Apply the passes; an error names the one that raised it."""
    listener = _Listener(notes)
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


def _before(mod: tvm.IRModule, cuda: tvm.target.Target) -> Before:
    """The kernels of TVM's default pipeline."""
    passes = [
        *cuda_pipeline.library_dispatch_passes(cuda),
        *cuda_pipeline.legalize_passes(cuda),
        *cuda_pipeline.dataflow_lower_passes(cuda),
    ]
    try:
        with cuda, tvm.transform.PassContext(opt_level=3):
            lowered = tvm.transform.Sequential(passes)(mod)
    except Exception as error:
        return Before(None, None, first_line(error))
    counts = calls(lowered)
    found = {name: len(nests(lowered[name])) for name in counts}
    launches = sum(count * counts[name] for name, count in found.items())
    return Before(sum(found.values()), launches)


def _kernels(mod: tvm.IRModule, notes: _Notes, device: Device) -> Iterable[Kernel]:
    """One entry for every kernel that the module calls."""
    reasons = {fallback.op: fallback.reason for fallback in notes.left}
    groups = {group.function: group for plan in notes.plans for group in plan.groups}
    for name, launches in calls(mod).items():
        function = mod[name]
        alone = (Operator(operator_name(name), 0),)
        held = notes.ops.get(name, alone)
        found = nests(function)
        names = kernel_names(name, len(found))
        if SCHEDULE_ATTRIBUTE in function.attrs:
            schedule = Schedule.from_json(function.attrs[SCHEDULE_ATTRIBUTE])
            fused = Fused(names[0], held, notes.fused[name], launches)
            kernel = describe(fused, schedule, device, origin_of(function))
            if REVERSED in function.attrs:
                mapping = f"{kernel.mapping}; from the last block to the first"
                kernel = replace(kernel, mapping=mapping)
            yield _with_group(kernel, groups[name]) if name in groups else kernel
            continue
        if TILES_ATTRIBUTE in function.attrs:
            tiles = Tiles.from_json(function.attrs[TILES_ATTRIBUTE])
            fused = Fused(names[0], held, notes.fused[name], launches)
            kernel = describe_product(fused, tiles, device, origin_of(function))
            yield _with_group(kernel, groups[name]) if name in groups else kernel
            continue
        ops = tuple(operator.name for operator in held)
        why = reasons.get(name, READY_MADE)
        for kernel_name, nest in zip(names, found, strict=True):
            floor = None if nest.bytes is None else nest.bytes / device.bandwidth * 1e6
            yield Kernel(
                name=kernel_name,
                ops=ops,
                scheme=DEFAULT,
                mapping=nest.mapping,
                bytes_min=nest.bytes,
                bytes_planned=None,
                floor_us=floor,
                predicted_us=None,
                why=why,
                launches=launches,
            )


def _with_group(kernel: Kernel, group: Group) -> Kernel:
    return replace(
        kernel,
        together=group.why,
        launches_saved=group.launches_saved,
        bytes_saved=group.bytes_saved,
    )


def _fallbacks(
    kernels: Sequence[Kernel], notes: _Notes, outside: Iterable[str]
) -> tuple[Fallback, ...]:
    """Every operator that no stitched kernel took, with the planner's reason where it has one."""
    planned = [
        Fallback(operator_name(each.op), each.reason)
        for plan in notes.plans
        for each in plan.fallbacks
        if each.op not in PACKED
    ]
    reason = {each.op: each.reason for each in planned}
    found: dict[Fallback, None] = {}
    for kernel in kernels:
        if not kernel.stitched:
            for op in kernel.ops:
                why = kernel.why if kernel.why == READY_MADE else reason.get(op, kernel.why)
                found[Fallback(op, why)] = None
    in_kernels = {op for kernel in kernels for op in kernel.ops}
    found.update(dict.fromkeys(each for each in planned if each.op not in in_kernels))
    for name in outside:
        operator = name.removeprefix("relax.run.")
        found[Fallback(operator, f"it runs as the packed function {name}, not as a kernel")] = None
    return tuple(found)
