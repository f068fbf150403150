"""The kernels of a graph: by the schedule that tvm_stitch chooses, by others, and TVM's own.

In: a Relax module. Out: Variants, each one PrimFunc that becomes one kernel (TVM's own may become
several). Needs no GPU. The same graph always gives the same variants in the same order.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import tvm
from tvm import tirx
from tvm.s_tir import dlight

from bench.calibration.panels import panel_program, panel_schedules
from bench.systems.tvm import fusion_passes
from tvm_stitch.build import stitch_passes
from tvm_stitch.device import Device, device_of
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.codegen.hazard_check import check_kernel
from tvm_stitch.kernel.emit import emit
from tvm_stitch.kernel.ir.mapping import MAX_BLOCK_THREADS, WARP, Flat, Mapping, Rows
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.legal import legal
from tvm_stitch.kernel.stitched import SCHEDULE_ATTRIBUTE
from tvm_stitch.stages.op_pattern import is_product
from tvm_stitch.stages.read_stages import read_stages
from tvm_stitch.stages.stage import Refused, Stage, constant
from tvm_stitch.tvm_default.default_schedules import default_rules

MOST_DEFAULTS = 6  # of a graph: a step of an optimizer has dozens that are alike


@dataclass(frozen=True, eq=False)
class Variant:
    """One kernel to be measured."""

    function: str  # the PrimFunc's name in its module
    schedule: Schedule | None  # None for TVM's own kernels
    chosen: bool  # whether it is what tvm_stitch would have taken
    programs: tuple[Program, ...]  # empty for TVM's own kernels
    stages: tuple[Stage, ...]
    kernel: tirx.PrimFunc


def variants(module: tvm.IRModule, target: tvm.target.Target, each: int) -> list[Variant]:
    """All kernels of a graph: the chosen ones, up to `each` others for every one, TVM's own."""
    device = device_of(target)
    found: list[Variant] = []
    for name, func, schedule in _stitched(module, target):
        found.extend(_by_schedules(name, func, schedule, device, each))
        found.extend(_as_panels(name, func, device, each))
    # TVM's own layer norm knows no bfloat16.
    with contextlib.suppress(tvm.error.InternalError):
        found.extend(_defaults(module, target))
    return found


def _stitched(
    module: tvm.IRModule, target: tvm.target.Target
) -> Iterator[tuple[str, tirx.PrimFunc, Schedule]]:
    """Fused PrimFuncs that are stitched, with the schedules that they get."""
    *before, last = stitch_passes(target, default_schedules=False)
    with target:
        fused = tvm.transform.Sequential(before)(module)
        emitted = last(fused)
    for var, func in fused.functions_items():
        if not isinstance(func, tirx.PrimFunc):
            continue
        attributes = emitted[var.name_hint].attrs or {}
        if SCHEDULE_ATTRIBUTE in attributes:
            schedule = Schedule.from_json(str(attributes[SCHEDULE_ATTRIBUTE]))
            yield var.name_hint, func, schedule


def _by_schedules(
    name: str, func: tirx.PrimFunc, schedule: Schedule, device: Device, each: int
) -> Iterator[Variant]:
    programs = read_programs(func)
    if isinstance(programs, Refused) or not _static(programs):
        return
    stages = tuple(stage for program in programs for stage in program.stages)
    others = list(alternatives(programs, schedule, device))
    # Strings seed the same way in every process.
    random.Random(name).shuffle(others)
    made = 0
    for number, other in enumerate([schedule, *others]):
        if made > each:
            return
        kernel = emit(func, programs, other)
        if check_kernel(kernel, device) is None:
            made += 1
            yield Variant(name, other, number == 0, programs, stages, kernel)


def _as_panels(name: str, func: tirx.PrimFunc, device: Device, each: int) -> Iterator[Variant]:
    """The same function in panels, whatever is chosen: so many of those that there are."""
    program = panel_program(func)
    if program is None or not _static((program,)):
        return
    for schedule in panel_schedules(program, device, each, name):
        kernel = emit(func, (program,), schedule)
        if check_kernel(kernel, device) is None:
            yield Variant(name, schedule, False, (program,), program.stages, kernel)


def _static(programs: tuple[Program, ...]) -> bool:
    return all(constant(p.space.rows) and constant(p.space.columns) for p in programs)


