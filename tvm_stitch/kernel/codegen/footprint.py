"""What a block takes of a multiprocessor, and how many fit: what a grid barrier's safety rests on.

In: threads of a block, registers of a thread, shared memory of a block, the Device. Out: blocks.
Each kind has one for its parts, kernel/footprint one for whole kernels: who chooses, legality, the
tuner and the check of the emitted kernel ask these.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_stitch.device import RESERVED_SHARED, Device

ALIGNED = 64  # bytes, at multiples of which a static array of shared memory begins
STATIC_SHARED = 48 * 1024  # bytes of a block that ptxas takes; more must be dynamic
MAX_REGISTERS = 255  # of a thread
ALLOCATED = 8  # registers of a thread come by so many
OVERHEAD_REGISTERS = 16  # addresses and counters, as ptxas reports them for 282 kernels
SPARE_REGISTERS = 12  # more, for scalars of a row that the compiler need then not make again
SUM_BYTES = 4  # of a share of a sum over the rows


@dataclass(frozen=True)
class Footprint:
    """What a block takes."""

    threads: int
    registers: int  # of a thread; 0: the compiler is told how many to make do with
    shared: int  # bytes

    def blocks_per_sm(self, device: Device) -> int:
        """Blocks that fit beside each other on a multiprocessor."""
        shared = device.shared_total // (self.shared + RESERVED_SHARED)
        room = min(device.max_threads // self.threads, shared)
        if self.registers > MAX_REGISTERS:
            return 0
        each = -(-self.registers // ALLOCATED) * ALLOCATED * self.threads
        return min(room, device.registers // each) if each else room


def thread_registers(held: int, vector: int) -> int:
    """Registers of a thread that holds so many bytes and computes vectors of so many elements."""
    return -(-held // 4) + 2 * vector + OVERHEAD_REGISTERS


def aligned(size: int) -> int:
    """The bytes that an array of static shared memory takes up."""
    return -(-size // ALIGNED) * ALIGNED
