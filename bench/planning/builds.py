"""Seconds of building models: with empty caches, and by the next process with what it kept.

`python -m bench.planning.builds NAME...` builds one after the other, each in a process of its own.
All processes import what they need and make their inputs first; then each builds while the others
sleep. A build ends with the first result. Where there is no GPU it ends with the executable, other
systems than tvm_stitch are left out, and CUDA must be compiled by nvcc (TVM_CUDA_COMPILE_MODE=nvcc,
with some libcuda.so.1): without a driver TVM embeds the source and compiles where a GPU loads it.
"""

from __future__ import annotations

import argparse
import importlib
import os
import resource
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from bench import environment
from bench.libraries import keep

TARGET = {"kind": "cuda", "arch": "sm_90"}
OURS = "stitch"
# Where compilers keep what they have made.
CACHES = ("TVM_STITCH_CACHE", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
# Seconds in which a process that is done, and its compilers, must end by themselves.
PATIENCE = 2.0
EMPTY, SECOND = "empty cache", "second process"


@dataclass(frozen=True)
class Build:
    """A model to build by a system, with the caches in a folder."""

    model: str
    system: str
    cache: str
    what: str


def _serve(pipe: Any, build: Build) -> None:
    """In a process of its own: get ready, wait, build, tell."""
    for variable in CACHES:
        os.environ[variable] = str(Path(build.cache, variable.lower()))
    try:
        run = _on_gpu(build) if has_gpu() else _without_gpu(build)
        next(run)
        pipe.send("ready")
        pipe.recv()
        pipe.send(next(run))
    except Exception:
        pipe.send({"failed": traceback.format_exc().strip().splitlines()[-1][:300]})


def has_gpu() -> bool:
    """Whether builds can end with a result."""
    return environment.missing_for_measuring() is None


def _on_gpu(build: Build) -> Iterator[Any]:
    """Ready, then the seconds until the model's first result."""
    from bench.case import make_inputs
    from bench.cases import find
    from bench.systems import Gpu, all_systems

    system = all_systems()[build.system]
    if (reason := system.missing()) is not None:
        raise RuntimeError(reason)
    _import(build.system)
    workload = find(build.model).workload()
    inputs = make_inputs(workload.arrays, "cuda")
    yield
    with _clock() as row:
        prepared = system.prepare(workload, inputs, Gpu())
    yield row | {"compile_s": round(prepared.compile_s, 2)}


def _import(system: str) -> None:
    """What a system would import while it reads a model and compiles."""
    modules = ["torch._dynamo", "torch.export"]
    if system == "inductor":
        modules += ["torch._inductor.compile_fx", "triton"]
    elif system == OURS:
        modules += ["tvm.relax.frontend.torch", "bench.importing", "tvm_stitch"]
    elif system == "xla":
        modules += ["jax"]
    for module in modules:
        importlib.import_module(module)


def _without_gpu(build: Build) -> Iterator[Any]:
    """Ready, then the seconds of tvm_stitch until there is an executable."""
    import tvm_stitch
    from bench.planning.child import model
    from tvm_stitch.target import full_target

    _import(OURS)
    target = full_target(TARGET)
    yield
    with _clock() as row:
        module = model(build.model)
        start = time.perf_counter()
        tvm_stitch.compile(module, target)
        compile_s = time.perf_counter() - start
    yield row | {"compile_s": round(compile_s, 2)}


@contextmanager
def _clock() -> Iterator[dict[str, Any]]:
    """Takes the seconds of what is done inside, of all processors, and of tvm_stitch's stages."""
    from tvm_stitch.timing import timed

    row: dict[str, Any] = {}
    start, before = time.perf_counter(), _cpu_seconds()
    with timed() as stages:
        yield row
    row["seconds"] = round(time.perf_counter() - start, 2)
    row["cpu_s"] = round(_cpu_seconds() - before, 2)
    if stages:
        row["stages"] = {stage: round(each, 2) for stage, each in stages.items()}


def _cpu_seconds() -> float:
    """Of this process and of the compilers that it started and that are done."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def builds(models: list[str], systems: list[str], folder: Path) -> Iterator[Build]:
    """Every model by every system with empty caches, by tvm_stitch once more with full ones."""
    for model in models:
        for system in systems:
            cache = str(folder / f"{model}.{system}")
            yield Build(model, system, cache, EMPTY)
            if system == OURS:
                yield Build(model, system, cache, SECOND)


def measured(todo: list[Build], seconds: float) -> Iterator[dict[str, Any]]:
    """A row for each build that began in time, one after the other."""
    context, until = get_context("spawn"), time.monotonic() + seconds
    waiting = []
    for build in todo:
        pipe, end = context.Pipe()
        process = context.Process(target=_serve, args=(end, build), daemon=True)
        process.start()
        end.close()
        waiting.append((build, pipe, process))
    ready = [_received(pipe) for _, pipe, _ in waiting]
    for (build, pipe, process), state in zip(waiting, ready, strict=True):
        row = {"model": build.model, "system": build.system, "what": build.what}
        if state != "ready":
            yield row | state
        elif time.monotonic() < until:
            pipe.send("build")
            yield row | _received(pipe, until - time.monotonic())
            process.join(PATIENCE)
        process.kill()


def _received(pipe: Any, seconds: float | None = None) -> Any:
    try:
        if pipe.poll(seconds):
            return pipe.recv()
    except EOFError:
        return {"failed": "its process died"}
    return {"failed": "the time was up"}


def line(row: dict[str, Any]) -> str:
    """A row for people."""
    begin = f"{row['model']:20} {row['system']:10} {row['what']:14}"
    if "failed" in row:
        return f"{begin} {row['failed']}"
    told = ", ".join(f"{stage} {each:.1f}" for stage, each in row.get("stages", {}).items())
    times = f"{row['seconds']:6.1f} s, of it compiling {row['compile_s']:6.1f}"
    return f"{begin} {times}, {row['cpu_s']:6.1f} CPU s" + (f" ({told})" if told else "")


def main() -> int:
    """Print a line for each build."""
    parser = argparse.ArgumentParser("bench.planning.builds", description=__doc__)
    parser.add_argument("models", nargs="+", metavar="NAME", help="cases of the benchmarks")
    parser.add_argument("--systems", default=f"{OURS},inductor", help="default: %(default)s")
    parser.add_argument("--seconds", type=float, default=3600, help="no build begins after these")
    parser.add_argument("--output", type=Path, metavar="JSON")
    options = parser.parse_args()
    systems = options.systems.split(",") if has_gpu() else [OURS]
    cores = len(os.sched_getaffinity(0))
    print(time.strftime("%Y-%m-%d"), f"{cores} cores, load", os.getloadavg(), flush=True)
    about = environment.about_run(sys.argv[1:], program="bench.planning.builds")
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for row in measured([*builds(options.models, systems, Path(folder))], options.seconds):
            rows.append(row)
            print(line(row), flush=True)
            keep(options.output, {**about, "cores": cores, "rows": rows})
    return int(any("failed" in row for row in rows))


if __name__ == "__main__":
    sys.exit(main())
