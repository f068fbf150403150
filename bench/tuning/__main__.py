"""The command line of the tuning measurements.

Exit codes: 0 done; 1 something is missing from the results; 2 wrong use; 130 interrupted.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import tvm

from bench.tuning import __doc__ as description
from bench.tuning.folder import Folder
from tvm_stitch.errors import StitchError

MARKDOWN = "tuning.md"
SHARES = 4  # processes that measure the whole space of a case


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    p = argparse.ArgumentParser(
        "bench.tuning", description=description, formatter_class=argparse.RawTextHelpFormatter
    )
    p.add_argument("do", choices=("run", "pack", "unpack", "tables", "train"))
    p.add_argument("folder", type=Path, help="where records and kernels are")
    p.add_argument("model", type=Path, nargs="?", help="with train: the model to write")
    p.add_argument("--cases", action="append", metavar="PATTERN", help="may be repeated")
    p.add_argument(
        "--exhaust",
        action="append",
        default=[],
        metavar="PATTERN",
        help="cases of which all schedules are measured, after the searches; may be repeated",
    )
    p.add_argument("--suite", choices=("subgraphs", "models", "all"), default="subgraphs")
    p.add_argument("--trials", type=int, default=64, help="of each kernel; 0: no search")
    p.add_argument("--seconds", type=float, default=540.0, help="stop after so long")
    p.add_argument("--runner", choices=("local", "simt"), default="local")
    p.add_argument("--jobs", type=int, help="compilers at once (default: one for each core)")
    p.add_argument("--processes", type=int, default=4, help="cases at once on each GPU")
    p.add_argument("--lock", help="a file to lock while a GPU is used, for others to respect")
    p.add_argument("--small", action="store_true", help="the cases at their test sizes")
    return p


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code."""
    try:
        options = parser().parse_args(argv)
    except SystemExit as stop:
        return int(stop.code or 0)
    actions = {"run": _run, "pack": _pack, "unpack": _unpack, "tables": _tables, "train": _train}
    try:
        return actions[options.do](options)
    except StitchError as error:
        print(f"bench.tuning: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _run(options: argparse.Namespace) -> int:
    from bench.tuning.run import Plan, run, selected
    from bench.tuning.work import Task

    whole = selected(options.exhaust, options.suite)
    searched = selected(options.cases, options.suite) if options.trials else []
    for patterns, names in ((options.exhaust, whole), (options.cases, searched)):
        if patterns and not names and options.trials:
            print(f"no case matches {patterns}", file=sys.stderr)
            return 2
    plan = Plan(
        options.folder,
        (*map(Task, searched), *(Task(name, n, SHARES) for name in whole for n in range(SHARES))),
        trials=options.trials,
        seconds=options.seconds,
        runner=options.runner,
        processes=options.processes,
        jobs=options.jobs,
        lock=options.lock,
        small=options.small,
    )
    return 0 if run(plan, log=_log) else 1


def _log(line: str) -> None:
    print(line, flush=True)


def _pack(options: argparse.Namespace) -> int:
    for path in Folder(options.folder).pack():
        print(f"{path}: {path.stat().st_size} bytes")
    return 0


def _unpack(options: argparse.Namespace) -> int:
    print(f"{options.folder}: {Folder(options.folder).unpack()} records")
    return 0


def _tables(options: argparse.Namespace) -> int:
    from bench.tuning import curves, tables

    folder = Folder(options.folder)
    found = tables.rows(folder)
    target = tvm.target.Target({"kind": "cuda", "arch": "sm_90"})
    replayed = curves.replayed(folder, target)
    text = tables.markdown(found, replayed)
    (folder.path / MARKDOWN).write_text(text, encoding="utf-8")
    print(text)
    for path in tables.draw(found, replayed, folder.path):
        print(path)
    return 0


def _train(options: argparse.Namespace) -> int:
    """The model that the package ships, from all records of a folder."""
    from tvm_stitch.tuning.model import examples_of, train

    if options.model is None:
        print("train needs the model to write", file=sys.stderr)
        return 2
    measured = Folder(options.folder).records()
    records = [*measured.searched, *measured.exhausted]
    examples = examples_of(records, most=len(records))
    if not examples:
        print(f"{options.folder} holds no records to learn from", file=sys.stderr)
        return 1
    options.model.parent.mkdir(parents=True, exist_ok=True)
    options.model.write_bytes(train(examples).dump())
    rows = sum(len(example.costs) for example in examples)
    print(f"{options.model}: {rows} measurements of {len(examples)} searches")
    return 0


if __name__ == "__main__":
    sys.exit(main())
