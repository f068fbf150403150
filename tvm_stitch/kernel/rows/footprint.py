"""What room a mapping takes on a multiprocessor: registers of a thread, shared memory of a block.

In: a Program, a Mapping. Out: figures.
"""

from __future__ import annotations

from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.codegen import scan
from tvm_stitch.kernel.codegen.footprint import SPARE_REGISTERS, Footprint, thread_registers
from tvm_stitch.kernel.codegen.reduction import scratch_bytes
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.stages.stage import constant


def footprint(program: Program, mapping: Mapping) -> Footprint:
    """What a block takes: what its threads keep, what is in flight, and overhead."""
    held = least = 0
    if mapping.residence == "register":
        phases, apart = phases_of(program, mapping), _guarded_elements(program, mapping)
        # Values of an element that are loaded before the first reduction or kept.
        values = {*phases.phases[0].inputs, *phases.kept}
        held = (mapping.elements - apart) * phases.live_bytes + 4 * apart * len(values)
        least = min(held, mapping.elements * phases.live_bytes)
    registers = thread_registers(held, mapping.vector) + SPARE_REGISTERS
    spare = registers - thread_registers(least, mapping.vector)
    return Footprint(mapping.block_threads, registers, _shared_bytes(program, mapping), spare)


def _guarded_elements(program: Program, mapping: Mapping) -> int:
    """A thread's elements that exist or not one by one.

    Halves among them are not packed in pairs, and what is computed from them does not take their
    place: layer norm, GELU and softmax of float16 rows of any length take four registers for each,
    residual, sum, normal and input.
    """
    if not mapping.peeled:
        return 0
    ends = mapping.steps if constant(program.space.columns) is None else min(mapping.steps, 2)
    return ends * mapping.vector * mapping.batch


def _shared_bytes(program: Program, mapping: Mapping) -> int:
    """Shared memory of a block: kept values and the scratch of block reductions."""
    scratch = exchange_bytes(program, mapping)
    scratch += sum(scan.scratch_bytes(stage, mapping) for stage in program.scans)
    if mapping.residence != "shared":
        return scratch
    kept = phases_of(program, mapping).kept_bytes
    return kept * mapping.elements * mapping.block_threads + scratch


def exchange_bytes(program: Program, mapping: Mapping) -> int:
    """Shared memory by which the threads of a row exchange partials, of a block or a cluster."""
    phases = phases_of(program, mapping)
    along = set(phases.program.row_reductions)
    ends = [[s for s in phase.reductions if s in along] for phase in phases.phases]
    return scratch_bytes([each for each in ends if each], mapping)
