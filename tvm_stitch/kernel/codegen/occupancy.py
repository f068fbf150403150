"""How many blocks a multiprocessor holds at once: what a grid barrier's safety rests on.

In: threads of a block, registers of a thread, shared memory of a block, the Device. Out: blocks.
Asked by those who choose how many blocks a cooperative grid has, by legality and by the check of
the emitted kernel.
"""

from __future__ import annotations

from tvm_stitch.device import RESERVED_SHARED, Device

MAX_REGISTERS = 255  # of a thread
ALLOCATED = 8  # registers of a thread come by so many


def blocks_per_sm(device: Device, threads: int, shared: int, registers: int | None = None) -> int:
    """Blocks that fit beside each other; `registers` is None where the compiler is told to fit."""
    room = min(device.max_threads // threads, device.shared_total // (shared + RESERVED_SHARED))
    if registers is None:
        return room
    if registers > MAX_REGISTERS:
        return 0
    each = -(-registers // ALLOCATED) * ALLOCATED
    return min(room, device.registers // (each * threads))
