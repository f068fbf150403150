"""`python -m bench.products`: check and time products by cuBLASLt and by this package's kernels."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import tvm

from bench import environment
from bench.libraries import is_named, keep
from bench.products import fit as fitting
from bench.products import grid, modules, run, table, tiles
from tvm_stitch.device import device_of
from tvm_stitch.errors import StitchError
from tvm_stitch.library import shim
from tvm_stitch.library.locate import CUBLASLT, find
from tvm_stitch.target import full_target


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    p = argparse.ArgumentParser("bench.products", description=__doc__)
    p.add_argument("--list", action="store_true", help="name the products, and do nothing")
    p.add_argument("--output", type=Path, metavar="PATH", help="where the JSON goes")
    p.add_argument("--only", action="append", metavar="PATTERN", help="products with such names")
    p.add_argument("--seconds", type=float, default=420, help="time no more products then")
    p.add_argument("--checks", choices=("all", "none", "only"), default="all")
    p.add_argument(
        "--timed", action="store_true", help="the library's by the clock too (timed_products=True)"
    )
    p.add_argument("--tiles", action="store_true", help="time tiles of many sizes instead")
    p.add_argument("--dry-run", action="store_true", help="a few checks on the CPU, for an H200")
    p.add_argument("--fit", type=Path, metavar="PATH", help="fit the constants to a run's JSON")
    return p


def main() -> int:
    """The program; returns its exit code."""
    options = parser().parse_args()
    try:
        return _run(options)
    except (OSError, ValueError, StitchError) as error:
        print(f"bench.products: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    timed, checked = (
        [shape for shape in shapes if is_named(shape.name, options.only)]
        for shapes in (grid.timed(), grid.checked())
    )
    if options.list:
        print("\n".join(shape.name for shape in timed))
        print(f"{len(timed)} are timed, {len(checked)} are checked")
        return 0
    if options.fit:
        return _fit(options.fit)
    if options.tiles:
        return _sweep(options)
    missing = shim.unusable(CUBLASLT)
    if missing:
        raise StitchError(missing)
    if options.dry_run:
        few = [shape for place, shape in enumerate(checked) if place % 40 == 0]
        return _report_checks(list(run.check_on_cpu(few, _target("sm_90a"))))
    return _measure(options, timed, checked)


def _measure(
    options: argparse.Namespace, timed: Sequence[grid.Shape], checked: Sequence[grid.Shape]
) -> int:
    target = full_target("cuda")
    result: dict[str, Any] = {
        "device": device_of(target).name,
        "library": str(find(CUBLASLT)),
        "environment": environment.machine(),
        "checks": [],
        "rows": [],
    }
    if options.checks != "none":
        result["checks"] = list(run.check_on_gpu(checked, target))
        keep(options.output, result)
        print(_failures(result["checks"]))
    if options.checks != "only":
        ways = [*modules.WAYS, *([modules.CLOCK] if options.timed else [])]
        for row in run.measure(timed, target, options.seconds, ways):
            result["rows"].append(row)
            keep(options.output, result)
        print(table.summary(result["rows"]))
    return 0 if all(check["ok"] for check in result["checks"]) else 1


def _sweep(options: argparse.Namespace) -> int:
    target = full_target("cuda")
    shapes = [shape for shape in grid.swept() if is_named(shape.name, options.only)]
    result: dict[str, Any] = {"device": device_of(target).name, "rows": []}
    result["environment"] = environment.machine()
    for row in tiles.sweep(shapes, target, options.seconds):
        result["rows"].append(row)
        keep(options.output, result)
    print(table.swept(result["rows"]))
    return 0 if all(row["ok"] for row in result["rows"]) else 1


def _report_checks(checks: Sequence[dict[str, Any]]) -> int:
    print(_failures(checks))
    return 0 if all(check["ok"] for check in checks) else 1


def _failures(checks: Sequence[dict[str, Any]]) -> str:
    wrong = [check for check in checks if not check["ok"]]
    lines = [f"  {check['shape']}: {check.get('said', check['error'])}" for check in wrong]
    return "\n".join([f"{len(checks)} products checked, {len(wrong)} wrong", *lines])


def _fit(path: Path) -> int:
    result = json.loads(path.read_text())
    target = _target("sm_90a")
    for found in fitting.fit(result["rows"], device_of(target), target):
        print(f"{found.dtype}: {found.products} products, off by {found.typical_error:.0%}")
        for tile in found.timing.tiles:
            print(f"    {tile.rows:4} x {tile.columns:4}  {tile.rate:8.1f} {tile.besides:7.3f}")
        named = ((name, getattr(found.timing, name)) for name in fitting.OTHERS)
        print("    " + ", ".join(f"{name} {value:.3f}" for name, value in named))
    if any("tiles" in row for row in result["rows"]):
        of_tiles = tiles.fit(result["rows"], device_of(target), target)
        print(f"tiles: {of_tiles.products} kernels, off by {of_tiles.typical_error:.0%}")
        print("\n".join(f"    {name} {us:.3f}" for name, us in asdict(of_tiles.timing).items()))
    return 0


def _target(arch: str) -> tvm.target.Target:
    return full_target(tvm.target.Target({"kind": "cuda", "arch": arch}))


if __name__ == "__main__":
    sys.exit(main())
