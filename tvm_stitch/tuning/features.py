"""A schedule as numbers, for the model: its parameters and the terms of the analytic model.

In: a Workload and a Schedule. Out: a row of NAMES. Sizes go in as logarithms: what matters is their
ratio. Of several parts the largest speaks for the kernel.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from tvm_stitch.kernel.choose import registers, shared_bytes
from tvm_stitch.kernel.cost import floor_us, predicted_us
from tvm_stitch.kernel.memory import Residency, plan_residency
from tvm_stitch.kernel.program import Program
from tvm_stitch.kernel.schedule import Mapping, Schedule
from tvm_stitch.kernel.stage import constant, dtype_of, item_bytes
from tvm_stitch.tuning.workload import Workload

BLOCKS_RESIDENT = 32  # of a multiprocessor, at most
NAMES = (
    "threads",
    "rows",
    "vector",
    "steps",
    "cluster",
    "block_threads",
    "in_shared",
    "recompute",
    "peeled",
    "split",
    "batch",
    "ahead",
    "idle",
    "in_turns",
    "pipelined",
    "resident",
    "parts",
    "total_rows",
    "total_columns",
    "item_bytes",
    "inputs",
    "outputs",
    "stages",
    "phases",
    "kept_bytes",
    "access_bytes",
    "bytes_in_flight",
    "registers",
    "shared_bytes",
    "blocks",
    "blocks_resident",
    "occupancy",
    "waves",
    "last_wave",
    "idle_columns",
    "idle_rows",
    "floor",
    "predicted",
)


def features(workload: Workload, schedule: Schedule) -> list[float]:
    """The numbers of one schedule, in the order of NAMES."""
    sizes = [workload.sizes[2 * n] * workload.sizes[2 * n + 1] for n in range(len(schedule.parts))]
    largest = int(np.argmax(sizes))
    program, mapping = workload.programs[largest], schedule.parts[largest]
    residency = _residency(program, mapping.recompute)
    found = {
        **_of_mapping(mapping),
        **_of_program(program, residency),
        **_of_room(workload, program, mapping, residency),
        "parts": float(len(schedule.parts)),
        "floor": _log(floor_us(workload.programs, workload.device)),
        "predicted": _log(predicted_us(workload.programs, schedule, workload.device)),
    }
    return [found[name] for name in NAMES]


@lru_cache(maxsize=64)
def _residency(program: Program, recompute: bool) -> Residency:
    return plan_residency(program, thrifty=recompute)


def _of_mapping(mapping: Mapping) -> dict[str, float]:
    return {
        "threads": _log(mapping.threads),
        "rows": _log(mapping.rows),
        "vector": _log(mapping.vector),
        "steps": _log(mapping.steps),
        "cluster": _log(mapping.cluster),
        "block_threads": _log(mapping.block_threads),
        "in_shared": float(mapping.residence == "shared"),
        "recompute": float(mapping.recompute),
        "peeled": float(mapping.peeled),
        "split": float(mapping.split),
        "batch": _log(mapping.batch),
        "ahead": float(mapping.ahead),
        "idle": float(mapping.idle),
        "in_turns": float(mapping.blocks > 0),
        "pipelined": float(mapping.pipelined),
        "resident": float(mapping.resident),
    }


def _of_program(program: Program, residency: Residency) -> dict[str, float]:
    return {
        "total_rows": _log(constant(program.space.rows)),
        "total_columns": _log(constant(program.space.columns)),
        "item_bytes": float(_item_bytes(program)),
        "inputs": float(len(program.inputs)),
        "outputs": float(len(program.outputs)),
        "stages": float(len(program.stages)),
        "phases": float(residency.phases),
        "kept_bytes": float(residency.live_bytes),
    }


def _of_room(
    workload: Workload, program: Program, mapping: Mapping, residency: Residency
) -> dict[str, float]:
    """What a block takes, and how the blocks fill the device."""
    device = workload.device
    rows = constant(program.space.rows) or device.multiprocessors
    columns = constant(program.space.columns) or mapping.reach
    block_registers = registers(mapping, residency) * mapping.block_threads
    shared = shared_bytes(program, residency, mapping)
    resident = min(
        device.max_threads // mapping.block_threads,
        device.registers // max(1, block_registers),
        device.shared_total // max(1, shared + 1024),
        BLOCKS_RESIDENT,
    )
    resident = mapping.resident or max(1, resident)
    groups = -(-columns // mapping.reach) if mapping.split else -(-rows // mapping.block_rows)
    blocks = mapping.blocks or groups * mapping.cluster
    waves = blocks / (resident * device.multiprocessors)
    covered = columns if mapping.split else mapping.cluster * mapping.reach
    access = mapping.vector * _item_bytes(program)
    loads = mapping.steps * mapping.batch if mapping.residence == "register" else 1
    return {
        "access_bytes": float(access),
        "bytes_in_flight": _log(access * loads),
        "registers": float(registers(mapping, residency)),
        "shared_bytes": _log(shared + 1),
        "blocks": _log(blocks),
        "blocks_resident": float(resident),
        "occupancy": resident * mapping.block_threads / device.max_threads,
        "waves": _log(waves),
        "last_wave": waves / math.ceil(waves),
        "idle_columns": 1 - columns / max(covered, columns),
        "idle_rows": 1 - rows / (groups * mapping.block_rows) if not mapping.split else 0.0,
    }


def _item_bytes(program: Program) -> int:
    return min(item_bytes(dtype_of(b)) for b in (*program.inputs, *program.outputs))


def _log(value: float | None) -> float:
    """The binary logarithm; not a number for what a symbolic size leaves open."""
    return math.log2(value) if value else math.nan
