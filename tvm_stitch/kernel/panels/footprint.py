"""What room a panel takes on a multiprocessor: registers of a thread, shared memory of a block.

In: a Program, a Mapping, the Device. Out: figures, or why there is no room. Part of
kernel/choose, the home of legality.
"""

from __future__ import annotations

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.codegen.footprint import SPARE_REGISTERS, Footprint, thread_registers
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.phases import Phases
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.footprint import crowded, shared_bytes
from tvm_stitch.stages.stage import Refused

REGISTER_BYTES = 4


def panel_footprint(program: Program, mapping: Mapping) -> Footprint:
    """What a block takes."""
    held = 0
    if mapping.residence == "register":
        held = mapping.elements * live_bytes(phases_of(program, mapping), mapping.access)
    registers = thread_registers(held, mapping.access) + SPARE_REGISTERS
    return Footprint(mapping.block_threads, registers, shared_bytes(program, mapping))


def live_bytes(phases: Phases, vector: int) -> int:
    """Bytes of registers that an element takes between phases, at the worst boundary.

    An element that is loaded by itself has a register of its own, however short it is.
    """
    return phases.live_bytes_of(REGISTER_BYTES // min(vector, REGISTER_BYTES))


def fits(program: Program, mapping: Mapping, device: Device) -> Refused | None:
    """Why a block of this mapping has no room, if so."""
    needed = panel_footprint(program, mapping)
    refused = crowded(needed, mapping, device)
    if refused is not None:
        return refused
    if needed.shared > device.shared_block:
        return Refused(
            f"a panel of {mapping.rows} columns needs {needed.shared} bytes of shared memory, a "
            f"block has {device.shared_block}"
        )
    return None
