"""What a kernel costs: the only cost model, asked by the planner, the tuner and the report.

In: Programs (or their Profiles), their Schedule and the Device. Out: bytes and microseconds, or
None where a symbolic dimension leaves them open.

A kernel is bound by whatever is slowest of four: device memory, the L2 cache, the issue of
instructions, and the latency of one block's phases times the waves of blocks. The constants are
the device's, fitted to kernels measured on it (bench/calibration).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tvm_stitch.device import Device
from tvm_stitch.kernel.profile import Phase, Profile, profile
from tvm_stitch.kernel.program import Program
from tvm_stitch.kernel.schedule import Mapping, Schedule
from tvm_stitch.kernel.stage import Var, buffer_shape, constant, dtype_of, item_bytes, product

WARP = 32
ACCESS_BYTES = 16
OVERHEAD_REGISTERS = 16
SCRATCH_BYTES = 1024  # of shared memory that a block takes beside what it asks for
MAX_BLOCKS = 32  # resident blocks of a multiprocessor
SPECIAL_RATE = 8  # plain operations in the time of a special function: 128 lanes against 16


@dataclass(frozen=True)
class Cost:
    """Where a kernel's time goes, in microseconds, and how the device is filled."""

    launch_us: float
    block_us: float  # one block from start to end, which nothing hides
    dram_us: float
    l2_us: float
    issue_us: float  # plain instructions
    special_us: float  # special functions, which have units of their own
    latency_us: float  # the other waves of blocks, one after the other
    dispatch_us: float  # handing blocks to multiprocessors
    waves: float  # blocks over those that are resident at once
    occupancy: float  # share of a multiprocessor's threads that are resident
    us: float

    def __str__(self) -> str:
        """One line for people."""
        return (
            f"{self.us:.2f} us: launch {self.launch_us:.2f}, one block {self.block_us:.2f}, "
            f"DRAM {self.dram_us:.2f}, L2 {self.l2_us:.2f}, instructions {self.issue_us:.2f}, "
            f"special functions {self.special_us:.2f}, waves {self.latency_us:.2f}, "
            f"dispatch {self.dispatch_us:.2f} ({self.waves:.1f} waves, "
            f"{self.occupancy:.0%} occupied)"
        )


def tensor_bytes(buffer: Var) -> int | None:
    """Bytes of a tensor."""
    elements = constant(product(buffer_shape(buffer)))
    return None if elements is None else elements * item_bytes(dtype_of(buffer))


def least_bytes(programs: tuple[Program, ...]) -> int | None:
    """Each input read once, each output written once."""
    buffers = {b: None for program in programs for b in (*program.inputs, *program.outputs)}
    sizes = [tensor_bytes(buffer) for buffer in buffers]
    known = [size for size in sizes if size is not None]
    return sum(known) if len(known) == len(sizes) else None


def floor_us(programs: tuple[Program, ...], device: Device) -> float | None:
    """What moving those bytes takes at the bandwidth of a large copy."""
    least = least_bytes(programs)
    return None if least is None else least / device.bandwidth * 1e6


def predicted_us(programs: tuple[Program, ...], schedule: Schedule, device: Device) -> float | None:
    """What the kernel should take."""
    cost = predicted(programs, schedule, device)
    return None if cost is None else cost.us


def predicted(programs: tuple[Program, ...], schedule: Schedule, device: Device) -> Cost | None:
    """What the kernel should take, and why."""
    found = [profile(p, m.recompute) for p, m in zip(programs, schedule.parts, strict=True)]
    known = [each for each in found if each is not None]
    return kernel_cost(known, schedule, device) if len(known) == len(found) else None


