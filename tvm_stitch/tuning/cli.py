"""`tvm-stitch tune`: searches a model's kernels, looks after record stores, serves a fleet.

In: parsed arguments. Out: text on standard output, an exit code.
"""

from __future__ import annotations

import argparse
import json
import signal
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import tvm

from tvm_stitch.errors import InputError
from tvm_stitch.target import cuda_target
from tvm_stitch.tuning.measuring.measure import ACCESSES, MICROSECONDS
from tvm_stitch.tuning.measuring.rpc import serve
from tvm_stitch.tuning.records import Record, best_first
from tvm_stitch.tuning.store import Store, pruned
from tvm_stitch.tuning.tune import RUNNERS, tune
from tvm_stitch.tuning.workloads import parse_shapes, symbolic_dimensions

DESCRIPTION = """\
Measures alternative schedules of a model's kernels and records the results in a store, which
compile and explain apply with --database. If interrupted, the same command resumes the search.
"""
EXAMPLES = """\
examples (see also tutorials/3_tuning.py):
  tvm-stitch tune model.json --database records.jsonl
  tvm-stitch compile model.json -o model.so --database records.jsonl

  a model with symbolic dimensions:
  tvm-stitch tune model.json --database records.jsonl --shapes "batch=1,8,32;seq=128,512"

  without a GPU, counting memory accesses on the CPU instead of time:
  tvm-stitch tune model.json --database records.jsonl --runner simt --target sm_90

  on the GPUs of other machines:
  python -m tvm.exec.rpc_tracker --port 9190                      on one machine
  tvm-stitch tune --serve tracker:9190 --key h200 --bind 0.0.0.0  on each machine with a GPU;
      with several GPUs, once for each, selected by CUDA_VISIBLE_DEVICES
  tvm-stitch tune model.json --database records.jsonl --runner rpc --tracker tracker:9190 \\
      --key h200 --target sm_90

  record stores:
  tvm-stitch tune --list --database records.jsonl --html searches.html
  tvm-stitch tune --merge a.jsonl b.jsonl --database records.jsonl
  tvm-stitch tune --prune --database records.jsonl
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of the command."""
    parser.add_argument(
        "model",
        nargs="?",
        metavar="MODEL",
        help="a model file of any kind that explain reads",
    )
    parser.add_argument("--database", metavar="FILE", help="the record store")
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.add_argument(
        "--html", metavar="FILE", help="also write a page that shows the searches in the store"
    )
    how = parser.add_argument_group("how to search")
    how.add_argument(
        "--trials", type=int, default=64, help="most schedules per kernel (default: %(default)s)"
    )
    how.add_argument("--seed", type=int, default=0, help="random seed (default: %(default)s)")
    how.add_argument(
        "--shapes", metavar="SIZES", help='sizes of symbolic dimensions: "batch=1,8,32;seq=128,512"'
    )
    how.add_argument(
        "--runner", choices=RUNNERS, default="local",
        help="this machine's GPU, those of a TVM RPC tracker, or the CPU executor "
        "(default: %(default)s)",
    )  # fmt: skip
    how.add_argument("--jobs", type=int, help="parallel compilations (default: one per core)")
    how.add_argument("--tracker", metavar="HOST:PORT", help="the tracker, for --runner rpc")
    how.add_argument(
        "--key", default="gpu", help="the servers' key at the tracker (default: %(default)s)"
    )
    other = parser.add_argument_group("instead of searching").add_mutually_exclusive_group()
    other.add_argument("--list", action="store_true", help="show what the store holds")
    other.add_argument("--merge", nargs="+", metavar="FILE", help="add the records of other stores")
    other.add_argument(
        "--prune", action="store_true",
        help="keep only the best record of each kernel and that of its default schedule",
    )  # fmt: skip
    other.add_argument("--export", metavar="FILE", help="write what --prune keeps to another store")
    other.add_argument(
        "--serve", metavar="HOST:PORT",
        help="measure for clients of this tracker; only on a network that you trust",
    )  # fmt: skip
    parser.add_argument(
        "--bind", default="127.0.0.1", metavar="ADDRESS",
        help="with --serve: address to listen on (default: %(default)s; 0.0.0.0 for all)",
    )  # fmt: skip