def alternatives(
    programs: tuple[Program, ...], chosen: Schedule, device: Device
) -> Iterator[Schedule]:
    """Other legal schedules: one thing changed. Parts side by side stay as they are."""
    if len(programs) > 1:
        return
    (program,), (mapping,) = programs, chosen.parts
    found: Iterator[Mapping] = iter(())
    if isinstance(mapping, Flat):
        found = _flat_mappings(mapping)
    elif isinstance(mapping, Rows) and not (mapping.blocks or mapping.idle):
        # Else all blocks must be resident; pieces of rows go with their threads.
        found = _row_mappings(program, mapping, device)
    for other in found:
        schedule = Schedule((other,))
        if other != mapping and legal(programs, schedule, device) is None:
            yield schedule


def _flat_mappings(mapping: Flat) -> Iterator[Flat]:
    for threads in (64, 128, 256, 512, 1024):
        yield replace(mapping, threads=threads)
    for steps in (1, 2, 4, 8):
        yield replace(mapping, steps=steps)
    for vector in (mapping.vector // 2, mapping.vector // 8):
        if vector:
            yield replace(mapping, vector=vector)


def _row_mappings(program: Program, mapping: Rows, device: Device) -> Iterator[Rows]:
    if mapping.batch > 1:
        yield replace(mapping, batch=mapping.batch // 2)
        yield replace(mapping, batch=1, min_blocks_per_sm=0)
    if mapping.prefetch_weights:
        yield replace(mapping, prefetch_weights=False)
    mapping = replace(mapping, batch=1, prefetch_weights=False, min_blocks_per_sm=0)
    for factor in (0.25, 0.5, 2, 4):
        yield from _with_threads(program, mapping, int(mapping.threads * factor))
    if mapping.cluster == 1:
        for rows in (mapping.rows // 2, mapping.rows * 2):
            yield replace(mapping, rows=rows)
    yield replace(mapping, residence="shared" if mapping.residence == "register" else "register")
    yield replace(mapping, recompute=not mapping.recompute)
    if not mapping.peeled and mapping.vector > 1:
        yield from _with_threads(
            program, replace(mapping, vector=mapping.vector // 2), mapping.threads
        )
    for cluster in (1, 2, 4, 8):
        if device.capability >= 90 and cluster != mapping.cluster:
            own = -(-(constant(program.space.columns) or 0) // cluster)
            threads = min(mapping.threads, 1 << max(0, own // mapping.vector).bit_length())
            changed = replace(mapping, cluster=cluster, rows=1)
            yield from _with_threads(program, changed, max(WARP, threads))


def _with_threads(program: Program, mapping: Rows, threads: int) -> Iterator[Rows]:
    """The mapping with so many threads a row, if a row and a block can have them."""
    columns = constant(program.space.columns) or 0
    if not 1 <= threads <= MAX_BLOCK_THREADS:
        return
    rows = mapping.rows
    while rows * threads < WARP:
        rows *= 2
    while rows > 1 and rows * threads > MAX_BLOCK_THREADS:
        rows //= 2
    reach = columns + (mapping.vector - 1 if mapping.peeled else 0)
    steps = -(-reach // (mapping.cluster * threads * mapping.vector))
    if mapping.cluster > 1:
        rows = 1
    yield replace(mapping, threads=threads, rows=rows, steps=steps)


def _defaults(module: tvm.IRModule, target: tvm.target.Target) -> Iterator[Variant]:
    """TVM's own kernels of the graph, but for matrix products."""
    found: dict[str, tuple[Stage, ...]] = {}
    with target:
        fused = tvm.transform.Sequential(fusion_passes())(module)
        # Read before DLight, which schedules the module in place.
        for var, func in fused.functions_items():
            stages = read_stages(func) if isinstance(func, tirx.PrimFunc) else None
            if isinstance(stages, tuple) and _counts(stages):
                found[var.name_hint] = stages
        scheduled = dlight.ApplyDefaultSchedule(*default_rules())(fused)
    for name, stages in list(found.items())[:MOST_DEFAULTS]:
        yield Variant(name, None, False, (), stages, scheduled[name])


def _counts(stages: tuple[Stage, ...]) -> bool:
    """Whether a default kernel is of a kind that stitching competes with, and of fixed size."""
    sizes: list[Any] = [e for s in stages for e in (*s.extents, *s.reduced_extents)]
    if None in map(constant, sizes):
        return False
    return not any(stage.is_reduction and is_product(stage) for stage in stages)
