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
# A list takes reads and writes that wait for each other: an H200 takes 6 us for sums of 2048 rows
# of 64, 13 of 10000 rows of 128. So does sorting out, besides the barrier of the grid: of indices,
# what is counted of them, the table of all blocks, the entries; 12 to 14 us for 40000 rows of 4.
LISTING_US = 2.5
SORTING_OUT_US = 3.0
# Operations of an update that is sorted by counting and compared with those of its row, its
# barriers; operations of a pair in a network of comparisons. Estimated as well.
SORTED = 100
SORTING_BARRIERS = 6
COMPARED = 25
# Rows of updates come from anywhere, behind each other for each row of the table: of an H200's
# bandwidth sums of 128 MB of rows of 64 float32 get 2.9 TB/s, of 41 MB of rows of 128 2.4.
ADDED_SHARE = 0.6
# Loads of a thread that wait for each other, in latencies of the L2 where many are on their way: of
# 40000 updates of 5600 rows, sorted before, an H200 takes 3.0 us for rows of one, 4.0 for rows of
# four, 8.8 for 128 elements.
WAIT = 2


@dataclass(frozen=True)
class Listing:
    """Of all sums of a kernel, what each of its blocks does."""

    looked: int = 0  # indices
    listed: int = 0  # updates
    room: int = 0  # for these
    added: int = 0  # bytes that are loaded of its updates,
    counted: int = 0  # and of these the bytes of tensors, which are loaded in any case
    is_shared: bool = False  # whether the blocks sort out the indices for each other
    waits: int = 0  # of updates that are sorted before: loads of a row that wait for each other

    def us(self, threads: int, device: Device) -> float:
        """How long a block of so many threads takes that has a multiprocessor to itself."""
        timing = device.timing
        if self.waits:
            return WAIT * self.waits * timing.l2_latency_us
        cycles = self.looked * LOOKED * timing.issue / min(device.lanes, threads)
        total = cycles / device.clock * 1e6
        total += LISTING_US + -(-self.looked // (threads * AT_ONCE)) * timing.l2_latency_us
        if self.is_shared:
            total += timing.grid_us + SORTING_OUT_US
        own_bandwidth = device.bandwidth / device.multiprocessors
        total += max(0.0, self.added / ADDED_SHARE - self.counted) / own_bandwidth * 1e6
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
