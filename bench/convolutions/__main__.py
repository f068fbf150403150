"""`python -m bench.convolutions`: check and time cuDNN's convolutions as modules call them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from bench import environment
from bench.convolutions import table
from bench.convolutions.shapes import shapes
from bench.libraries import is_named, keep
from tvm_stitch.errors import StitchError
from tvm_stitch.library import shim
from tvm_stitch.library.locate import CUDNN, find


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    p = argparse.ArgumentParser("bench.convolutions", description=__doc__)
    p.add_argument("--list", action="store_true", help="name the convolutions, and do nothing")
    p.add_argument("--output", type=Path, metavar="PATH", help="where the JSON goes")
    p.add_argument("--only", action="append", metavar="PATTERN", help="those with such names")
    p.add_argument("--seconds", type=float, default=300, help="begin none later")
    p.add_argument("--blocks", choices=("all", "none", "only"), default="all")
    p.add_argument("--timed", action="store_true", help="engines by the clock (measure=True)")
    p.add_argument("--dry-run", action="store_true", help="check a few by NumPy, without a GPU")
    return p


def main() -> int:
    """The program; returns its exit code."""
    options = parser().parse_args()
    try:
        return _run(options)
    except (OSError, ValueError, StitchError) as error:
        print(f"bench.convolutions: {error}", file=sys.stderr)
        return 2


def _run(options: argparse.Namespace) -> int:
    named = (shape for shape in shapes() if is_named(shape.name, options.only))
    chosen = [replace(shape, timed=options.timed) for shape in named]
    if options.list:
        print("\n".join(shape.name for shape in chosen))
        return 0
    from bench.convolutions import blocks, run

    if options.dry_run:
        small = [shape for shape in chosen if shape.operations < 3e8][::4]
        checks = [*run.check_on_cpu(small), *blocks.check_on_cpu()]
        wrong = [check for check in checks if not check["ok"]]
        print("\n".join([f"{len(checks)} checked, {len(wrong)} wrong", *map(str, wrong)]))
        return 1 if wrong else 0
    missing = shim.unusable(CUDNN)
    if missing:
        raise StitchError(missing)
    result: dict[str, Any] = {
        "library": str(find(CUDNN)),
        "environment": environment.machine(),
        "rows": [],
        "blocks": [],
    }
    if options.blocks != "only":
        _collect(result, "rows", run.measure(chosen, options.seconds), options.output)
        print(table.summary(result["rows"]))
    if options.blocks != "none":
        _collect(result, "blocks", blocks.measure(options.only), options.output)
        print("\n".join(map(blocks.line, result["blocks"])))
    return 0 if all(row["ok"] for row in (*result["rows"], *result["blocks"])) else 1


def _collect(
    result: dict[str, Any], name: str, rows: Iterable[dict[str, Any]], path: Path | None
) -> None:
    """Each row as it comes, written at once."""
    for row in rows:
        result[name].append(row)
        keep(path, result)


if __name__ == "__main__":
    sys.exit(main())
