"""What room a panel takes on a multiprocessor: registers of a thread, shared memory of a block.

In: a Program, a Mapping. Out: figures.
"""

from __future__ import annotations

from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.codegen.footprint import (
    SPARE_REGISTERS,
    Footprint,
    thread_registers,
)
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.phases import Phases
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.footprint import footprint

REGISTER_BYTES = 4


def panel_footprint(program: Program, mapping: Mapping) -> Footprint:
    """What a block takes."""
    held = 0
    if mapping.residence == "register":
        held = mapping.elements * live_bytes(phases_of(program, mapping), mapping.access)
    registers = thread_registers(held, mapping.access) + SPARE_REGISTERS
    shared = footprint(program, mapping).shared
    return Footprint(mapping.block_threads, registers, shared, SPARE_REGISTERS)


def live_bytes(phases: Phases, vector: int) -> int:
    """Bytes of registers that an element takes between phases, at the worst boundary.

    An element that is loaded by itself has a register of its own, however short it is.
    """
    return phases.live_bytes_of(REGISTER_BYTES // min(vector, REGISTER_BYTES))
