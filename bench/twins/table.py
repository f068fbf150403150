"""What was counted as Markdown: cases whose twins launch otherwise, and how many do not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from bench.symbolic import KINDS
from bench.twins.count import STATIC

Row = dict[str, Any]


def by_case(rows: Iterable[Row]) -> dict[str, dict[str, Row]]:
    """The rows of each case by kind; of a case that was counted again, the last."""
    found: dict[str, dict[str, Row]] = {}
    for row in rows:
        found.setdefault(row["case"], {})[row["kind"]] = row
    return found


def markdown(rows: Iterable[Row], whole: bool = True) -> list[str]:
    """A line for each case; those alone whose twins launch otherwise, unless the whole is asked."""
    cases = by_case(rows)
    lines = [
        "| case | sizes known | batch symbolic | length | both | TVM |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    kinds = (STATIC, *KINDS)
    for name, own in cases.items():
        if whole or differs(own):
            shown = (_shown(own.get(kind)) for kind in kinds)
            lines.append(f"| {name} | {' | '.join(shown)} | {_tvm(own)} |")
    return lines


def summary(rows: Iterable[Row]) -> str:
    """One sentence: how many twins there are, and how many launch what their static graph does."""
    cases = by_case(rows)
    twins = [(own, own[kind]) for own in cases.values() for kind in KINDS if kind in own]
    known = [(own.get(STATIC, {}).get("launches"), twin) for own, twin in twins]
    equal = sum("launches" in twin and twin["launches"] <= (of or 0) for of, twin in known)
    of_tvm = sum(_is_beyond_tvm(twin) for _, twin in twins)
    left = sum(bool(twin.get("open")) for _, twin in twins)
    return (
        f"{len(twins)} twins of {len(cases)} cases: {equal} launch no more than with sizes known, "
        f"{of_tvm} more than TVM's own pipeline; the reports of {left} leave something open."
    )


def differs(own: dict[str, Row]) -> bool:
    """Whether a twin of a case launches otherwise, or there is none for a fault."""
    return len({row.get("launches", row.get("failed")) for row in own.values()}) > 1


def _is_beyond_tvm(twin: Row) -> bool:
    return twin.get("tvm") is not None and twin["launches"] > twin["tvm"]


def _shown(row: Row | None) -> str:
    return "" if row is None else str(row.get("launches", "failed"))


def _tvm(own: dict[str, Row]) -> str:
    """TVM's launches, of the twin with most symbols; it refuses some modules."""
    found = [row["tvm"] for row in own.values() if row.get("tvm") is not None]
    return str(found[-1]) if found else "refused"
