"""One graph in a process of its own: what planning it takes, and how good the plan is.

`python -m bench.planning.child NAME [OPERATORS] [--explain]` writes rows of JSON, each of which has
more than the one before: whoever reads takes the last that came before the time was up.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import tvm
from tvm import relax

from bench.planning.families import FAMILIES
from tvm_stitch import explain
from tvm_stitch.build import stitch_passes
from tvm_stitch.processes.pickled import JOBS

TARGET = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
OURS = ("StitchOps", "Decompose", "Legalize", "Printable", "FewerLoops", "sequential")


@contextmanager
def tvm_passes() -> Iterator[list[float]]:
    """CPU seconds of each of TVM's own passes, the outermost, whoever runs it."""
    found: list[float] = []
    run, inside = tvm.transform.Pass.__call__, False

    def timed(each: tvm.transform.Pass, module: tvm.IRModule) -> tvm.IRModule:
        nonlocal inside
        if inside or each.info.name in OURS:
            return run(each, module)
        inside, start = True, time.process_time()
        try:
            return run(each, module)
        finally:
            inside = False
            found.append(time.process_time() - start)

    with mock.patch.object(tvm.transform.Pass, "__call__", timed):
        yield found


def planned(name: str, module: tvm.IRModule) -> dict[str, Any]:
    """CPU seconds up to StitchOps, in it, and in it of TVM's own passes."""
    before = time.process_time()
    with TARGET, tvm.transform.PassContext(opt_level=3):
        *earlier, stitch = _up_to_stitch_ops()
        for each in earlier:
            module = each(module)
        start = time.process_time()
        with tvm_passes() as of_tvm:
            stitch(module)
    return {
        "graph": name,
        "operators": operators(module),
        "front_s": round(start - before, 3),
        "plan_s": round(time.process_time() - start, 3),
        "tvm_s": round(sum(of_tvm), 3),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def _up_to_stitch_ops() -> list[tvm.transform.Pass]:
    passes = stitch_passes(TARGET)
    names = [each.info.name for each in passes]
    return passes[: names.index("StitchOps") + 1]


def operators(module: tvm.IRModule) -> int:
    """The calls of TIR in a module's dataflow blocks: what planning sees."""
    functions = (f for f in module.functions.values() if isinstance(f, relax.Function))
    blocks = (block for function in functions for block in function.body.blocks)
    return sum(
        isinstance(binding.value, tvm.ir.Call)
        for block in blocks
        if isinstance(block, relax.DataflowBlock)
        for binding in block.bindings
    )


def explained(module: tvm.IRModule) -> dict[str, Any]:
    """CPU seconds of explain, and the plan as it says: microseconds and kernels."""
    start = time.process_time()
    report = explain(module, TARGET)
    groups = [group for block in report.plan.blocks for group in block.groups]
    return {
        "explain_s": round(time.process_time() - start, 3),
        "kernels": len(groups),
        "kernels_us": round(sum(group.cost_us for group in groups), 2),
        "launches": report.launches,
        "fallbacks": len(report.fallbacks),
        "cost_us": round(sum(each.cost_us for each in report.plans), 2),
        "greedy_us": round(sum(each.greedy_us for each in report.plans), 2),
        "regions": sum(each.regions for each in report.plans),
        "distinct": sum(each.distinct for each in report.plans),
        "candidates": sum(each.candidates for each in report.plans),
        "gap": max((each.gap for each in report.plans), default=0.0),
        "status": ", ".join(sorted({each.status for each in report.plans})),
    }


def model(name: str) -> tvm.IRModule:
    """A model or sub-graph of the benchmarks, without its weights' values."""
    from bench.cases import find
    from bench.importing import to_relax_by_shape

    return to_relax_by_shape(find(name).workload())


def main(argv: list[str]) -> int:
    """Print the rows."""
    name, *sizes = [argument for argument in argv if argument != "--explain"]
    module = FAMILIES[name](int(sizes[0])) if sizes else model(name)
    row = planned(name, module)
    print(json.dumps(row), flush=True)
    if "--explain" in argv:
        print(json.dumps(row | explained(module)), flush=True)
    return 0


if __name__ == "__main__":
    os.environ[JOBS] = "1"  # CPU seconds are those of this process: it plans by itself
    sys.exit(main(sys.argv[1:]))