def run(options: argparse.Namespace, load_model: Callable[[str], tvm.IRModule]) -> int:
    """Do what was asked; the exit code."""
    if options.serve:
        return _serve(options)
    if options.database is None:
        raise InputError("tune needs --database FILE")
    store = Store(options.database)
    if options.list:
        return _list(store, options.json)
    if options.merge:
        print(f"{store.merge(map(Store, options.merge))} records added to {store.path}")
        return 0
    if options.prune:
        before, after = store.prune()
        print(f"{store.path}: {after} of {before} records kept")
        return 0
    if options.export:
        return _export(store, Path(options.export))
    if options.model is None:
        raise InputError(
            "tune needs a model, or one of --list, --merge, --prune, --export, --serve"
        )
    return _tune(options, load_model)


def _tune(options: argparse.Namespace, load_model: Callable[[str], tvm.IRModule]) -> int:
    shapes = parse_shapes(options.shapes) if options.shapes else None
    mod = load_model(options.model)
    try:
        tuning = tune(
            mod,
            cuda_target(options.target),
            options.database,
            trials=options.trials,
            runner=options.runner,
            seed=options.seed,
            shapes=shapes,
            tracker=options.tracker,
            key=options.key,
            jobs=options.jobs,
            progress=True,
        )
    except KeyboardInterrupt:
        print("\ninterrupted; the same command goes on from here", file=sys.stderr)
        raise
    left = sorted(symbolic_dimensions(mod) - set(shapes or {}))
    advice = f'give sizes, such as --shapes "{";".join(f"{name}=1,8" for name in left)}"'
    if tuning.symbolic and not tuning.kernels:
        raise InputError(f"nothing was tuned: sizes of {', '.join(left)} are not known; {advice}")
    print(json.dumps(tuning.to_json(), indent=2) if options.json else tuning)
    if tuning.symbolic:
        print(advice, file=sys.stderr)
    return 1 if any(kernel.why for kernel in tuning.kernels) else 0


@dataclass(frozen=True)
class Listed:
    """What a store knows of one kernel on one GPU."""

    gpu: str
    package: str
    kernel: str
    unit: str
    best: float | None  # None where every trial failed
    gain: float | None  # of the analytic choice, measured in the same way, over the best
    trials: int
    date: str

    def __str__(self) -> str:
        cost = "-" if self.best is None else f"{self.best:.6g} {self.unit}"
        gain = "-" if self.gain is None else f"{self.gain:.3f}"
        package = "" if self.best is None else f"tvm_stitch {self.package}, "
        where = f"{self.gpu}, {package}{self.kernel}"
        return f"{cost:>16} {gain:>6} {self.trials:6} {self.date}  {where}"


def _list(store: Store, as_json: bool) -> int:
    contents = store.existing()
    groups: dict[tuple[str, str, str, str], list[Record]] = {}
    for record in contents.records:
        key = (record.gpu, record.unit, record.package, record.workload)
        groups.setdefault(key, []).append(record)
    found = [_listed(group) for _, group in sorted(groups.items())]
    if as_json:
        print(json.dumps([asdict(each) for each in found], indent=2))
    else:
        print(f"{'best':>16} {'gain':>6} {'trials':>6} {'date':10}  GPU, kernel")
        print(*found, sep="\n")
    for problem in contents.unreadable:
        print(f"skipped: {store.path}, {problem}", file=sys.stderr)
    return 0


def _listed(group: list[Record]) -> Listed:
    """The records of one kernel."""
    ranked = best_first(group)
    best = ranked[0] if ranked else None
    last = best or group[-1]
    trials = len({(record.seed, record.trial) for record in group})
    cost = best.cost if best else None
    chosen = [r.cost for r in ranked if r.trial == 0 and r.final == last.final and r.cost]
    gain = chosen[0] / cost if chosen and cost else None
    title = last.title if best else group[0].title
    return Listed(last.gpu, last.package, title, last.unit, cost, gain, trials, last.date[:10])


def _export(store: Store, path: Path) -> int:
    if path.exists():
        raise InputError(f"{path} exists; --merge adds to a store")
    kept = pruned(store.existing().records)
    Store(path).append(kept)
    print(f"{path}: {len(kept)} records")
    return 0


def _serve(options: argparse.Namespace) -> int:
    unit = ACCESSES if options.runner == "simt" else MICROSECONDS
    server = serve(options.serve, options.key, unit, options.bind)
    print(f"serving {options.key} for {options.serve} on port {server.port}", flush=True)
    try:
        signal.pause()
    finally:
        server.terminate()
    return 0
