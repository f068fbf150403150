"""How many memory-intensive kernels a model launches, by TVM's default pipeline and stitched.

`python -m bench.kernels [MODEL …] --output PATH` compiles nothing and needs no GPU. A kernel is
memory-intensive unless it holds a matrix product or convolution; what runs as a packed function
(sorts, scatters) is the same both ways and not counted.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tvm
from tvm import tirx
from tvm.relax.backend.cuda import pipeline as cuda_pipeline

from bench.models import cases
from bench.planning.child import TARGET, model
from tvm_stitch.build import stitch_passes
from tvm_stitch.graph.back.default_fusion import holds_product
from tvm_stitch.graph.back.launches import calls, nests
from tvm_stitch.stages.extents import NOMINAL


def counted(module: tvm.IRModule, passes: Iterable[tvm.transform.Pass]) -> dict[str, int]:
    """Launches of memory-intensive kernels and the bytes that these touch, each buffer once."""
    products: dict[str, bool] = {}
    with TARGET, tvm.transform.PassContext(opt_level=3):
        for each in passes:
            module = each(module)
            if each.info.name == "FuseTIR":
                products = {
                    var.name_hint: holds_product(function)
                    for var, function in module.functions_items()
                    if isinstance(function, tirx.PrimFunc)
                }
    launches = moved = 0
    for name, count in calls(module).items():
        if not products.get(name, False):
            found = nests(module[name])
            launches += count * len(found)
            moved += count * sum(NOMINAL.bytes(each) for nest in found for each in nest.tensors())
    return {"kernels": launches, "bytes": moved}


def row(name: str) -> dict[str, Any]:
    """Both ways of one model."""
    module = model(name)
    dispatch = cuda_pipeline.library_dispatch_passes(TARGET)
    lower = cuda_pipeline.dataflow_lower_passes(TARGET)
    default = counted(module, [*dispatch, *cuda_pipeline.legalize_passes(TARGET), *lower])
    stitched = counted(module, [*dispatch, *stitch_passes(TARGET), *lower])
    share = stitched["kernels"] / default["kernels"]
    return {"model": name, "default": default, "stitched": stitched, "share": round(share, 3)}


def table(rows: Iterable[dict[str, Any]]) -> str:
    """The rows in Markdown."""
    lines = [
        "| model | kernels, TVM default | stitched | share | GB, TVM default | stitched |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for each in rows:
        default, stitched = each["default"], each["stitched"]
        lines.append(
            f"| {each['model']} | {default['kernels']} | {stitched['kernels']} | "
            f"{100 * each['share']:.0f} % | {default['bytes'] / 1e9:.2f} | "
            f"{stitched['bytes'] / 1e9:.2f} |"
        )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser("bench.kernels", description=__doc__)
    parser.add_argument("models", nargs="*", metavar="MODEL", help="default: all")
    parser.add_argument("--output", type=Path, metavar="PATH", help="write the rows as JSON")
    options = parser.parse_args(argv)
    rows = []
    for name in options.models or [case.name for case in cases()]:
        rows.append(row(name))
        print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
    print(table(rows))
    if options.output:
        text = json.dumps({"version": 1, "rows": rows}, indent=1)
        options.output.write_text(text + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
