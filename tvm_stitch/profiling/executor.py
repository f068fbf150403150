"""Kernels counted by the CPU executor, where there is no GPU: accesses, their bytes, barriers.

In: a Relax module. Out: a Run without times. Counts are the same on every machine. Instructions
are not counted: g++ compiles the kernel for the host, whose instructions are not the GPU's.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm

from tvm_stitch import simt
from tvm_stitch.executable.on_cpu import Runner
from tvm_stitch.options import Options
from tvm_stitch.profiling.data import Event, Run
from tvm_stitch.verify import stitched_for_cpu

HOW = "CPU executor"


def counted(
    mod: tvm.IRModule, target: tvm.target.Target, arrays: Sequence[Any], options: Options | None
) -> tuple[Run, tuple[str, ...]]:
    """What one call does, and which kernels the executor did not run."""
    runner = Runner(stitched_for_cpu(mod, target, options), target)
    runner.run(arrays, 0)
    events = (_event(name, run) for name, run in runner.runs)
    return Run(tuple(events)), tuple(map(str, runner.not_run))


def _event(name: str, run: simt.Run) -> Event:
    return Event(
        f"{name}_kernel",
        start_us=0.0,
        us=None,
        accesses=run.instructions,
        switches=run.switches,
        global_bytes=run.global_bytes,
        barriers=run.barriers,
    )
