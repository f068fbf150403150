"""What room a mapping takes on a multiprocessor: registers of a thread, shared memory of a block.

In: a Program, a Mapping, the Device. Out: figures, or why there is no room. Part of
kernel/choose, the home of legality.
"""

from __future__ import annotations

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.addressing import weights
from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.analysis.kind import MAX_ELEMENTS
from tvm_stitch.kernel.codegen import scan
from tvm_stitch.kernel.codegen.footprint import (
    ALLOCATED,
    MAX_REGISTERS,
    SPARE_REGISTERS,
    Footprint,
    scratch_bytes,
    thread_registers,
)
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.stages.stage import Refused, constant

# Shared memory that a row may take in a block, by the blocks of its cluster. Measured on an H200,
# blocks of 256 threads into which rows are copied asynchronously: RMS norm and layer norm of 65536
# bf16 columns run in 1027 and 1141 us with 4 blocks, 1034 and 1209 with 2, log-softmax of 50304 in
# 211 and 203; RMS norm of 131072 in 1050 with 8 blocks and 1073 with 4.
_KB = 1024
SHARED_BYTES = {1: 120 * _KB, 2: 54 * _KB, 4: 36 * _KB, 8: 112 * _KB, 16: 1024 * _KB}
# With two weights, fewer blocks of more threads are better (choose_rows.WEIGHTED_COLUMNS), if there
# are rows enough for all multiprocessors.
WEIGHTED_SHARED_BYTES = {**SHARED_BYTES, 2: 72 * _KB, 4: 72 * _KB}


def fits(program: Program, mapping: Mapping, device: Device, last: bool) -> Refused | None:
    """Why a block of this mapping has no room, if so; the last resort may fill the device."""
    needed = footprint(program, mapping)
    if mapping.residence == "register":
        return crowded(needed, mapping, device)
    most = device.shared_block
    if not last:
        weighted = has_many_rows(program, device) and weights(program) > 1
        by_cluster = WEIGHTED_SHARED_BYTES if weighted else SHARED_BYTES
        most = min(most, by_cluster[mapping.cluster])
    if needed.shared > most:
        return Refused(
            f"a row of {mapping.cluster} x {mapping.reach} columns needs {needed.shared} bytes of "
            f"shared memory, a block has {device.shared_block}"
        )
    return None


def crowded(needed: Footprint, mapping: Mapping, device: Device) -> Refused | None:
    """Why what waits in registers is too much for a thread, if so."""
    if mapping.residence != "register":
        return None
    if needed.registers > registers_left(device.registers, needed.threads):
        return Refused("too many registers")
    if mapping.elements > MAX_ELEMENTS:
        return Refused("too many elements a thread")
    return None


def registers_left(total: int, threads: int) -> int:
    """Registers that each thread of a block may have, of so many of a multiprocessor."""
    return min(MAX_REGISTERS, total // max(threads, 128) // ALLOCATED * ALLOCATED)


def has_many_rows(program: Program, device: Device) -> bool:
    """Whether there are more than a row or two for each multiprocessor."""
    rows = program.rows_expected
    return not rows or rows > 2 * device.multiprocessors


def footprint(program: Program, mapping: Mapping) -> Footprint:
    """What a block takes: what its threads keep, what is in flight, and overhead."""
    return Footprint(
        mapping.block_threads, registers(program, mapping), shared_bytes(program, mapping)
    )


def registers(program: Program, mapping: Mapping) -> int:
    """Registers of a thread."""
    held = 0
    if mapping.residence == "register":
        phases, apart = phases_of(program, mapping), _guarded_elements(program, mapping)
        # Values of an element that are loaded before the first reduction or kept.
        values = {*phases.phases[0].inputs, *phases.kept}
        held = (mapping.elements - apart) * phases.live_bytes + 4 * apart * len(values)
    return thread_registers(held, mapping.vector) + SPARE_REGISTERS


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


def shared_bytes(program: Program, mapping: Mapping) -> int:
    """Shared memory of a block: kept values and the scratch of block reductions."""
    scratch = scratch_bytes(sum(stage.is_reduction for stage in program.stages), mapping)
    scratch += sum(scan.scratch_bytes(stage, mapping) for stage in program.scans)
    if mapping.residence != "shared":
        return scratch
    kept = phases_of(program, mapping).kept_bytes
    return kept * mapping.elements * mapping.block_threads + scratch
