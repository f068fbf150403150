"""Panels of a graph: all widths, sizes of a block, clusters, and places where a column can wait.

In: a fused PrimFunc, a Device. Out: its Programs without barriers of the grid, and Schedules.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace

from tvm import tirx

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.online_reduction import in_one_pass
from tvm_stitch.kernel.build import read_programs
from tvm_stitch.kernel.cost_model.kernel_model import predicted_us
from tvm_stitch.kernel.ir.mapping import SCHEMES, Panel
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.kernel.kinds import kind_of
from tvm_stitch.kernel.legal import legal
from tvm_stitch.kernel.panels.choose import WIDTHS, vector_of
from tvm_stitch.kernel.panels.kind import PANEL
from tvm_stitch.kernel.panels.program import adjacent_rows, rows_of
from tvm_stitch.kernel.rows.choose import steps_of
from tvm_stitch.kernel.rows.legal import CLUSTERS
from tvm_stitch.stages.stage import Refused, constant

BLOCKS = (128, 256, 512, 1024)
WAITING = (("register", 0), ("shared", 0), ("shared", 4), ("nowhere", 4), ("nowhere", 8))
MUCH_WORSE = 1.7  # as often as the best, by the model
MOST_STEPS = 64  # of a column in registers: more take the CUDA compiler long


def panel_program(func: tirx.PrimFunc) -> Program | None:
    """The one program of a function as panels, if it can be that."""
    schemes = tuple(scheme for scheme in SCHEMES if scheme != "global")
    programs = read_programs(func, schemes)
    if isinstance(programs, Refused) or len(programs) != 1 or kind_of(programs[0]) is not PANEL:
        return None
    return programs[0]


def panel_schedules(program: Program, device: Device, each: int, seed: str) -> list[Schedule]:
    """So many: half of them those that the model likes best, the others not much worse by it."""
    costs = {found: predicted_us((program,), found, device) for found in _legal(program, device)}
    ranked = sorted(costs, key=costs.__getitem__)
    best, others = ranked[: each // 2], ranked[each // 2 :]
    others = [found for found in others if costs[found] < MUCH_WORSE * costs[ranked[0]]]
    random.Random(seed).shuffle(others)
    return [*best, *others][:each]


def _legal(program: Program, device: Device) -> Iterator[Schedule]:
    columns, total = (constant(each) or 0 for each in (program.space.columns, program.space.rows))
    vectors = [n for n in (1, 2, 4, 8) if n <= adjacent_rows(program)]
    for width, block, cluster, (residence, unroll), adjacent in itertools.product(
        WIDTHS, BLOCKS, CLUSTERS, WAITING, vectors
    ):
        rows = rows_of(program, width) // adjacent
        if not rows or block % rows:
            continue
        threads = block // rows
        mapping = Panel(threads, rows, vector_of(program), 1, residence, recompute=True)
        mapping = replace(mapping, unroll=unroll, cluster=cluster)
        mapping = replace(mapping, batch=adjacent, adjacent=adjacent > 1)
        mapping = replace(mapping, steps=steps_of(mapping, columns))
        blocks = -(-total // mapping.block_rows) * cluster
        if blocks < device.multiprocessors // 2 and cluster < CLUSTERS[-1]:
            continue
        if residence == "register" and mapping.steps > MOST_STEPS:
            continue
        if residence == "nowhere" and in_one_pass(program) is not None:
            mapping = replace(mapping, online=True)
        schedule = Schedule((mapping,))
        if legal((program,), schedule, device) is None:
            yield schedule
