"""The command line of the tuning measurements.

Exit codes: 0 done; 1 something is missing from the results; 2 wrong use; 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import tvm

from bench.tuning import __doc__ as description
from bench.tuning.run import EXHAUSTIVE, RECORDS, Plan, run, selected
from tvm_stitch.errors import StitchError

MARKDOWN = "tuning.md"


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    p = argparse.ArgumentParser(
        "bench.tuning", description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    p.add_argument("do", choices=("run", "exhaust", "tables", "train"))
    p.add_argument("folder", type=Path, help="where records and kernels are")
    p.add_argument("model", type=Path, nargs="?", help="with train: the model to write")
    p.add_argument("--cases", action="append", metavar="PATTERN", help="may be repeated")
    p.add_argument("--suite", choices=("subgraphs", "models", "all"), default="subgraphs")
    p.add_argument("--trials", type=int, default=64)
    p.add_argument("--seconds", type=float, default=540.0, help="stop after so long")
    p.add_argument("--runner", choices=("local", "simt"), default="local")
    p.add_argument("--jobs", type=int, help="compilers at once")
    p.add_argument("--at-once", type=int, default=6, help="cases at once")
    p.add_argument("--small", action="store_true", help="the cases at their test sizes")
    return p


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code."""
    try:
        options = parser().parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        if options.do == "tables":
            return _tables(options.folder)
        if options.do == "train":
            return _train(options)
        names = selected(options.cases, options.suite)
        if not names:
            print(f"no case matches {options.cases}", file=sys.stderr)
            return 2
        plan = Plan(
            options.folder,
            names,
            trials=options.trials,
            seconds=options.seconds,
            runner=options.runner,
            jobs=options.jobs,
            at_once=options.at_once,
            small=options.small,
            exhaustive=options.do == "exhaust",
        )
        return 0 if run(plan, log=_log) else 1
    except StitchError as error:
        print(f"bench.tuning: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _log(line: str) -> None:
    print(line, flush=True)


def _tables(folder: Path) -> int:
    from bench.tuning import curves, tables

    found = tables.rows(folder)
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
    replayed = curves.replayed(folder, target)
    text = tables.markdown(found, replayed)
    (folder / MARKDOWN).write_text(text, encoding="utf-8")
    print(text)
    for path in tables.draw(found, replayed, folder):
        print(path)
    return 0


def _train(options: argparse.Namespace) -> int:
    """The model that the package ships, from all records of a folder."""
    from tvm_stitch.tuning.model import examples_of, train
    from tvm_stitch.tuning.store import Store

    if options.model is None:
        print("train needs the model to write", file=sys.stderr)
        return 2
    stores = (Store(options.folder / name) for name in (RECORDS, EXHAUSTIVE))
    records = [record for store in stores for record in store.read().records]
    examples = examples_of(records, most=len(records))
    if not examples:
        print(f"{options.folder} holds no records to learn from", file=sys.stderr)
        return 1
    options.model.parent.mkdir(parents=True, exist_ok=True)
    train(examples).save_model(options.model)
    rows = sum(len(example.costs) for example in examples)
    print(f"{options.model}: {rows} measurements of {len(examples)} searches")
    return 0


if __name__ == "__main__":
    sys.exit(main())
