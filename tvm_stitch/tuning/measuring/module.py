"""Modules of several kernels, compiled by a given plan and timed as a whole.

In: a Relax module of TIR calls, as the planner sees it, and Options with a SavedPlan of its block:
an empty one leaves everything to TVM. Out: a library, and the time of its main. Runs in a measuring
process.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import tvm
from tvm import relax, tirx
from tvm.relax.backend.cuda import pipeline as cuda_pipeline

from tvm_stitch.build import kernel_passes, launch_passes, lowering_context
from tvm_stitch.errors import StitchError
from tvm_stitch.options import Options
from tvm_stitch.stages.stage import is_buffer
from tvm_stitch.tuning.measuring.arrays import make_array
from tvm_stitch.tuning.measuring.gpu import Driver, Stopwatch

WARM_CALLS = 3
CALLS = 60
FLUSH_US = 50.0  # that overwriting the flushed buffer takes at least


def build(module: str, options: Options, target: str, library: str) -> None:
    """Compile a module, which is JSON as the target is, by the options' plan."""
    cuda = tvm.ir.load_json(target)
    passes = [
        *kernel_passes(cuda, options),
        *cuda_pipeline.dataflow_lower_passes(cuda),
        *launch_passes(cuda, options),
        *cuda_pipeline.finalize_passes(cuda),
    ]
    with lowering_context(), cuda:
        pipeline = tvm.transform.Sequential(passes)
        built = tvm.compile(tvm.ir.load_json(module), cuda, relax_pipeline=pipeline)
        built.export_library(library)


class Model:
    """A module's main on this machine's GPU, with inputs that it can digest."""

    def __init__(self, module: tvm.IRModule) -> None:
        self._device = tvm.cuda(0)
        if not self._device.exist:
            raise StitchError("there is no GPU that TVM can use")
        self._stopwatch = Stopwatch(self._device, Driver())
        self._inputs = [
            tvm.runtime.tensor(_values(module, parameter), self._device)
            for parameter in module["main"].params
        ]

    def time(self, library: str) -> float:
        """Microseconds from its first kernel to its last, the median of many calls."""
        machine = relax.VirtualMachine(tvm.runtime.load_module(library), self._device)
        call = partial(machine["main"], *self._inputs)
        for _ in range(WARM_CALLS):
            started = time.perf_counter()
            call()
            host_us = (time.perf_counter() - started) * 1e6
            self._device.sync()
        flushes = 1 + int(host_us / FLUSH_US)
        times = [self._stopwatch.time(call, flushes) for _ in range(CALLS)]
        return statistics.median(times)


def _values(module: tvm.IRModule, parameter: relax.Var) -> Any:
    """An array for a parameter: integers stay inside of whatever any kernel indexes by them."""
    readers = [make_array(function, buffer) for function, buffer in _readers(module, parameter)]
    if not readers:
        raise StitchError(f"nothing reads the parameter {parameter.name}")
    return min(readers, key=lambda array: float(array.max(initial=0)))


def _readers(module: tvm.IRModule, parameter: relax.Var) -> Iterator[tuple[tirx.PrimFunc, Any]]:
    """The functions that main calls with a parameter, each with its own name for it."""
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            if isinstance(binding.value, tvm.ir.Call):
                function = module[binding.value.args[0]]
                buffers = [param for param in function.params if is_buffer(param)]
                operands = zip(buffers, binding.value.args[1].fields, strict=False)
                yield from ((function, buffer) for buffer, given in operands if given == parameter)
