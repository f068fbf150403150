"""profile: runs a model, measures each kernel, and joins that with what explain expects.

In: a Relax module, or an executable. Out: a Profile. On a machine without a GPU, counts instead of
times.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import tvm
from tvm import relax

from tvm_stitch.build import compile as stitch_compile
from tvm_stitch.device import device_of
from tvm_stitch.errors import InputError
from tvm_stitch.options import Options
from tvm_stitch.profiling.cupti import cupti
from tvm_stitch.profiling.data import Run
from tvm_stitch.profiling.events import DriverClock, VmEvents
from tvm_stitch.profiling.executor import HOW, counted
from tvm_stitch.profiling.join import joined
from tvm_stitch.profiling.result import Profile
from tvm_stitch.reference import random_inputs, sizes_of
from tvm_stitch.report import Report, explain
from tvm_stitch.target import full_target
from tvm_stitch.transform import bounds_of_module
from tvm_stitch.tuning.apply import Database
from tvm_stitch.tuning.measuring.gpu import Driver
from tvm_stitch.verify import rounded

CALLS = 20
WARM_UP = 3  # calls that do not count: memory is allocated, code loaded


class Source(Protocol):
    """Something that can say what a call did on the device."""

    how: str

    def run(self, call: Callable[[], object]) -> Run:
        """Call once, and say what ran."""


def profile(
    model: tvm.IRModule | tvm.runtime.Executable,
    inputs: Sequence[Any] | None = None,
    target: Any = "cuda",
    options: Options | None = None,
    database: Database | None = None,
    *,
    calls: int = CALLS,
    seed: int = 0,
    sizes: Mapping[str, int] | None = None,
    report: Report | None = None,
    source: Source | None = None,
) -> Profile:
    """Run a model's main and say what each kernel took, beside what was predicted.

    `model` is a Relax module, which is compiled, or what `compile` returned, for which `inputs`
    are needed and `report`, of `explain`, says what to expect. Inputs are NumPy arrays, random
    ones of `seed` if left out, with these `sizes` of symbolic dimensions, by name; those that are
    not given have the size that `explain` shows figures for, or a small one where nothing is timed.
    Without a GPU the CPU executor counts what a module's kernels do.
    `source` measures; left out, it is CUPTI by way of PyTorch where that is installed, else CUDA
    events.
    """
    if calls < 1:
        raise InputError(f"calls must be at least 1, not {calls}")
    if not isinstance(model, tvm.IRModule):
        return _measured(model, _given(inputs), "", calls, report, source)
    cuda = full_target(target)
    is_timed = source is not None or tvm.cuda(0).exist
    if inputs is None:
        chosen = _sizes(model, options, sizes or {}, is_timed)
        arrays = random_inputs(model, seed, chosen)
    else:
        arrays = rounded(model, inputs)
    found = report or explain(model, cuda, options, database, sizes=sizes_of(model, arrays))
    if not is_timed:
        run, not_run = counted(model, cuda, arrays, options)
        return joined([run], HOW, found.device, found, not_run)
    executable = stitch_compile(model, cuda, options, database)
    return _measured(executable, arrays, device_of(cuda).name, calls, found, source)


def _sizes(
    mod: tvm.IRModule, options: Options | None, sizes: Mapping[str, int], is_timed: bool
) -> Mapping[str, int]:
    """Sizes for random inputs; what is timed is as large as in a report."""
    symbols = relax.analysis.defined_symbolic_vars(mod["main"]) if is_timed else []
    usual = bounds_of_module(mod, options).representative
    return {**{symbol.name: usual.size(symbol) for symbol in symbols}, **sizes}


def _given(inputs: Sequence[Any] | None) -> Sequence[Any]:
    if inputs is None:
        raise InputError("an executable does not say what its inputs are: give them to profile")
    return inputs


def _measured(
    executable: tvm.runtime.Executable,
    arrays: Sequence[Any],
    device: str,
    calls: int,
    report: Report | None,
    source: Source | None,
) -> Profile:
    gpu = tvm.cuda(0)
    if source is None and not gpu.exist:
        raise InputError(
            "there is no GPU that TVM can use, and an executable holds none of what the CPU "
            "executor needs: give profile the Relax module"
        )
    place = gpu if gpu.exist else tvm.cpu()
    machine = relax.VirtualMachine(executable, place)
    tensors = [tvm.runtime.tensor(array, place) for array in arrays]

    def call() -> object:
        return machine["main"](*tensors)

    host_us = _host_us(call, place, calls)  # first: an instrument stays in the virtual machine
    found = source or cupti() or VmEvents(machine, DriverClock(Driver()))
    for _ in range(WARM_UP):
        found.run(call)
    runs = [found.run(call) for _ in range(calls)]
    name = device or (str(gpu.device_name) if gpu.exist else "CPU")
    return joined(runs, found.how, name, report, host_us=host_us)


def _host_us(call: Callable[[], object], place: Any, calls: int) -> float:
    """The median time of a call until the device is done: no profiler slows it down."""
    times = []
    for _ in range(WARM_UP + calls):
        place.sync()
        start = time.perf_counter()
        call()
        place.sync()
        times.append((time.perf_counter() - start) * 1e6)
    return statistics.median(times[WARM_UP:])
