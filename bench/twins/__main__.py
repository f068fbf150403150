"""Counts, runs or tabulates symbolic twins; see the package."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from bench import symbolic
from bench.cases import suite
from bench.twins import count, run
from bench.twins.table import markdown, summary


def main(argv: list[str] | None = None) -> int:
    """The program; returns its exit code: 1 where a twin is wrong."""
    parser = argparse.ArgumentParser("bench.twins", description=__doc__)
    parser.add_argument("what", choices=("count", "run", "table"))
    parser.add_argument("file", type=Path, help="a row of JSON for each twin; more are appended")
    parser.add_argument("--cases", default="", metavar="A;B;…", help="default: all sub-graphs")
    parser.add_argument("--kinds", default=";".join(symbolic.KINDS), metavar="A;B;…")
    options = parser.parse_args(argv)
    if options.what == "table":
        rows = [json.loads(line) for line in options.file.read_text().splitlines()]
        print("\n".join([*markdown(rows), "", summary(rows)]))
        return 0
    names = set(filter(None, options.cases.split(";")))
    cases = [case for case in suite("subgraphs") if not names or case.name in names]
    kinds = options.kinds.split(";")
    found = (
        count.rows(cases, (count.STATIC, *kinds))
        if options.what == "count"
        else run.rows(cases, kinds)
    )
    wrong = 0
    with options.file.open("a", encoding="utf-8") as file:
        for row in found:
            print(json.dumps(row), file=file, flush=True)
            wrong += row.get("ok") is False
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