def kernel_cost(profiles: Sequence[Profile], schedule: Schedule, device: Device) -> Cost:
    """The cost of a kernel of these profiles, side by side."""
    parts = [_Part(p, m, device) for p, m in zip(profiles, schedule.parts, strict=True)]
    resident = min(part.resident for part in parts)
    blocks = sum(part.blocks for part in parts)
    waves = blocks / (resident * device.multiprocessors)
    # Multiprocessors that have a block less than others wait for them at the end.
    busiest = -(-blocks // device.multiprocessors) * device.multiprocessors / blocks
    dram = sum(part.dram_bytes for part in parts) / device.bandwidth * 1e6
    timing = device.timing
    cycles = 1e6 / device.clock / device.multiprocessors  # microseconds of a cycle of all
    l2 = cycles * sum(part.l2_bytes for part in parts) / timing.l2_bytes
    lane = busiest * cycles / device.lanes
    issue = lane * timing.issue * sum(part.instructions for part in parts)
    special = lane * timing.special * SPECIAL_RATE * sum(part.specials for part in parts)
    one = max(part.latency_us for part in parts)
    mean = sum(part.latency_us * part.blocks for part in parts) / blocks
    clustered = parts[0].mapping.cluster > 1
    if clustered:
        mean += timing.cluster_start_us
    latency = mean * (math.ceil(waves) - 1)
    each = timing.cluster_dispatch_ns if clustered else timing.dispatch_ns
    dispatch = blocks * each / 1e3
    sharp = timing.overlap
    work = sum(term**sharp for term in (dram, l2, issue, special, latency, dispatch)) ** (1 / sharp)
    us = timing.launch_us + one + work
    threads = resident * schedule.block_threads
    return Cost(
        launch_us=timing.launch_us,
        block_us=one,
        dram_us=dram,
        l2_us=l2,
        issue_us=issue,
        special_us=special,
        latency_us=latency,
        dispatch_us=dispatch,
        waves=waves,
        occupancy=threads / device.max_threads,
        us=us,
    )


class _Part:
    """A profile on the threads of a mapping."""

    def __init__(self, profile: Profile, mapping: Mapping, device: Device) -> None:
        self.profile, self.mapping, self.device = profile, mapping, device
        self.timing = device.timing
        if mapping.split:
            self.blocks = -(-profile.columns // mapping.reach)
        else:
            self.blocks = -(-profile.rows // mapping.rows) * mapping.cluster
        self.each = mapping.vector * mapping.steps
        self.in_registers = mapping.residence == "register"

    @property
    def resident(self) -> int:
        """Blocks of a multiprocessor at once."""
        device, mapping, threads = self.device, self.mapping, self.mapping.block_threads
        waiting = self.each * self.profile.live_bytes // 4 if self.in_registers else 0
        registers = min(255, waiting + 2 * mapping.vector + OVERHEAD_REGISTERS)
        shared = SCRATCH_BYTES
        if not self.in_registers:
            shared += self.profile.kept_bytes * mapping.reach * mapping.rows
        most = min(
            device.max_threads // threads,
            device.registers // (registers * threads),
            device.shared_total // shared,
            MAX_BLOCKS,
        )
        return max(1, most)

    @property
    def dram_bytes(self) -> float:
        """Every tensor once, and what is read again but has left the L2 meanwhile."""
        again = sum(sum(phase.again) for phase in self.profile.phases) * self.profile.elements
        if not again:
            return self.profile.least_bytes
        row = sum(self.profile.phases[0].reads) * self.mapping.reach * self.mapping.rows
        resident = min(self.blocks, self.resident * self.device.multiprocessors) * row
        lost = max(0.0, 1 - self.device.l2_size / resident)
        return self.profile.least_bytes + lost * again

    @property
    def l2_bytes(self) -> float:
        """Bytes between the multiprocessors and the L2: what rows share is read by each of them."""
        total = 0.0
        for phase in self.profile.phases:
            total += sum((*phase.reads, *phase.again, *phase.writes)) + sum(phase.along) / 4
            total += 32 * len(phase.gathers) / 4
        return total * self.profile.elements

    @property
    def instructions(self) -> float:
        """Of all threads, in plain operations."""
        covered = self.mapping.reach * self.mapping.rows * self.blocks
        if self.mapping.split:
            covered = self.profile.elements
        return sum(map(self._phase_instructions, self.profile.phases)) * covered

    @property
    def specials(self) -> float:
        """Special functions of all threads."""
        return sum(phase.specials for phase in self.profile.phases) * self.profile.elements

    def _phase_instructions(self, phase: Phase) -> float:
        """Of an element."""
        timing, vector = self.timing, self.mapping.vector
        accesses = sum(self._accesses(size) for size in (*phase.reads, *phase.again, *phase.writes))
        along = 1 if self.mapping.peeled else 0
        accesses += sum(max(along, self._accesses(size)) for size in phase.along)
        accesses += len(phase.gathers)
        if not self.in_registers:
            accesses += phase.from_kept + phase.to_kept
        return phase.operations + phase.specials + timing.access * accesses + timing.step / vector

    def _accesses(self, size: int) -> float:
        """Memory instructions that move an element of so many bytes."""
        vector = self.mapping.vector
        return -(-size * vector // ACCESS_BYTES) / vector

    @property
    def latency_us(self) -> float:
        """Of a block that has its multiprocessor to itself."""
        timing, mapping = self.timing, self.mapping
        total = timing.block_us
        for number, phase in enumerate(self.profile.phases):
            total += self._load_us(phase, number)
            chain = self._phase_instructions(phase) * self.each
            total += chain * timing.chain / self.device.clock * 1e6
            if phase.reductions:
                total += timing.shuffle_us * min(mapping.threads, WARP).bit_length()
                if mapping.threads > WARP:
                    total += timing.barrier_us + timing.warp_us * mapping.block_threads / WARP
                if mapping.cluster > 1:
                    total += timing.cluster_us
        return total

    def _load_us(self, phase: Phase, number: int) -> float:
        """Waiting for loads: so many bytes of a thread are on their way at once."""
        timing = self.timing
        own = sum(phase.reads) * self.each
        flying = timing.flying if self.in_registers and number == 0 else timing.flying_later
        waits = max(1.0, own / flying) if own else 0.0
        found = waits * timing.dram_latency_us
        found += sum(phase.again) * self.each / flying * timing.l2_latency_us
        if phase.along:
            found += timing.l2_latency_us * (1 + timing.serial * (self.mapping.steps - 1))
        if phase.gathers:
            found += timing.dram_latency_us * self.mapping.steps
        return found
