"""What one part of a kernel asks of a device: a Profile on the threads of a Mapping.

In: the Profile, the Mapping, the Device with its constants, and how many of its blocks are resident
at once. Out: blocks, bytes, instructions, and how long one block takes that has a multiprocessor to
itself.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from math import log2

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.profile import LINE_BYTES, SECTOR_BYTES, PhaseProfile, Profile
from tvm_stitch.kernel.codegen.footprint import SUM_BYTES
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES
from tvm_stitch.kernel.ir.mapping import WARP, Mapping

# Of loads that all rows, or neighbouring threads, share: the share that the L1 does not serve.
MISSES = 1 / 4


def grid_us(blocks: int, device: Device) -> float:
    """A barrier of so many blocks."""
    return max(device.timing.grid_us, blocks * device.timing.grid_block_ns / 1e3)


class Demand:
    """See the module's docstring."""

    def __init__(self, profile: Profile, mapping: Mapping, device: Device, resident: int) -> None:
        """`resident`: blocks of the kernel that a multiprocessor has at once."""
        self.profile, self.mapping, self.device = profile, mapping, device
        self.resident = resident
        self.timing = device.timing
        # A mapping that takes rows of any length leaves open how often its threads step along.
        wide = mapping.cluster * mapping.working * mapping.vector
        taken = 0 if mapping.chunked else mapping.steps
        self.steps = taken or -(-profile.columns // wide)
        # Columns of a block, and elements of a thread.
        self.reach = mapping.working * mapping.vector * self.steps * mapping.lines
        self.each = mapping.vector * self.steps * mapping.batch * mapping.lines
        self.in_registers = mapping.residence == "register"

    @cached_property
    def phases(self) -> tuple[PhaseProfile, ...]:
        """The program's; what a tile serves is read in whole lines, and goes by shared memory."""
        if not self.mapping.tile:
            return self.profile.phases
        return tuple(
            replace(
                phase,
                reads=(*phase.reads, *phase.gathers),
                gathers=(),
                uncoalesced=0.0,
                from_kept=phase.from_kept + len(phase.gathers),
                to_kept=phase.to_kept + len(phase.gathers),
            )
            for phase in self.profile.phases
        )

    @cached_property
    def blocks(self) -> int:
        """Blocks of the grid."""
        profile, mapping = self.profile, self.mapping
        if mapping.blocks:
            return mapping.blocks
        rows = -(-profile.rows // mapping.block_rows)
        if mapping.split:
            return -(-profile.columns // self.reach) * (profile.row_segments or rows)
        return rows * mapping.cluster

    @cached_property
    def partials(self) -> int:
        """Groups of blocks that iterate over the rows: of whole ones, or of those of a segment."""
        pieces = -(-self.profile.columns // self.reach) if self.mapping.split else 1
        return max(1, self.blocks // pieces)

    @cached_property
    def iterations(self) -> int:
        """How often a block goes through all phases."""
        if self.profile.row_segments:
            return -(-self.profile.rows // (self.profile.row_segments * self.mapping.block_rows))
        if not self.mapping.blocks:
            return 1
        groups = -(-self.profile.rows // self.mapping.block_rows)
        return -(-groups // self.partials)

    @cached_property
    def waiting_bytes(self) -> float:
        """Of what an earlier round has read, those that wait in shared memory."""
        profile = self.profile
        rows = min(profile.rows, self.mapping.persistent_rows * max(1, profile.row_segments))
        return rows * profile.columns * profile.reused_bytes

    @cached_property
    def read_bytes(self) -> float:
        """Of tensors that hold an element for each row and column, those that do not wait."""
        return self.profile.read_bytes - self.waiting_bytes

    @cached_property
    def dram_bytes(self) -> float:
        """Every tensor once, and what is read again but has left the L2 meanwhile."""
        profile = self.profile
        again = sum(sum(phase.again) for phase in profile.phases) * profile.elements
        if not again:
            return profile.least_bytes - self.waiting_bytes
        block = sum(profile.phases[0].reads) * self.reach * self.mapping.block_rows
        resident = min(self.blocks, self.resident * self.device.multiprocessors) * block
        lost = max(0.0, 1 - self.device.l2_size / resident)
        return profile.least_bytes + lost * again

    @cached_property
    def narrowness(self) -> float:
        """By what memory is slower for blocks that read less than a line of neighbours at once."""
        mapping, items = self.mapping, [size for phase in self.phases for size in phase.reads]
        if mapping.apart == 1 or not items:
            return 1.0
        neighbours = mapping.apart * mapping.access * min(items)
        return 1.0 + self.timing.narrow * max(0.0, LINE_BYTES / neighbours - 1)

    @cached_property
    def l2_bytes(self) -> float:
        """Bytes between the multiprocessors and the L2."""
        profile = self.profile
        total = 0.0
        for phase in self.phases:
            total += sum((*phase.reads, *phase.again, *phase.writes))
            total += MISSES * (sum(phase.along) + SECTOR_BYTES * len(phase.gathers))
        # A partial of every sum over the rows goes to device memory and comes back.
        partials = 2 * SUM_BYTES * profile.column_reductions * self.partials * profile.columns
        if profile.column_reductions and not self.mapping.steps:  # each row is added there
            partials += 2 * SUM_BYTES * profile.column_reductions * profile.elements
        return total * profile.elements + partials - self.waiting_bytes

    @cached_property
    def instructions(self) -> float:
        """Of all threads, in plain operations; threads beyond a row's end work as well."""
        mapping = self.mapping
        covered = self.reach * mapping.block_rows * self.blocks * self.iterations
        if mapping.split:
            covered = self.profile.elements
        each = sum(map(self._instructions, self.phases))
        # Of neighbours that read lines apart the L1 looks up one a cycle, in which all lanes work.
        # An H200 takes 143.7 us for 33.6 million such loads, 252000 cycles of a multiprocessor for
        # its 254000: bilinear interpolation of 512 x 64 x 64 by 2, written with channels last.
        # 89 million of deformable attention took 424 to 505 us, where rows were places.
        if mapping.threads == 1 or not self.profile.reduces:
            each += self.device.lanes * sum(phase.uncoalesced for phase in self.phases)
        return each * covered + self.exchanges

    @cached_property
    def exchanges(self) -> float:
        """By which the threads of a row tell each other what they found, in plain operations."""
        timing, mapping = self.timing, self.mapping
        within = min(mapping.threads, mapping.warp_threads)
        steps = log2(within)
        others = mapping.threads // within * mapping.cluster
        if others > 1:
            steps += log2(min(others, mapping.warp_threads))
        each = timing.shuffle * steps + 2 * timing.access * (others > 1)
        if mapping.cluster > 1:
            each += timing.send * mapping.cluster / within
        threads = mapping.block_threads * mapping.batch * self.blocks * self.iterations
        return each * threads * self.profile.reductions

    @cached_property
    def specials(self) -> float:
        """Special functions of all threads."""
        return sum(phase.specials for phase in self.profile.phases) * self.profile.elements

    @cached_property
    def iteration_us(self) -> float:
        """One iteration through all phases; the next one's first loads may be on their way."""
        loads = [self._load_us(n, phase) for n, phase in enumerate(self.phases)]
        work = sum(map(self._work_us, self.phases))
        if self.mapping.prefetch_next_row:
            return max(loads[0], work + sum(loads[1:]))
        return work + sum(loads)

    @cached_property
    def block_us(self) -> float:
        """A block from its start to its end, of one iteration."""
        timing = self.timing
        total = timing.block_us + self.iteration_us
        if self.profile.listing is not None:
            total += self.profile.listing.us(self.mapping.block_threads, self.device)
        if self.profile.column_reductions and not self.profile.row_segments:
            threads, columns = self.mapping.block_threads, self.profile.columns
            # A column's partials are shared by as many threads as there are warps, or fewer.
            each = max(WARP / max(WARP, threads), columns / (self.blocks * threads))
            total += grid_us(self.blocks, self.device)
            total += self.partials * each * timing.l2_latency_us
        return total

    def _work_us(self, phase: PhaseProfile) -> float:
        """A thread's dependent instructions, and its row's reductions behind them."""
        timing, mapping = self.timing, self.mapping
        cycles = self._instructions(phase) * self.each * timing.chain / mapping.depth_split
        total = cycles / self.device.clock * 1e6 + mapping.barriers * timing.barrier_us
        if phase.reductions:
            within_warp = min(mapping.threads, mapping.warp_threads)
            total += timing.shuffle_us * within_warp.bit_length()
            if mapping.threads > within_warp:
                total += timing.barrier_us + timing.warp_us * mapping.block_threads / WARP
            if mapping.cluster > 1:
                total += timing.cluster_us
        return total

    def _load_us(self, number: int, phase: PhaseProfile) -> float:
        """Waiting for loads: so many bytes of a thread are on their way at once."""
        timing, mapping = self.timing, self.mapping
        in_flight = (
            timing.in_flight if self.in_registers and number == 0 else timing.in_flight_later
        )
        own: float = sum(phase.reads) * self.each
        if self.waiting_bytes:
            own *= self.read_bytes / self.profile.read_bytes
        # Asynchronous copies need no registers, so all of them are.
        batches = 1.0 if mapping.asynchronous else max(1.0, own / in_flight)
        total = batches * timing.dram_latency_us if own else 0.0
        total += sum(phase.again) * self.each / in_flight * timing.l2_latency_us
        if phase.along and not mapping.prefetch_weights:
            total += timing.l2_latency_us * (1 + timing.serial * (self.steps - 1))
        if phase.gathers:
            total += timing.dram_latency_us * self.steps
        return total

    def _instructions(self, phase: PhaseProfile) -> float:
        """Of an element, in plain operations."""
        timing, mapping = self.timing, self.mapping
        accesses = sum(map(self._accesses, (*phase.reads, *phase.again, *phase.writes)))
        fewest = 1 if mapping.peeled else 0
        accesses += sum(max(fewest, self._accesses(size)) for size in phase.along)
        accesses += len(phase.gathers)
        if mapping.tile or not self.in_registers:
            accesses += phase.from_kept + phase.to_kept
        plain = phase.operations + phase.specials
        if mapping.threads == 1:  # with whole rows, neighbours are at the same column
            plain -= phase.avoided
        return plain + timing.access * accesses + timing.step / mapping.access

    def _accesses(self, size: int) -> float:
        """Memory instructions that move an element of so many bytes."""
        width = self.mapping.access
        return -(-size * width // ACCESS_BYTES) / width
