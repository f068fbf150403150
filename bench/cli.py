"""The command line of the benchmarks: measure, list, compare, draw.

Exit codes: 0 done; 1 something got slower (--compare) or a run could not go on; 2 wrong use, or
no GPU to measure on; 130 interrupted.
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import os
import sys
from pathlib import Path

from bench import environment
from bench.results import Results, ResultsError

DESCRIPTION = """\
Measures sub-graphs and models on one NVIDIA GPU: PyTorch, torch.compile, XLA, TVM and tvm_stitch
in one run, beside what a plain copy of the same bytes costs. Systems that are not installed are
skipped. Results are written as they come; an interrupted run goes on with --resume.
"""
EXAMPLES = """\
examples:
  python -m bench                                   every sub-graph, every default system
  python -m bench --cases 'softmax*' --systems xla,stitch
  python -m bench --suite models --output models.json
  python -m bench --resume                          go on where the last run stopped
  python -m bench --tables run.json --plots plots   tables and plots of stored results
  python -m bench --compare old.json new.json       exit code 1 if something got slower
"""


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    p = argparse.ArgumentParser(
        "bench",
        description=DESCRIPTION,
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    what = p.add_argument_group("what to measure")
    what.add_argument("--suite", choices=("subgraphs", "models", "all"), default="subgraphs")
    what.add_argument(
        "--cases", action="append", metavar="PATTERN",
        help="only cases whose name or group matches, e.g. 'softmax*' or grid; may be repeated",
    )  # fmt: skip
    what.add_argument(
        "--systems", metavar="A,B,…",
        help="systems to run (default: all but the slow ones; see --list)",
    )  # fmt: skip
    what.add_argument("--records", metavar="PATH", help="tvm_stitch's records: adds stitch-tuned")
    what.add_argument("--trials", type=_positive, default=64, help="MetaSchedule's trials a case")
    how = p.add_argument_group("how")
    how.add_argument("--output", type=Path, default=Path("bench-results.json"), metavar="PATH")
    how.add_argument("--resume", action="store_true", help="keep what --output already holds")
    how.add_argument(
        "--jobs", type=_positive, default=None,
        help="workers that compile at once; only one measures at a time (default: by the machine)",
    )  # fmt: skip
    how.add_argument(
        "--together", action="store_true",
        help="let systems that try candidates on the GPU while they compile do so at once; "
        "sooner done, but they see each other",
    )  # fmt: skip
    how.add_argument("--no-graphs", action="store_true", help="leave out times as CUDA graphs")
    how.add_argument(
        "--dram", action="store_true", help="bytes moved in DRAM too (Nsight Compute; slow)"
    )
    how.add_argument(
        "--time-limit", type=_positive, default=180, metavar="SECONDS",
        help="for each phase of a system on a case (ten times that for systems that search)",
    )  # fmt: skip
    how.add_argument(
        "--commit", metavar="NAME", help="the commit to record where there is no git checkout"
    )
    other = p.add_argument_group("instead of measuring")
    other.add_argument("--list", action="store_true", help="list cases and systems")
    other.add_argument("--tables", type=Path, metavar="RESULTS", help="print stored results")
    other.add_argument(
        "--compare", type=Path, nargs=2, metavar=("OLD", "NEW"), help="what moved between two runs"
    )
    other.add_argument(
        "--allow", type=float, default=5.0, metavar="PERCENT",
        help="with --compare: how much slower a row may get (default %(default)s)",
    )  # fmt: skip
    other.add_argument(
        "--json", action="store_true", help="with --list, --tables and --compare: JSON, no table"
    )
    out = p.add_argument_group("documents, after a run or with --tables")
    out.add_argument("--markdown", type=Path, metavar="PATH", help="write the tables as Markdown")
    out.add_argument("--plots", type=Path, metavar="FOLDER", help="draw plots (PNG and SVG)")
    return p


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    os.environ.setdefault("TVM_STITCH_CACHE", "off")  # builds are timed as if they were the first
    p = parser()
    try:
        options = p.parse_args(arguments)
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        if options.compare:
            return _compare(options)
        if options.tables:
            return _documents(Results.load(options.tables), options, show=True)
        return _list(options) if options.list else _measure(options, arguments)
    except (ResultsError, UsageError) as error:
        print(f"bench: {error}", file=sys.stderr)
        return 2


class UsageError(Exception):
    """Arguments that do not fit together or name what there is not."""


def _positive(text: str) -> int:
    if (value := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return value


def _compare(options: argparse.Namespace) -> int:
    from bench.compare import as_json, report

    before, after = (Results.load(path) for path in options.compare)
    text, lost = report(before, after, options.allow / 100)
    print(as_json(before, after, options.allow / 100) if options.json else text)
    return 1 if lost else 0


def _documents(results: Results, options: argparse.Namespace, show: bool) -> int:
    from bench import table

    if show:
        print(results.as_json() if options.json else table.terminal(results))
    if options.markdown:
        options.markdown.parent.mkdir(parents=True, exist_ok=True)
        options.markdown.write_text(table.markdown(results), encoding="utf-8")
    if options.plots:
        from bench import plots

        for path in plots.draw_all(results, options.plots):
            print(path)
    return 0


def _chosen_cases(options: argparse.Namespace) -> list:
    if (need := environment.missing_package("torch")) is not None:
        raise UsageError(need)
    from bench.cases import suite

    cases = suite(options.suite)
    if not options.cases:
        return cases
    chosen = [
        case
        for case in cases
        if any(fnmatch.fnmatch(n, p) for p in options.cases for n in (case.name, case.group))
    ]
    if not chosen:
        raise UsageError(f"no case matches {' or '.join(options.cases)}; --list names them")
    return chosen


def _chosen_systems(options: argparse.Namespace) -> list[str]:
    from bench.systems import all_systems

    known = all_systems(options.records, options.trials)
    if not options.systems:
        return [name for name, system in known.items() if not system.optional]
    names = [name for name in options.systems.split(",") if name]
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        raise UsageError(
            f"unknown system {', '.join(unknown) or '(none given)'}; there are {', '.join(known)}"
        )
    return names


def _list(options: argparse.Namespace) -> int:
    cases = _chosen_cases(options)  # says so if PyTorch is missing, which systems need as well
    from bench.systems import all_systems, why_missing

    systems = list(all_systems(options.records, options.trials).values())
    if options.json:
        named = [{"name": c.name, "group": c.group, "title": c.title} for c in cases]
        known = [
            {"name": s.name, "title": s.title, "optional": s.optional, "skipped": why_missing(s)}
            for s in systems
        ]
        print(json.dumps({"cases": named, "systems": known}, indent=2))
        return 0
    longest = max(len(case.name) for case in cases)
    for group in dict.fromkeys(case.group for case in cases):
        print(f"{group}:")
        for case in (c for c in cases if c.group == group):
            print(f"  {case.name:{longest}}  {case.title}")
    print("systems:")
    for system in systems:
        reason = why_missing(system)
        note = f"  (skipped: {reason})" if reason else "  (only by name)" * system.optional
        print(f"  {system.name:{longest}}  {system.title}{note}")
    return 0


def _jobs(options: argparse.Namespace, systems: list[str]) -> int:
    """Workers share the GPU's memory and the cores; small machines get one."""
    from bench.systems import SEARCHING

    if options.jobs is not None:
        return options.jobs
    if set(systems) & set(SEARCHING):
        return 1
    import torch

    memory = torch.cuda.get_device_properties(0).total_memory
    return max(1, min(4, (os.cpu_count() or 1) // 4, memory // (32 * 2**30)))


def _measure(options: argparse.Namespace, arguments: list[str]) -> int:
    cases, systems = _chosen_cases(options), _chosen_systems(options)
    if (missing := environment.missing_for_measuring()) is not None:
        raise UsageError(missing)
    from bench import dram, session

    if options.dram and (missing := dram.missing()) is not None:
        raise UsageError(f"--dram: {missing}")
    results = session.begin(options.output, options.resume, arguments, options.commit)
    code = session.measure(cases, systems, results, options, _jobs(options, systems))
    _documents(results, options, show=False)
    return code
