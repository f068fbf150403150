"""Seconds of building models twice: with an empty cache, and by the next process with what it kept.

`python -m bench.planning.builds NAME...` needs no GPU, only what TVM compiles CUDA with: nvcc, with
TVM_CUDA_COMPILE_MODE=nvcc. Without a driver TVM embeds the source instead and compiles when a GPU
loads it; then there is nothing to be seen here but planning.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time

TARGET = {"kind": "cuda", "arch": "sm_90"}


def built(name: str, cache: str) -> str:
    """A line on one build in this process; what it imports before does not count."""
    import tvm_stitch
    from bench.planning.child import model
    from tvm_stitch.target import full_target
    from tvm_stitch.timing import timed

    module, target = model(name), full_target(TARGET)
    start, before = time.perf_counter(), _cpu_seconds()
    with timed() as stages:
        tvm_stitch.compile(module, target, tvm_stitch.Options(cache=cache))
    seconds, cpu = time.perf_counter() - start, _cpu_seconds() - before
    told = ", ".join(f"{stage} {each:.1f}" for stage, each in stages.items())
    return f"{seconds:6.1f} s, {cpu:6.1f} CPU s ({told})"


def _cpu_seconds() -> float:
    """Of this process and the compilers that it started."""
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> int:
    """Print two lines a model."""
    parser = argparse.ArgumentParser("bench.planning.builds", description=__doc__)
    parser.add_argument("names", nargs="+", metavar="NAME", help="cases of the benchmarks")
    parser.add_argument("--cache", help=argparse.SUPPRESS)  # of the process that builds
    options = parser.parse_args()
    if options.cache is not None:
        print(built(options.names[0], options.cache))
        return 0
    print(time.strftime("%Y-%m-%d"), f"{len(os.sched_getaffinity(0))} cores, load", os.getloadavg())
    for name in options.names:
        with tempfile.TemporaryDirectory() as cache:
            for what in ("empty cache", "second process"):
                command = [sys.executable, "-m", __spec__.name, name, "--cache", cache]
                done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
                print(f"{name:24} {what:14} {done.stdout.strip()}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
