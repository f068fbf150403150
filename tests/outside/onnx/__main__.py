"""Runs ONNX's backend suite, and writes what became of every case.

python -m tests.outside.onnx --report bench/results/outside/onnx.md
python -m tests.outside.onnx --filter softmax
python -m tests.outside.onnx --case test_softmax_axis_1
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
import sys
import time
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

from tests.outside.onnx.outcome import Outcome
from tests.outside.onnx.processes import kinds, outcomes
from tests.outside.onnx.report import render, summary
from tests.outside.onnx.sample import in_sample

PACKAGES = ("apache-tvm", "onnx", "numpy")


def main() -> int:
    """The program: 0 if every case is right, 1 if not."""
    options = _parser().parse_args()
    chosen = _chosen(kinds(), options)
    if not chosen:
        print("no case is called so", file=sys.stderr)
        return 2
    started = time.monotonic()
    done = [outcome for outcome in _logged(options.log) if outcome.name in chosen]
    known = {outcome.name for outcome in done}
    rest = {name: kind for name, kind in chosen.items() if name not in known}
    for outcome in outcomes(rest, options.jobs, options.limit):
        done.append(outcome)
        if options.log:
            with options.log.open("a", encoding="utf-8") as log:
                log.write(json.dumps(asdict(outcome)) + "\n")
        _show(outcome, options)
        _progress(len(done), len(chosen))
    print(f"{len(done)} cases in {time.monotonic() - started:.0f} s: {summary(done)}")
    if options.report:
        options.report.parent.mkdir(parents=True, exist_ok=True)
        options.report.write_text(render(done, _head(options)), encoding="utf-8")
    return 0 if all(outcome.verdict.right for outcome in done) else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "python -m tests.outside.onnx",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--report", type=Path, metavar="FILE", help="write a report in Markdown")
    parser.add_argument(
        "--log", type=Path, metavar="FILE", help="keep outcomes here: a run goes on where it ended"
    )
    parser.add_argument("--filter", metavar="REGEX", help="only cases whose name has this in it")
    parser.add_argument("--case", metavar="NAME", action="append", help="only this case, in full")
    parser.add_argument("--sample", choices=["tenth"], help="only the fixed tenth that tests run")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time (default: 1)")
    parser.add_argument(
        "--limit", type=float, default=120.0, metavar="SECONDS", help="for a case (default: 120)"
    )
    return parser


def _chosen(all_cases: dict[str, str], options: argparse.Namespace) -> dict[str, str]:
    return {
        name: kind
        for name, kind in all_cases.items()
        if (not options.case or name in options.case)
        and (not options.filter or re.search(options.filter, name))
        and (not options.sample or in_sample(name))
    }


def _logged(log: Path | None) -> list[Outcome]:
    """What an earlier run with this log found."""
    if log is None or not log.exists():
        return []
    return [Outcome.from_json(line) for line in log.read_text(encoding="utf-8").splitlines()]


def _show(outcome: Outcome, options: argparse.Namespace) -> None:
    """A line for every case that is asked for or not right."""
    if options.case or options.filter or not outcome.verdict.right:
        took = f"{outcome.kernels} kernels, {outcome.seconds:.1f} s"
        print(f"{outcome.name}: {outcome.verdict.value} ({took}) {outcome.reason}", flush=True)


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        print(f"\r{done}/{of}", end=" ", file=sys.stderr, flush=True)
    elif done % 100 == 0:
        print(f"{done}/{of}", file=sys.stderr, flush=True)


def _head(options: argparse.Namespace) -> str:
    versions = ", ".join(f"{name} {version(name)}" for name in PACKAGES)
    only = f" Only cases with {options.filter!r} in their name." if options.filter else ""
    only += " Only the fixed tenth." if options.sample else ""
    return (
        f"{datetime.date.today()}, {versions}. Made by `python -m tests.outside.onnx --report`, "
        f"which runs the stitched CUDA on the CPU.{only}"
    )


if __name__ == "__main__":
    sys.exit(main())
