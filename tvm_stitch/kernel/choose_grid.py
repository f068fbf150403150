"""The mapping of the global scheme: how many blocks take turns at the rows, and what they hold.

In: a Program with reductions over its rows, and a Device. Out: a Mapping whose blocks are all
resident at once, or why there is none. Part of kernel/choose, the home of legality.
"""

from __future__ import annotations

from dataclasses import replace

from tvm_stitch.device import Device
from tvm_stitch.kernel.memory import Residency, plan_residency
from tvm_stitch.kernel.program import Program
from tvm_stitch.kernel.reduce import accumulator_dtype
from tvm_stitch.kernel.schedule import WARP, Mapping
from tvm_stitch.kernel.stage import Refused, constant

# What a thread holds of its columns: values that wait, and a sum for each reduction.
HELD_BYTES = 160
BLOCK_THREADS = 256
MAX_BLOCK_THREADS = 1024
OVERHEAD_REGISTERS = 40  # addresses, counters and scalars of a thread
MOST_REGISTERS = 255
MOST_RESIDENT = 8
# Every share of a sum is written and read once more: so many rows go into one at least.
ROWS_A_SHARE = 16
SUM_BYTES = 4


def grid_mapping(program: Program, device: Device, vector: int, columns: int) -> Mapping | Refused:
    """The mapping for rows of so many columns, read and written in vectors of so many elements."""
    if constant(program.space.columns) is None:
        return Refused("sums over rows of unknown length")
    if len({accumulator_dtype(stage) for stage in program.across}) > 1:
        return Refused("sums of several types over the rows")
    while columns % vector:
        vector //= 2
    along = any(stage.is_reduction and not program.is_across(stage) for stage in program.stages)
    refused = Refused("no room for the sums over the rows")
    for recompute in (False, True):
        residency = plan_residency(program, thrifty=recompute)
        held = residency.live_bytes + SUM_BYTES * len(program.across)
        mapping = _whole_rows(columns, vector, held) if along else _pieces(columns, vector, device)
        mapping = replace(mapping, recompute=recompute)
        placed = _placed(program, residency, mapping, device, columns)
        if placed is not None:
            return placed
    return refused


def _whole_rows(columns: int, vector: int, held: int) -> Mapping:
    """Blocks that hold whole rows, for they reduce them as well."""
    widest = _power_of_two(-(-columns // vector))
    threads = _power_of_two(-(-columns * held // HELD_BYTES))
    threads = min(max(threads, 1), widest, MAX_BLOCK_THREADS)
    steps = -(-columns // (threads * vector))
    return Mapping("global", threads, max(1, BLOCK_THREADS // threads), vector, steps)


def _pieces(columns: int, vector: int, device: Device) -> Mapping:
    """Blocks that hold a piece of each row: a vector a thread, more where rows are very long."""
    threads = min(BLOCK_THREADS, _power_of_two(-(-columns // vector)))
    steps = -(-columns // (threads * vector * device.multiprocessors))
    return Mapping("global", threads, BLOCK_THREADS // threads, vector, steps, split=True)


def _placed(
    program: Program, residency: Residency, mapping: Mapping, device: Device, columns: int
) -> Mapping | None:
    """The mapping with as many blocks as the device holds at once and the rows keep busy."""
    resident = _resident(program, residency, mapping, device)
    pieces = -(-columns // mapping.reach) if mapping.split else 1
    if resident < 1:
        return None
    most = device.multiprocessors * resident
    rows = constant(program.space.rows)
    shares = max(1, most // pieces)
    if rows is not None:
        groups = -(-rows // mapping.rows)
        fewest = min(groups, max(1, device.multiprocessors // pieces))
        shares = min(shares, groups, max(fewest, rows // ROWS_A_SHARE))
    blocks = shares * pieces
    return replace(mapping, blocks=blocks, resident=-(-blocks // device.multiprocessors))


def _resident(program: Program, residency: Residency, mapping: Mapping, device: Device) -> int:
    """Blocks that fit into a multiprocessor by registers, threads and shared memory."""
    registers = grid_registers(program, residency, mapping)
    if registers > MOST_REGISTERS:
        return 0
    threads = mapping.block_threads
    by_registers = device.registers // (-(-registers // 8) * 8 * threads)
    by_memory = device.shared_total // (grid_shared_bytes(program, mapping) + 1024)
    return min(by_registers, by_memory, device.max_threads // threads, MOST_RESIDENT)


def grid_registers(program: Program, residency: Residency, mapping: Mapping) -> int:
    """Registers of a thread."""
    each = mapping.vector * mapping.steps
    held = residency.live_bytes + SUM_BYTES * len(program.across)
    return -(-each * held // 4) + 2 * mapping.vector + OVERHEAD_REGISTERS


def grid_shared_bytes(program: Program, mapping: Mapping) -> int:
    """Shared memory of a block: its rows' sums, the warps' shares, scratch of the rows."""
    rows = mapping.reach * mapping.rows * SUM_BYTES if mapping.rows > 1 else 0
    shares = mapping.block_threads * SUM_BYTES
    scratch = sum(8 * (mapping.block_threads // WARP) + 16 for s in program.stages)
    return len(program.across) * (rows + shares) + scratch


def _power_of_two(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()
