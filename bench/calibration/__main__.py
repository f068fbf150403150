"""`python -m bench.calibration`: measure kernels, fit the cost model, say how good it is."""

from __future__ import annotations

import argparse
import fnmatch
import os
import sys
from dataclasses import fields
from pathlib import Path

from bench import environment
from bench.calibration import check
from bench.calibration import fit as fitting
from bench.calibration.measure import Settings, all_graphs, measure
from bench.calibration.samples import Sample, Samples
from tvm_stitch.device import Device, preset

HERE = Path(__file__).parent


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    p = argparse.ArgumentParser("bench.calibration", description=__doc__)
    actions = p.add_subparsers(dest="action", required=True)
    m = actions.add_parser("measure", help="time the kernels of all graphs on this machine's GPU")
    m.add_argument("--output", type=Path, default=HERE / "h200.json", metavar="PATH")
    m.add_argument("--seconds", type=float, default=600, help="stop then, keeping what there is")
    m.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="workers that compile")
    m.add_argument("--each", type=int, default=3, help="other schedules of every kernel")
    m.add_argument("--graphs", action="append", metavar="PATTERN", help="only these graphs")
    m.add_argument("--dry-run", action="store_true", help="compile, and time nothing")
    m.add_argument("--commit", metavar="NAME", help="recorded where there is no git checkout")
    for name, words in (
        ("fit", "constants of tvm_stitch.device.Timing from measured kernels"),
        ("check", "how good the constants are; nothing is measured"),
        ("recount", "count anew what the model knows of the kernels of a file"),
    ):
        action = actions.add_parser(name, help=words)
        action.add_argument(
            "--samples", type=Path, nargs="+", default=[HERE / "h200.json"], metavar="PATH"
        )
        action.add_argument("--device", default="H200", help="a preset of tvm_stitch.device")
        if name == "fit":
            action.add_argument("--only", nargs="+", metavar="NAME", help="constants; default: all")
        if name == "check":
            action.add_argument("--plot", type=Path, metavar="PATH", help="draw it too")
            action.add_argument("--worst", type=int, default=0, help="list so many kernels")
    return p


def main() -> int:
    """The program; returns its exit code."""
    options = parser().parse_args()
    actions = {"measure": _measure, "fit": _fit, "check": _check, "recount": _recount}
    try:
        return actions[options.action](options)
    except (OSError, ValueError) as error:
        print(f"bench.calibration: {error}", file=sys.stderr)
        return 2


def _fit(options: argparse.Namespace) -> int:
    device, samples = preset(options.device), _samples(options)
    kernels = [*fitting.stitched(samples), *fitting.own(samples)]
    names = [field.name for field in fields(device.timing)]
    if unknown := {*(options.only or ())}.difference(names):
        raise ValueError(f"no constants of the model: {', '.join(sorted(unknown))}")
    names = options.only or names
    fitted = fitting.fit(kernels, device, names)
    for name in names:
        value = getattr(fitted.timing, name)
        print(f"    {name}: float = {value:.3g}")
    print(check.table({"all": check.by_kind(kernels, fitted)["all"]}))
    return 0


def _check(options: argparse.Namespace) -> int:
    device, samples = preset(options.device), _samples(options)
    kernels, own = fitting.stitched(samples), fitting.own(samples)
    print(check.table({**check.by_kind(kernels, device), **_default_rows(own, device)}))
    found = sorted(check.regret(kernels, device))
    print(f"\nchoosing by the model costs {sum(found) / len(found):.1%} on average, the median "
          f"function {found[len(found) // 2]:.1%}, over {len(found)} functions")  # fmt: skip
    if options.worst:
        print(check.worst([*kernels, *own], device, options.worst))
    if options.plot:
        check.plot(kernels, own, device, options.plot)
    return 0


def _samples(options: argparse.Namespace) -> list[Sample]:
    return [kernel for path in options.samples for kernel in Samples.load(path).kernels]


def _default_rows(own: list[fitting.Measured], device: Device) -> dict[str, check.Quality]:
    return {"TVM's default kernels": check.by_kind(own, device)["all"]} if own else {}


def _recount(options: argparse.Namespace) -> int:
    from bench.calibration.work import recounted

    for path in options.samples:
        samples = recounted(Samples.load(path))
        samples.save(path)
        print(f"{len(samples.kernels)} kernels: {path}")
    return 0


def _measure(options: argparse.Namespace) -> int:
    if not options.dry_run and (missing := environment.missing_for_measuring()) is not None:
        print(f"bench.calibration: {missing}", file=sys.stderr)
        return 2
    graphs = all_graphs()
    if options.graphs:
        graphs = [g for g in graphs if any(fnmatch.fnmatch(g, p) for p in options.graphs)]
    settings = Settings(
        options.output, options.jobs, options.seconds, options.each, options.dry_run
    )
    about = environment.about_run([], options.commit)
    about["command"] = f"python -m bench.calibration measure --seconds {options.seconds:g}"
    samples = measure(settings, graphs, about)
    print(f"{len(samples.kernels)} kernels, {len(samples.failures)} failures: {options.output}")
    return 0 if samples.kernels else 1


if __name__ == "__main__":
    sys.exit(main())
