"""Plans every family at every size, each graph in a process of its own; see the package."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from bench import environment
from bench.planning.families import FAMILIES
from bench.planning.table import compared, markdown

SIZES = (100, 300, 1000, 3000, 10000, 20000)
# Beyond, explain takes its time to emit kernels, and planning alone is measured.
EXPLAINED = 1000


def measured(name: str, size: int | None, explains: bool, seconds: float) -> dict[str, Any]:
    """The row of one graph: as far as it came in so many CPU seconds."""
    arguments = [name, *([] if size is None else [str(size)]), *(["--explain"] if explains else [])]
    command = [sys.executable, "-m", "bench.planning.child", *arguments]
    limited = ["bash", "-c", f'ulimit -t {seconds:.0f}; exec "$@"', "bash", *command]
    found = subprocess.run(limited, capture_output=True, text=True)
    rows = [json.loads(line) for line in found.stdout.splitlines() if line.startswith("{")]
    row = rows[-1] if rows else {"graph": name}
    if found.returncode:
        row["failed"] = (found.stderr.strip().splitlines() or ["the time was up"])[-1][:200]
    return {"asked": size, **row}


def asked(options: argparse.Namespace) -> Iterable[tuple[str, int | None]]:
    """The graphs to plan: families by size, then models."""
    families = _names(options.families) or list(FAMILIES)
    sizes = [int(size) for size in _names(options.sizes)] or SIZES
    yield from ((name, size) for size in sizes for name in families)
    yield from ((name, None) for name in _names(options.models))


def _names(text: str) -> list[str]:
    return [name for name in text.split(";") if name]


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code: 1 where a plan costs more than it did."""
    parser = argparse.ArgumentParser("bench.planning", description=__doc__)
    parser.add_argument("--output", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("--families", default="", metavar="A;B;…", help="default: all")
    parser.add_argument("--sizes", default="", metavar="N;M;…", help="default: 100 to 20,000")
    parser.add_argument("--models", default="", metavar="A;B;…", help="benchmarks to plan as well")
    parser.add_argument("--seconds", type=float, default=300, help="CPU seconds of one graph")
    parser.add_argument("--compare", type=Path, metavar="JSON", help="plans may cost 1 %% more")
    options = parser.parse_args(argv)
    rows: list[dict[str, Any]] = []
    for name, size in asked(options):
        explains = size is None or size <= EXPLAINED
        rows.append(measured(name, size, explains, options.seconds))
        print(json.dumps(rows[-1]), flush=True)
    about = environment.about_run(sys.argv[1:], program="bench.planning")
    options.output.mkdir(parents=True, exist_ok=True)
    found = {"version": 2, **about, "rows": rows}
    path = options.output / "planning.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    lines = markdown(rows)
    dearer: list[str] = []
    if options.compare is not None:
        before = json.loads(options.compare.read_text(encoding="utf-8"))["rows"]
        more, dearer = compared(before, rows)
        lines += ["", *more]
    (options.output / "planning.md").write_text("\n".join(lines) + "\n", encoding="utf-8")
    if environment.missing_package("matplotlib") is None:
        from bench.planning.plot import draw

        draw(rows, options.output / "planning.png")
    return 1 if dearer else 0


if __name__ == "__main__":
    sys.exit(main())
