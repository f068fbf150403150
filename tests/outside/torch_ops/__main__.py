"""Run PyTorch's operator database, or a part of it, and write a report.

Exit code 1 if anything is wrong or fails where eager works.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from tests.outside.torch_ops.suite import (
    BAD,
    DTYPES,
    LEFT_WHOLE,
    OURS,
    PARTLY,
    SKIPPED,
    Verdict,
    operators,
    verdicts,
)


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.outside.torch_ops", description=__doc__)
    parser.add_argument("--report", type=Path, help="a Markdown file to write")
    parser.add_argument("--samples", type=int, default=4, help="of an operator and element type")
    parser.add_argument("--dtype", action="append", help="float32, ...; all if left out")
    parser.add_argument("--only", action="append", help="names of operators")
    given = parser.parse_args(arguments)
    dtypes = [dtype for dtype in DTYPES if not given.dtype or str(dtype)[6:] in given.dtype]
    found: list[Verdict] = []
    started = time.monotonic()
    for op in operators():
        if given.only and op.name not in given.only:
            continue
        print(op.name, file=sys.stderr, flush=True)
        for dtype in dtypes:
            for verdict in verdicts(op, dtype, given.samples):
                found.append(verdict)
                if verdict.kind in BAD:
                    print(_line(verdict), flush=True)
    text = report(found, time.monotonic() - started)
    print(text.split("\n\n")[1])
    if given.report:
        given.report.write_text(text, encoding="utf-8")
    return int(any(verdict.kind in BAD for verdict in found))


def _line(verdict: Verdict) -> str:
    where = f"{verdict.operator} {verdict.dtype} sample {verdict.sample} {verdict.direction}"
    return f"{verdict.kind}: {where}: {verdict.why}"


def report(found: list[Verdict], seconds: float) -> str:
    """The verdicts as Markdown: sums, what is bad, and the rest by operator."""
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


if __name__ == "__main__":
    sys.exit(main())
