"""What a kernel costs: the only cost model, asked by the planner and by the report.

In: Programs, their Schedule and the Device. Out: bytes and microseconds, or None where a symbolic
dimension leaves them open.
"""

from __future__ import annotations

from tvm_stitch.device import Device
from tvm_stitch.kernel.program import Program
from tvm_stitch.kernel.schedule import Mapping, Schedule
from tvm_stitch.kernel.stage import Var, buffer_shape, constant, dtype_of, item_bytes, product


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
    """A launch, and the bytes at the rate that the occupied part of the device can move."""
    floor = floor_us(programs, device)
    if floor is None:
        return None
    blocks = sum(map(_blocks, programs, schedule.parts))
    threads = blocks * schedule.block_threads
    # A quarter of the device's threads, each with several loads in flight, saturate its memory.
    busy = min(1.0, threads / (device.multiprocessors * device.max_threads / 4))
    return device.launch_us + floor / busy


def _blocks(program: Program, mapping: Mapping) -> int:
    rows, columns = constant(program.space.rows), constant(program.space.columns)
    assert rows is not None and columns is not None
    if mapping.split:
        return -(-columns // mapping.reach)
    return -(-rows // mapping.block_rows) * mapping.cluster
