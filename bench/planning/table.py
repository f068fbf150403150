"""What planning takes, as tables in Markdown.

In: rows as the child prints them. Out: lines. Measures nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

Row = dict[str, Any]
ALLOWED = 1.01  # of the predicted cost of the plan before
FEW = 1000  # operators: below, what every process does once weighs too much for an exponent


def markdown(rows: Sequence[Row]) -> list[str]:
    """CPU seconds of planning by family and size, with the exponent; then every row."""
    sizes = sorted({row["asked"] for row in rows if row["asked"] is not None})
    lines = [
        f"| family | {' | '.join(f'{size:,}' for size in sizes)} | exponent | peak MB |",
        f"|---|{'---:|' * (len(sizes) + 2)}",
    ]
    families = dict.fromkeys(row["graph"] for row in rows if row["asked"] is not None)
    for family in families:
        own = {row["asked"]: row for row in rows if row["graph"] == family}
        cells = [_number(own.get(size, {}).get("plan_s")) for size in sizes]
        peak = max((row.get("peak_mb", 0) for row in own.values()), default=0)
        cells += [_number(exponent(own.values())), _number(peak)]
        lines.append(f"| {family} | {' | '.join(cells)} |")
    return [*lines, "", *_details(rows)]


def exponent(rows: Iterable[Row]) -> float | None:
    """The slope of seconds over operators, both logarithmic, by least squares."""
    points = [
        (math.log(row["operators"]), math.log(row["plan_s"]))
        for row in rows
        if row.get("plan_s") and row["operators"] >= 0.9 * FEW
    ]
    if len(points) < 2:
        return None
    middle = [sum(values) / len(points) for values in zip(*points, strict=True)]
    along = sum((x - middle[0]) ** 2 for x, _ in points)
    return sum((x - middle[0]) * (y - middle[1]) for x, y in points) / along if along else None


def _details(rows: Iterable[Row]) -> list[str]:
    columns = {
        "operators": "operators", "front_s": "before, s", "plan_s": "planning, s",
        "tvm_s": "of it TVM's passes", "explain_s": "explain, s", "peak_mb": "peak MB",
        "kernels": "kernels", "kernels_us": "predicted us", "regions": "regions",
        "distinct": "different", "status": "status",
    }  # fmt: skip
    lines = [f"| graph | {' | '.join(columns.values())} |", f"|---|{'---:|' * len(columns)}"]
    for row in rows:
        cells = [_number(row.get(name)) for name in columns]
        lines.append(f"| {row['graph']} | {' | '.join(cells)} |")
    return lines


def compared(before: Iterable[Row], after: Iterable[Row]) -> tuple[list[str], list[str]]:
    """Both plans of each graph, and the graphs whose plans cost more than is allowed."""
    old = {(row["graph"], row.get("asked")): row for row in before if "kernels_us" in row}
    lines = [
        "| graph | asked | planning, s: before | now | kernels: before | now | us: before | now |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    dearer = []
    for row in after:
        known = old.get((row["graph"], row["asked"]))
        if known is None or "kernels_us" not in row:
            continue
        pairs = ((known.get(name), row[name]) for name in ("plan_s", "kernels", "kernels_us"))
        cells = [_number(value) for pair in pairs for value in pair]
        lines.append(f"| {row['graph']} | {_number(row['asked'])} | {' | '.join(cells)} |")
        if row["kernels_us"] > ALLOWED * known["kernels_us"]:
            dearer.append(row["graph"])
    return lines, dearer


def _number(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.2f}"
    return "" if value is None else f"{value:,}" if isinstance(value, int) else str(value)
