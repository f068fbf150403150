"""Run PyTorch's operator database, or a part of it, and write a report.

Exit code 1 if anything is wrong or fails where eager works.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.outside.torch_ops.suite import (
    BAD,
    DTYPES,
    LEFT_WHOLE,
    OURS,
    PARTLY,
    SKIPPED,
    TABLE,
    Verdict,
    name_of,
    operators,
    verdicts,
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.outside.torch_ops", description=__doc__)
    parser.add_argument("--report", type=Path, help="a Markdown file, written after every operator")
    parser.add_argument("--samples", type=int, default=4, help="of an operator and element type")
    parser.add_argument("--dtype", action="append", help="float32, ...; all if left out")
    parser.add_argument("--only", action="append", help="names of operators")
    parser.add_argument(
        "--limit", type=float, help="seconds for an operator; the report says whose"
    )
    given = parser.parse_args(arguments)
    dtypes = [dtype for dtype in DTYPES if not given.dtype or str(dtype)[6:] in given.dtype]
    found: list[Verdict] = []
    cut: list[str] = []
    started = time.monotonic()
    for op in operators():
        if given.only and op.name not in given.only:
            continue
        print(name_of(op), file=sys.stderr, flush=True)
        end = time.monotonic() + (given.limit or float("inf"))
        for verdict in _in_turns([verdicts(op, dtype, given.samples) for dtype in dtypes]):
            found.append(verdict)
            if verdict.kind in BAD:
                print(_line(verdict), flush=True)
            if time.monotonic() > end:
                cut.append(name_of(op))
                break
        if given.report:
            text = report(found, cut, time.monotonic() - started)
            given.report.write_text(text, encoding="utf-8")
    print(report(found, cut, time.monotonic() - started).split("\n\n")[1])
    return int(any(verdict.kind in BAD for verdict in found))


def _in_turns(by_dtype: list[Iterator[Any]]) -> Iterator[Any]:
    """What a limit cuts is the last samples, of all element types."""
    waiting = list(by_dtype)
    while waiting:
        for each in list(waiting):
            try:
                yield next(each)
            except StopIteration:
                waiting.remove(each)


def _line(verdict: Verdict) -> str:
    where = f"{verdict.operator} {verdict.dtype} sample {verdict.sample} {verdict.direction}"
    return f"{verdict.kind}: {where}: {verdict.why}"


def report(found: list[Verdict], cut: list[str], seconds: float) -> str:
    """The verdicts as Markdown: sums, what is bad, what was not tried, and the rest by operator."""
    counted = Counter(verdict.kind for verdict in found)
    judged = len(found) - counted[SKIPPED]
    share = counted[OURS] / judged if judged else 0.0
    lines = [
        "# PyTorch's operator database",
        "",
        f"{judged} samples in {seconds:.0f} s: {counted[OURS]} ours ({share:.0%}), "
        f"{counted[PARTLY]} partly, {counted[LEFT_WHOLE]} PyTorch's, "
        f"{sum(counted[kind] for kind in BAD)} bad; {counted[SKIPPED]} skipped",
        "",
        "## Bad",
        "",
        *(f"- {_line(verdict)}" for verdict in found if verdict.kind in BAD),
        "",
        "## Not tried",
        "",
        f"- last samples, for want of time: {', '.join(cut) or 'none'}",
        f"- operators of the table in no graph: {', '.join(sorted(_missing(found))) or 'none'}",
        "",
        "## By operator",
        "",
        "| operator | ours | partly | PyTorch's | why |",
        "|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(verdict.operator for verdict in found):
        mine = [verdict for verdict in found if verdict.operator == name]
        kinds = Counter(verdict.kind for verdict in mine)
        reasons = [v.why for v in mine if v.kind in (PARTLY, LEFT_WHOLE)]
        why = Counter(reasons).most_common(1)[0][0] if reasons else ""
        numbers = " | ".join(str(kinds[kind]) for kind in (OURS, PARTLY, LEFT_WHOLE))
        lines.append(f"| {name} | {numbers} | {why.replace('|', '/')} |")
    return "\n".join(lines) + "\n"


def _missing(found: list[Verdict]) -> frozenset[str]:
    return TABLE.difference(*(verdict.graph for verdict in found))


if __name__ == "__main__":
    sys.exit(main())
