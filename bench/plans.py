"""Plans against each other on a GPU: the integer program's, the simple rule's, the measured ones.

`python -m bench.plans [CASE …] --output PATH` compiles every case of the group "plans", or those
named, by each way of planning, and times them taking turns, behind a flush of the L2 cache. Writes
the times as JSON and prints a table in Markdown.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from bench import cases
from bench.case import Case, make_inputs
from bench.check import error
from bench.environment import machine, versions
from bench.measure import Meter
from bench.systems.base import Gpu
from bench.systems.tvm import Tvm, default
from tvm_stitch import Options, compile

GROUP = "plans"
WAYS = {
    "optimum": Options(),
    "simple rule": Options(solver="greedy"),
    "measured": Options(measure=True),
}
DEFAULT = "TVM default"


def systems(names: Iterable[str]) -> list[Tvm]:
    """A system for every way of planning that was asked for."""
    return [
        Tvm(name, name, default if name == DEFAULT else partial(_planned, WAYS[name]))
        for name in names
    ]


def _planned(options: Options, module: Any, target: Any) -> Any:
    return compile(module, target, options)


def row(case: Case, meter: Meter, ways: Iterable[str]) -> dict[str, Any]:
    """The times of one case, its kernels, and whether the results are right."""
    workload = case.workload()
    inputs = make_inputs(workload.arrays, "cuda")
    prepared = {s.name: s.prepare(workload, inputs, Gpu()) for s in systems(ways)}
    outputs = {name: each.outputs(each.call()) for name, each in prepared.items()}
    errors = {name: error(workload, inputs, found) for name, found in outputs.items()}
    wrong = [name for name, found in errors.items() if not found <= workload.allowed]
    copy = meter.copy(workload.state_bytes(next(iter(outputs.values()))))
    calls = {name: each.call for name, each in prepared.items()}
    times = meter.gpu_times({**calls, "copy": copy}, repeats=24)
    return {
        "case": case.name,
        "copy_us": times["copy"].us,
        "wrong": wrong,
        "ways": {name: {"us": times[name].us, "kernels": times[name].kernels} for name in prepared},
    }


def table(rows: Iterable[dict[str, Any]]) -> str:
    """The rows in Markdown: microseconds and kernels of every way."""
    rows = list(rows)
    ways = list(rows[0]["ways"]) if rows else []
    lines = [
        f"| case | copy | {' | '.join(ways)} |",
        f"|---|---:|{'---:|' * len(ways)}",
    ]
    for each in rows:
        cells = [f"{found['us']:.1f}/{found['kernels']}" for found in each["ways"].values()]
        name = each["case"] + (" (wrong)" if each["wrong"] else "")
        lines.append(f"| {name} | {each['copy_us']:.1f} | {' | '.join(cells)} |")
    return "\n".join(lines)


def chosen(names: list[str]) -> list[Case]:
    """The cases of these names, or the group's."""
    if names:
        return [cases.find(name) for name in names]
    return [case for case in cases.suite("subgraphs") if case.group == GROUP]


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code."""
    parser = argparse.ArgumentParser("bench.plans", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help="default: the group plans")
    parser.add_argument("--output", type=Path, required=True, metavar="PATH")
    parser.add_argument(
        "--ways",
        default="optimum,simple rule",
        help=f"which of {', '.join([*WAYS, DEFAULT])}; default: %(default)s",
    )
    options = parser.parse_args(argv)
    if not torch.cuda.is_available():
        parser.error("plans are timed on a GPU, and PyTorch sees none here")
    ways = [name.strip() for name in options.ways.split(",")]
    unknown = set(ways) - {*WAYS, DEFAULT}
    if unknown:
        parser.error(f"unknown ways {sorted(unknown)}")
    meter, rows = Meter(), []
    for case in chosen(options.cases):
        rows.append(row(case, meter, ways))
        print(table(rows[-1:]).splitlines()[-1], file=sys.stderr, flush=True)
        found = {"version": 1, "machine": machine(), "versions": versions(), "rows": rows}
        options.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(table(rows))
    return 1 if any(each["wrong"] for each in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
