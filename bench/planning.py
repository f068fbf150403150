"""How long planning takes, by the size of the graph: no GPU needed.

`python -m bench.planning --output FOLDER` plans graphs of 100 to 10,000 operators, of equal layers
and of layers that all differ, and the models given with --models; it writes planning.json and a
plot. Time is reading the dataflow block and planning it, on the clock and of one core, which other
programs disturb less; memory is the most that the process held, TVM and its module included.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import resource
import sys
import time
from pathlib import Path
from typing import Any

import tvm
from tvm import relax
from tvm.relax import op

from bench.models import cases
from tvm_stitch.build import stitch_passes
from tvm_stitch.device import device_of
from tvm_stitch.graph.front.read import read_block
from tvm_stitch.plan.planner import plan_graph
from tvm_stitch.transform import bounds_of

SIZES = (100, 300, 1000, 3000, 10000)
LAYER = 22  # operators of a layer, as planning sees them
ROWS, WIDTH = 512, 256
TARGET = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})


def layers(operators: int, different: bool) -> tvm.IRModule:
    """So many layers of two products, a softmax, a residual, a norm and GELU."""
    builder = relax.BlockBuilder()
    count = max(1, operators // LAYER)
    widths = [WIDTH + 8 * number * different for number in range(count + 1)]
    x = relax.Var("x", relax.TensorType((ROWS, widths[0]), "float32"))
    weights = []
    for number, (rows, columns) in enumerate(itertools.pairwise(widths)):
        shapes = {"a": (rows, columns), "b": (columns, columns), "c": (columns,), "d": (columns,)}
        types = {name: relax.TensorType(shape, "float32") for name, shape in shapes.items()}
        weights.append([relax.Var(f"{name}{number}", ty) for name, ty in types.items()])
    with builder.function("main", [x, *(var for layer in weights for var in layer)]):
        with builder.dataflow():
            value: Any = x
            for first, second, scale, shift in weights:
                mixed = builder.emit(op.nn.softmax(builder.emit(op.matmul(value, first))))
                total = builder.emit(op.add(builder.emit(op.matmul(mixed, second)), mixed))
                normal = builder.emit(op.nn.layer_norm(total, scale, shift, axes=[-1]))
                value = builder.emit(op.nn.gelu(normal))
            output = builder.emit_output(value)
        builder.emit_func_output(output)
    return builder.get()


def model(name: str) -> tvm.IRModule:
    """A model of the benchmarks, without its weights' values."""
    from bench.importing import to_relax_by_shape

    (case,) = (case for case in cases() if case.name == name)
    return to_relax_by_shape(case.workload())


def measure(name: str, module: tvm.IRModule, repeats: int = 1) -> dict[str, Any]:
    """Plan a module so many times, and keep the fastest."""
    with TARGET:
        for each in stitch_passes(TARGET):
            if each.info.name == "StitchOps":
                break
            module = each(module)
    rows = [_planned(name, module) for _ in range(repeats)]
    return min(rows, key=lambda row: row["cpu_seconds"])


def _planned(name: str, module: tvm.IRModule) -> dict[str, Any]:
    """Read and plan once."""
    function = module["main"]
    start, cpu, operators, solved = time.perf_counter(), time.process_time(), 0, []
    for block in function.body.blocks:
        if isinstance(block, relax.DataflowBlock):
            graph = read_block(module, block)
            operators += len(graph.nodes)
            solved.append(plan_graph(graph, device_of(TARGET), bounds_of(function)).solved)
    return {
        "graph": name,
        "operators": operators,
        "seconds": round(time.perf_counter() - start, 3),
        "cpu_seconds": round(time.process_time() - cpu, 3),
        "regions": sum(each.regions for each in solved),
        "distinct": sum(each.distinct for each in solved),
        "candidates": sum(each.candidates for each in solved),
        "cost_us": round(sum(each.cost_us for each in solved), 1),
        "greedy_us": round(sum(each.greedy_us for each in solved), 1),
        "gap": max((each.gap for each in solved), default=0.0),
        "status": ", ".join(sorted({each.status for each in solved})),
        "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """Seconds against operators, both logarithmic."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    for curve, marker in (("equal layers", "o"), ("different layers", "s")):
        points = [(row["operators"], row["cpu_seconds"]) for row in rows if row["graph"] == curve]
        axes.loglog(*zip(*points, strict=True), marker=marker, label=curve)
    for row in rows:
        if row["graph"] not in ("equal layers", "different layers"):
            place = (row["operators"], row["cpu_seconds"])
            axes.loglog([place[0]], [place[1]], "k^", markersize=5)
            axes.annotate(
                row["graph"], place, fontsize=8, xytext=(5, -3), textcoords="offset points"
            )
    axes.set_xlabel("operators, compound ones written out")
    axes.set_ylabel("CPU seconds to read and plan")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend()
    figure.tight_layout()
    figure.savefig(path, dpi=120)


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser("bench.planning", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--models", default="", metavar="A,B,…", help="models to plan as well")
    parser.add_argument("--repeats", type=int, default=1, help="the fastest of so many counts")
    options = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    for size in SIZES:
        for name in ("equal layers", "different layers"):
            rows.append(measure(name, layers(size, name == "different layers"), options.repeats))
            print(rows[-1], flush=True)
    for name in filter(None, options.models.split(",")):
        rows.append(measure(name, model(name), options.repeats))
        print(rows[-1], flush=True)
    options.output.mkdir(parents=True, exist_ok=True)
    found = {
        "version": 1,
        "machine": platform.machine(),
        "repeats": options.repeats,
        "rows": rows,
    }
    path = options.output / "planning.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    draw(rows, options.output / "planning.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
