"""What a kernel costs: the only cost model, asked by the planner, the tuner and the report.

In: Programs (or their Profiles), their Schedule, the Device, and sizes of symbols. Out: bytes and
microseconds, of the kernel that the host launches for these sizes.

A kernel takes a launch, one block from start to end, and what is slowest of the rest: device
memory, the L2, instructions, special functions, the other waves of blocks, handing out blocks. How
well these overlap is a constant too; all are the device's Timing (bench/calibration).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, fields

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.profile import Profile
from tvm_stitch.kernel.codegen.footprint import Footprint
from tvm_stitch.kernel.cost_model.part_model import Demand, grid_us
from tvm_stitch.kernel.footprint import footprint_of
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.shared_input import shares_input
from tvm_stitch.stages.extents import NOMINAL, Extents
from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.stage import Var

# Of the L2, the share in which the next round finds what the last ones read, and the next kernel
# what the last one wrote.
IN_L2 = 0.5
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


def tensors_of(programs: tuple[Program, ...]) -> tuple[Var, ...]:
    """What a kernel reads and writes, but for what its rounds leave for each other."""
    passed = {buffer for program in programs for buffer in program.crossing}
    buffers = {b: None for program in programs for b in (*program.inputs, *program.outputs)}
    return tuple(buffer for buffer in buffers if buffer not in passed)


def least_bytes(programs: tuple[Program, ...], extents: Extents = NOMINAL) -> int:
    """Each input read once, each output written once."""
    return sum(extents.bytes(buffer) for buffer in tensors_of(programs))


def floor_us(programs: tuple[Program, ...], device: Device, extents: Extents = NOMINAL) -> float:
    """What moving those bytes takes at the bandwidth of a large copy."""
    return least_bytes(programs, extents) / device.bandwidth * 1e6


def copy_us(moved: float, device: Device) -> float:
    """A kernel that does nothing but move so many bytes."""
    return device.timing.launch_us + device.timing.block_us + moved / device.bandwidth * 1e6


def predicted_us(
    programs: tuple[Program, ...],
    schedule: Schedule,
    device: Device,
    extents: Extents = NOMINAL,
    fresh: int = 0,
) -> float:
    """What the kernel should take."""
    return predicted(programs, schedule, device, extents, fresh).us


def predicted(
    programs: tuple[Program, ...],
    schedule: Schedule,
    device: Device,
    extents: Extents = NOMINAL,
    fresh: int = 0,
) -> Cost:
    """What the kernel should take, and why; so many bytes of what it reads were just written."""
    taken = schedule_at(programs, schedule, extents)
    resident = resident_blocks(taken, footprint_of(programs, taken), device)
    parts = zip(programs, taken.parts, strict=True)
    demands = [_demand(program, mapping, device, resident, extents) for program, mapping in parts]
    return _cost(demands, taken, device, co_scheduled_bytes(programs, taken, extents), fresh)


@memoized
def _demand(
    program: Program, mapping: Mapping, device: Device, resident: int, extents: Extents
) -> Demand:
    """A part's, in whatever kernel it is."""
    return Demand(kind_of(program).profile(program, mapping, extents), mapping, device, resident)


def resident_blocks(schedule: Schedule, footprint: Footprint, device: Device) -> int:
    """Blocks of a multiprocessor at once; of a grid in rounds, all that it has."""
    fitting = max(schedule.told_blocks, footprint.expected_blocks(device))
    return schedule.min_blocks_per_sm or fitting


def schedule_at(programs: tuple[Program, ...], schedule: Schedule, extents: Extents) -> Schedule:
    """The one of a schedule and its longer ones by which rows of these sizes are worked on."""
    columns = [extents.size(program.space.columns) for program in programs]
    rows = max(extents.size(program.space.rows) for program in programs)
    while schedule.longer is not None and (
        any(
            not mapping.any_length and length > mapping.capacity
            for length, mapping in zip(columns, schedule.parts, strict=True)
        )
        or 0 < schedule.most_rows < rows
    ):
        schedule = schedule.longer
    return schedule


def least_work_us(cost: Cost, floor: float, device: Device) -> float:
    """What is left of a kernel's work however its operators are divided among kernels.

    Its instructions, and of its bytes the least: `floor`, as floor_us gives it.
    """
    terms = (min(cost.dram_us, floor), cost.issue_us, cost.special_us)
    sharp = device.timing.overlap
    return float(sum(term**sharp for term in terms) ** (1 / sharp))


