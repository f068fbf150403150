"""What a block does before its first row where indices say which updates go to it: microseconds.

In: how many indices it looks through and how many updates it lists, threads of the block, the
Device. Must not know how either is done.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm_stitch.device import Device

# Operations of an index that is looked at, divisions by the rows of a block among them: for four
# indices nvcc 13 makes 198 instructions on sm_90.
LOOKED = 50
AT_ONCE = 4  # indices of a thread that are on their way
# Sorting out takes reads that wait for each other, besides the barrier of the grid: of indices,
# what is counted of them, the table of all blocks, the entries. Estimated, not measured.
SORTING_OUT_US = 3.0
# Operations of an update that is sorted by counting and compared with those of its row, its
# barriers; operations of a pair in a network of comparisons. Estimated as well.
SORTED = 100
SORTING_BARRIERS = 6
COMPARED = 25


@dataclass(frozen=True)
class Listing:
    """Of all sums of a kernel, what each of its blocks does."""

    looked: int  # indices
    listed: int  # updates
    room: int  # for these
    is_shared: bool = False  # whether the blocks sort out the indices for each other

    def us(self, threads: int, device: Device) -> float:
        """How long a block of so many threads takes that has a multiprocessor to itself."""
        timing = device.timing
        cycles = self.looked * LOOKED * timing.issue / min(device.lanes, threads)
        total = cycles / device.clock * 1e6
        total += -(-self.looked // (threads * AT_ONCE)) * timing.l2_latency_us
        if self.is_shared:
            total += timing.grid_us + SORTING_OUT_US
        return float(total + self._sorting_us(threads, device))

    def _sorting_us(self, threads: int, device: Device) -> float:
        """By counting, or as a network of comparisons where the list has no room for twice that."""
        timing, lanes = device.timing, min(device.lanes, threads)
        operations, barriers = self.listed * SORTED, SORTING_BARRIERS
        if 2 * self.listed > self.room:
            levels = (self.listed - 1).bit_length()
            barriers = levels * (levels + 1) // 2
            operations = barriers * self.listed // 2 * COMPARED
        return operations / lanes * timing.issue / device.clock * 1e6 + barriers * timing.barrier_us
