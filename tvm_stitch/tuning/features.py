"""A schedule as numbers, for the model: its parameters and the terms of the analytic model.

In: what a Workload is made of, and a Schedule or Tiles of it. Out: numbers by their NAMES. Sizes go
in as logarithms: what matters is their ratio. Of several parts the largest speaks for the kernel.
"""

from __future__ import annotations

import math

import numpy as np

from tvm_stitch.device import Device
from tvm_stitch.kernel.cost_model.kernel_model import Cost, predicted
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.tensor_core.tiles import Tiles
from tvm_stitch.stages.stage import constant, element_bytes

# Of the analytic model.
TERMS = (
    "block_us",
    "dram_us",
    "l2_us",
    "issue_us",
    "special_us",
    "latency_us",
    "dispatch_us",
    "waves",
    "last_wave",
    "occupancy",
    "predicted_us",
)
# Of a mapping: numbers, and what is yes or no; of any kind, for all answer all.
NUMBERS = (
    "threads", "rows", "vector", "steps", "cluster", "blocks", "min_blocks_per_sm", "batch",
    "unroll", "depth_split", "idle", "tile", "persistent_rows",
)  # fmt: skip
FLAGS = (
    "recompute", "peeled", "split", "prefetch_next_row", "prefetch_weights", "asynchronous",
    "online",
)  # fmt: skip
# Of the tiles of a product on tensor cores, and how deep that is.
TILES = {
    "tile_columns": "columns",
    "tile_depth": "depth",
    "warp_rows": "warp_rows",
    "warp_columns": "warp_columns",
    "smem_stages": "stages",
    "group": "group",
    "warpgroups": "warpgroups",
}
NAMES = (
    *NUMBERS,
    *FLAGS,
    "block_threads",
    "in_shared",
    "nowhere",
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
    "idle_columns",
    "idle_rows",
    *TERMS,
    *TILES,
    "contracted",
)


def in_order(found: dict[str, float]) -> list[float]:
    """The numbers of one layout in the order of NAMES; not a number where nothing is said."""
    return [found.get(name, math.nan) for name in NAMES]


def of_tiles(sizes: tuple[int, ...], tiles: Tiles, predicted_us: float) -> dict[str, float]:
    """The numbers of a product's tiles; `sizes` are rows, columns, depth and entries of each."""
    names = {**TILES, **{name: name for name in ("rows", "threads", "min_blocks_per_sm")}}
    found = {name: math.log2(1 + getattr(tiles, field)) for name, field in names.items()}
    rows, columns, contracted, entries = (sizes[n::4] for n in range(4))
    totals = {
        "total_rows": max(r * e for r, e in zip(rows, entries, strict=True)),
        "total_columns": sum(columns),
        "contracted": max(contracted),
    }
    more = {name: _log(size) for name, size in totals.items()}
    if tiles.splits > 1:  # of blocks by themselves nothing was said when the models were fitted
        more["cluster"] = math.log2(1 + tiles.splits)
    return found | more | {"predicted_us": _log(predicted_us)}


def of_schedule(
    programs: tuple[Program, ...], schedule: Schedule, device: Device
) -> dict[str, float]:
    """The numbers of a schedule of programs."""
    largest = int(np.argmax([constant(program.space.size) or 0 for program in programs]))
    program, mapping = programs[largest], schedule.parts[largest]
    found = {
        **_of_mapping(mapping),
        **_of_program(program, mapping),
        **_of_room(program, mapping, device),
        **_of_cost(predicted(programs, schedule, device)),
        "parts": float(len(schedule.parts)),
    }
    if schedule.blocks:
        found |= {
            name: math.log2(1 + getattr(schedule, name)) for name in ("blocks", "min_blocks_per_sm")
        }
    return found


def _of_mapping(mapping: Mapping) -> dict[str, float]:
    return {
        **{name: math.log2(1 + getattr(mapping, name)) for name in NUMBERS},
        **{name: float(getattr(mapping, name)) for name in FLAGS},
        "block_threads": _log(mapping.block_threads),
        "in_shared": float(mapping.residence == "shared"),
        "nowhere": float(mapping.residence == "nowhere"),
    }


def _of_program(program: Program, mapping: Mapping) -> dict[str, float]:
    phases = kind_of(program).phases(program, mapping)
    return {
        "total_rows": _log(constant(program.space.rows)),
        "total_columns": _log(constant(program.space.columns)),
        "item_bytes": float(_item_bytes(program)),
        "inputs": float(len(program.inputs)),
        "outputs": float(len(program.outputs)),
        "stages": float(len(program.stages)),
        "phases": float(len(phases.phases)),
        "kept_bytes": float(phases.live_bytes),
    }


def _of_room(program: Program, mapping: Mapping, device: Device) -> dict[str, float]:
    """What a block takes, and how much of it has no work."""
    rows = constant(program.space.rows) or device.multiprocessors
    columns = constant(program.space.columns) or mapping.reach
    pieces = -(-columns // mapping.reach) if mapping.split else mapping.cluster
    covered = pieces * mapping.reach
    each = mapping.block_rows
    access = mapping.vector * _item_bytes(program)
    loads = mapping.steps * mapping.batch if mapping.residence == "register" else 1
    taken = kind_of(program).footprint(program, mapping)
    return {
        "access_bytes": float(access),
        "bytes_in_flight": _log(access * loads),
        "registers": float(taken.registers),
        "shared_bytes": _log(taken.shared + 1),
        "idle_columns": 1 - columns / max(covered, columns),
        "idle_rows": 1 - rows / (-(-rows // each) * each),
    }


def _of_cost(cost: Cost) -> dict[str, float]:
    """The terms of the analytic model."""
    return {
        **{name: _log(getattr(cost, name)) for name in TERMS if name in vars(cost)},
        "waves": _log(cost.waves),
        "last_wave": cost.waves / math.ceil(cost.waves),
        "occupancy": cost.occupancy,
        "predicted_us": _log(cost.us),
    }


def _item_bytes(program: Program) -> int:
    return min(element_bytes(b) for b in (*program.inputs, *program.outputs))


def _log(value: float | None) -> float:
    """The binary logarithm; not a number for what a symbolic size leaves open."""
    return math.log2(value) if value else math.nan