def co_scheduled_bytes(
    programs: tuple[Program, ...], schedule: Schedule, extents: Extents = NOMINAL
) -> int:
    """Bytes that co-scheduled parts need not ask device memory for, as another one just has."""
    shared = [extents.bytes(buffer) for buffer in shares_input(programs, schedule.parts)]
    return sum(shared) * (len(programs) - 1)


def kernel_cost(
    profiles: Sequence[Profile], schedule: Schedule, footprint: Footprint, device: Device
) -> Cost:
    """The cost of a kernel of these profiles, side by side or in rounds."""
    resident = resident_blocks(schedule, footprint, device)
    parts = [Demand(p, m, device, resident) for p, m in zip(profiles, schedule.parts, strict=True)]
    return _cost(parts, schedule, device)


def _cost(
    parts: Sequence[Demand], schedule: Schedule, device: Device, shared: int = 0, fresh: int = 0
) -> Cost:
    """The cost of a kernel of these parts.

    Of what they read, `shared` bytes are in the L2 when they do, and of `fresh` as many as stay.
    """
    rounds: dict[int, list[Demand]] = defaultdict(list)
    for part in parts:
        rounds[part.profile.round].append(part)
    found: list[Cost] = []
    seen = float(fresh)  # bytes of earlier rounds and kernels, of which some are in the L2
    for number in sorted(rounds):
        in_l2 = min(seen, IN_L2 * device.l2_size) + shared
        found.append(_round_cost(rounds[number], schedule, in_l2, device))
        seen += sum(part.read_bytes for part in rounds[number])
    if len(found) == 1:
        return found[0]
    names = [field.name for field in fields(Cost) if field.name not in ("waves", "occupancy")]
    together = {name: sum(getattr(cost, name) for cost in found) for name in names}
    barriers = (len(found) - 1) * grid_us(schedule.blocks, device)
    together["us"] += barriers - device.timing.launch_us * (len(found) - 1)
    together["launch_us"] = device.timing.launch_us
    together["block_us"] += barriers
    return Cost(**together, waves=max(cost.waves for cost in found), occupancy=found[0].occupancy)


def _round_cost(parts: Sequence[Demand], schedule: Schedule, in_l2: float, device: Device) -> Cost:
    """The cost of what runs between two barriers; mostly of the whole kernel."""
    timing = device.timing
    resident, blocks = parts[0].resident, sum(part.blocks for part in parts)
    waves = blocks / (resident * device.multiprocessors)
    cycle = 1e6 / device.clock / device.multiprocessors  # of all multiprocessors, in microseconds
    # Multiprocessors that have a block less than others wait for them at the end.
    busiest = -(-blocks // device.multiprocessors) * device.multiprocessors / blocks
    lane = busiest * cycle / device.lanes
    is_cluster = parts[0].mapping.cluster > 1
    dispatch_ns = timing.cluster_dispatch_ns if is_cluster else timing.dispatch_ns
    read = sum(part.read_bytes for part in parts)
    dram = sum(part.dram_bytes for part in parts) - min(in_l2, read)
    terms = {
        "dram_us": dram / device.bandwidth * 1e6 * parts[0].narrowness,
        "l2_us": cycle * sum(part.l2_bytes for part in parts) / timing.l2_bytes,
        "issue_us": lane * timing.issue * sum(part.instructions for part in parts),
        "special_us": lane * timing.special * SPECIAL_RATE * sum(part.specials for part in parts),
        "latency_us": _later_us(parts, blocks, math.ceil(waves), device),
        "dispatch_us": blocks * dispatch_ns / 1e3,
    }
    block = max(part.block_us for part in parts)
    sharp = timing.overlap
    work = sum(term**sharp for term in terms.values()) ** (1 / sharp)
    return Cost(
        launch_us=timing.launch_us,
        block_us=block,
        waves=waves,
        occupancy=resident * schedule.block_threads / device.max_threads,
        us=timing.launch_us + block + work,
        **terms,
    )


def _later_us(parts: Sequence[Demand], blocks: int, waves: int, device: Device) -> float:
    """Blocks after the first of their place, and iterations after a block's first."""
    mean = sum(part.block_us * part.blocks for part in parts) / blocks
    if parts[0].mapping.cluster > 1:
        mean += device.timing.cluster_start_us
    iterations = max(part.iteration_us * (part.iterations - 1) for part in parts)
    in_segments = any(part.profile.row_segments for part in parts)
    return mean * (waves - 1) + iterations * (waves if in_segments else 1)
