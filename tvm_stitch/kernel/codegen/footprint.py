"""What a block takes of a multiprocessor, and how many fit: what a grid barrier's safety rests on.

In: threads of a block, registers of a thread, shared memory of a block, the Device. Out: blocks.
Each kind has one for its parts, kernel/footprint one for whole kernels: who chooses, legality, the
tuner and the check of the emitted kernel ask these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from tvm_stitch.device import REGISTERS, RESERVED_SHARED, Device

ALIGNED = 64  # bytes, at multiples of which a static array of shared memory begins
STATIC_SHARED = 48 * 1024  # bytes of a block that ptxas takes; more must be dynamic
MAX_REGISTERS = 255  # of a thread
ALLOCATED = 8  # registers of a thread come by so many
OVERHEAD_REGISTERS = 16  # addresses and counters, as ptxas reports them for 282 kernels
SPARE_REGISTERS = 12  # more, for scalars of a row that the compiler need then not make again
SUM_BYTES = 4  # of a partial sum over the rows


@dataclass(frozen=True)
class Footprint:
    """What a block takes."""

    threads: int
    registers: int  # of a thread; 0: the compiler is told how many to make do with
    shared: int  # bytes
    spare: int = 0  # of the registers, without which the compiler mostly does

    def blocks_per_sm(self, device: Device) -> int:
        """Blocks that fit beside each other on a multiprocessor, whatever the compiler does."""
        shared = device.shared_total // (self.shared + RESERVED_SHARED)
        room = min(device.max_threads // self.threads, shared, device.max_blocks)
        if self.registers > MAX_REGISTERS:
            return 0
        each = -(-self.registers // ALLOCATED) * ALLOCATED * self.threads
        return min(room, device.registers // each) if each else room

    @property
    def block_registers(self) -> int:
        """Registers that all threads would like: told of blocks, the compiler makes do with fewer
        where those that a thread is given come to more."""
        return self.registers * self.threads

    def registers_fit(self, blocks: float, device: Device) -> bool:
        """Whether all threads of so many blocks beside each other have what they would like."""
        return blocks * self.block_registers <= device.registers

    def expected_blocks(self, device: Device) -> int:
        """Blocks that are likely to be beside each other, where nothing rests on it."""
        needed = min(self.registers - self.spare, MAX_REGISTERS)
        return max(1, replace(self, registers=needed).blocks_per_sm(device))


def thread_registers(held: int, vector: int) -> int:
    """Registers of a thread that holds so many bytes and computes vectors of so many elements."""
    return -(-held // 4) + 2 * vector + OVERHEAD_REGISTERS


def not_resident(blocks: int, each: int, room: int, device: Device) -> Iterator[str]:
    """Why blocks of a grid barrier would wait for ever, `each` of a multiprocessor at once."""
    if not 1 <= each <= room:
        yield f"{each} blocks of a multiprocessor, which has room for {room}"
    if blocks > device.multiprocessors * each:
        yield f"{blocks} blocks, of which not all are resident at once"


def too_much_shared(what: str, needed: int, device: Device) -> Iterator[str]:
    """Why a block cannot have so much shared memory; `what` needs it."""
    if needed > device.shared_block:
        yield f"{what} {needed} bytes of shared memory, a block has {device.shared_block}"


def too_many_threads(blocks: int, threads: int, device: Device) -> Iterator[str]:
    """Why so many blocks, of so many threads each, cannot be beside each other."""
    if blocks * threads > device.max_threads:
        yield f"{blocks} blocks of {threads} threads a multiprocessor"


def registers_left(threads: int) -> int:
    """Registers that each thread may have where so many are on a multiprocessor."""
    return min(MAX_REGISTERS, REGISTERS // threads // ALLOCATED * ALLOCATED)


def shared_left(device: Device, blocks: int) -> int:
    """Shared memory that each block may have where so many are on a multiprocessor."""
    return min(device.shared_block, device.shared_total // blocks - RESERVED_SHARED)


def aligned(size: int) -> int:
    """The bytes that an array of static shared memory takes up."""
    return -(-size // ALIGNED) * ALIGNED


def is_not_asked_for(static: int, dynamic: int) -> bool:
    """Whether a launch would fail: TVM asks for more than is usual by the dynamic memory alone."""
    return 0 < dynamic < STATIC_SHARED < static + dynamic


def all_asked_for(static: int, dynamic: int) -> int:
    """Shared memory of a block whose kernel asks for enough; see emit.with_all_asked_for."""
    return static + (STATIC_SHARED if is_not_asked_for(static, dynamic) else dynamic)


def dynamic_left(static: int, room: int) -> int:
    """Dynamic shared memory that a block may have beside static, of so much in all."""
    left = room - static
    return left if left >= STATIC_SHARED else min(left, STATIC_SHARED - static)
