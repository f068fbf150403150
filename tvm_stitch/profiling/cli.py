"""`tvm-stitch profile`: the time of each kernel of a model on this machine's GPU."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable

import tvm

from tvm_stitch.errors import InputError
from tvm_stitch.profiling.profile import CALLS, profile
from tvm_stitch.target import cuda_target
from tvm_stitch.tuning.workloads import parse_shapes

DESCRIPTION = """\
Runs a model on random inputs and measures each kernel, next to its predicted time. Without a GPU,
the CPU executor counts instead: bytes, accesses, barriers.
"""
EXAMPLES = """\
examples:
  tvm-stitch profile model.onnx
  tvm-stitch profile model.onnx --json > today.json     for tvm-stitch diff
  tvm-stitch profile model.onnx --shapes "batch=8"
  tvm-stitch profile model.onnx --html page.html --trace trace.json
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the subcommand, but for those that others have too."""
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.add_argument("--html", metavar="FILE", help="write the report's page, with these times")
    parser.add_argument("--trace", metavar="FILE", help="write a trace for ui.perfetto.dev")
    parser.add_argument(
        "--calls", type=int, default=CALLS, help="number of timed calls (default: %(default)s)"
    )
    parser.add_argument(
        "--shapes", metavar="SIZES", help='sizes of symbolic dimensions: "batch=8;seq=128"'
    )
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")


def run(options: argparse.Namespace, read: Callable[[str], tvm.IRModule]) -> int:
    """Profile a model; returns the exit code."""
    target = cuda_target(options.target)
    found = profile(
        read(options.model), None, target, None, options.database,
        calls=options.calls, seed=options.seed, sizes=_sizes(options.shapes or ""),
    )  # fmt: skip
    if options.html:
        found.to_html(options.html)
    if options.trace:
        found.to_trace(options.trace)
    print(json.dumps(found.to_json(), indent=2) if options.json else found)
    return 0


def _sizes(text: str) -> dict[str, int]:
    """One size of every dimension."""
    sizes = parse_shapes(text)
    several = next((name for name, each in sizes.items() if len(each) > 1), None)
    if several is not None:
        raise InputError(f"a profile is of one size of {several}; profile others in other runs")
    return {name: size for name, (size,) in sizes.items()}
