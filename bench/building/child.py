"""One build, in a process of its own.

`python -m bench.building.child MODEL SYSTEM BEGUN` writes a row of JSON; BEGUN is the time, as
time.monotonic() has it for all processes, at which this one was asked for.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

from bench import environment

TARGET = {"kind": "cuda", "arch": "sm_90a"}
OURS, INDUCTOR, XLA = "stitch", "inductor", "xla"
TRACED = "stitch-traced"  # how the benchmarks call it where the package reads the model, too
TORCH_MODEL, STEP = "torch:", ":step"
IMPORTING, DYNAMO, REST = "importing", "dynamo and AOTAutograd", "the rest"
# What systems import for themselves: for models of the benchmarks, and for those that dynamo reads.
IMPORTS = {
    OURS: ("tvm_stitch", "tvm_stitch.torch"),
    INDUCTOR: ("torch._dynamo", "torch._inductor.compile_fx", "triton"),
    XLA: ("jax", "jax.numpy"),
}
BY_DYNAMO = ("torch._dynamo", "tvm_stitch.dynamo.backend")

Stages = dict[str, float]


@dataclass(frozen=True)
class Build:
    """What is imported first, and what is called then; both count."""

    modules: tuple[str, ...]
    run: Callable[[], None]


def ready(name: str, system: str) -> Build:
    """A build of a model, its inputs made."""
    if name.startswith(TORCH_MODEL):
        return _of_torch_model(name.removeprefix(TORCH_MODEL), system)
    if environment.missing_for_measuring() is not None:
        return Build(IMPORTS[OURS], lambda: _without_gpu(name))
    from bench.case import make_inputs
    from bench.cases import find

    workload = find(name).workload()
    inputs = make_inputs(workload.arrays, "cuda")

    def run() -> None:
        from bench.systems import Gpu, all_systems

        named = TRACED if system == OURS else system
        all_systems()[named].prepare(workload, inputs, Gpu())

    return Build(IMPORTS[system], run)


def _of_torch_model(name: str, system: str) -> Build:
    """As torch.compile gets it, in bfloat16; with its backward pass where a step is asked for."""
    import torch

    from bench.torch_models import registry, systems
    from bench.torch_models.model import leaves
    from bench.torch_models.tries import Try

    class Made(Try):
        def exact(self, inputs: Any) -> list[torch.Tensor]:
            return []  # nothing is compared

    model = registry.find(name.removesuffix(STEP))
    given = Made(model, "bfloat16", systems.CUDA, False, lambda message: None)
    given.prepare()
    is_step = name.endswith(STEP)
    given.module.train(is_step)

    def run() -> None:
        function = systems.System(system, systems.CUDA).compile(given.module)
        with torch.set_grad_enabled(is_step):
            results = function(**given.inputs)
        if is_step:
            floating = [each for each in leaves(results) if each.requires_grad]
            torch.stack([each.float().square().mean() for each in floating]).sum().backward()
        torch.cuda.synchronize()

    return Build(BY_DYNAMO if system == OURS else IMPORTS[system], run)


def _without_gpu(name: str) -> None:
    """Up to the executable: there is nothing to load it."""
    import tvm_stitch
    from bench.cases import find
    from bench.importing import by_itself, never_made
    from tvm_stitch.target import full_target
    from tvm_stitch.timing import stage

    with stage("reading"):
        workload = find(name).workload()
        module = by_itself(workload, never_made(workload))
    tvm_stitch.compile(module, full_target(TARGET))


def measured(build: Build) -> dict[str, Any]:
    """Seconds of a build, those of all processors, and those of its stages."""
    start, before = time.perf_counter(), _cpu_seconds()
    for module in build.modules:
        importlib.import_module(module)
    stages = {IMPORTING: time.perf_counter() - start}
    with _heard(stages):
        build.run()
    seconds, cpu = time.perf_counter() - start, _cpu_seconds() - before
    stages[REST] = seconds - sum(stages.values())
    rounded = {stage: round(each, 2) for stage, each in stages.items()}
    return {"seconds": round(seconds, 2), "cpu_s": round(cpu, 2), "stages": rounded}


@contextmanager
def _heard(stages: Stages) -> Iterator[None]:
    """Adds the stages of tvm_stitch, where it is the system; and what comes before its graphs."""
    if "tvm_stitch" not in sys.modules:
        yield
        return
    from tvm_stitch.timing import timed

    with timed() as own, _graphs() as graphs:
        start = time.perf_counter()
        yield
        if graphs:
            stages[DYNAMO] = time.perf_counter() - start - sum(graphs)
    stages.update(own)


@contextmanager
def _graphs() -> Iterator[list[float]]:
    """Receives the seconds of each graph that dynamo leaves to tvm_stitch."""
    seconds: list[float] = []
    if "tvm_stitch.dynamo.backend" not in sys.modules:
        yield seconds
        return
    from tvm_stitch.dynamo.backend import GraphCompiler

    compile_graph = GraphCompiler.compile_graph

    def timed(*arguments: Any) -> Any:
        start = time.perf_counter()
        try:
            return compile_graph(*arguments)
        finally:
            seconds.append(time.perf_counter() - start)

    with mock.patch.object(GraphCompiler, "compile_graph", timed):
        yield seconds


def _cpu_seconds() -> float:
    """Of this process and of the compilers that it started and that are done."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def main(name: str, system: str, begun: str) -> int:
    """Build; the row goes where standard output was, and what systems print elsewhere."""
    pipe = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    try:
        build = ready(name, system)
        waited = time.monotonic() - float(begun)
        row = {"ready_s": round(waited, 2), **measured(build)}
    except Exception:
        row = {"failed": traceback.format_exc().strip().splitlines()[-1][:300]}
    print(json.dumps(row), file=pipe, flush=True)
    # Compilers' worker processes and threads are nothing to wait for.
    os._exit(int("failed" in row))


if __name__ == "__main__":
    main(*sys.argv[1:])
