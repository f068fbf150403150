"""How planning grows, as a plot: needs matplotlib."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

TARGETS = ((1000, 1.5), (10000, 10.0), (20000, 25.0))
MARKERS = "os^vD<>ph*XPd"


def draw(rows: list[dict[str, Any]], path: Path) -> None:
    """CPU seconds against operators, both logarithmic, a line for each family."""
    figure, axes = pyplot.subplots(figsize=(8, 5))
    families = dict.fromkeys(row["graph"] for row in rows if row["asked"] is not None)
    for number, family in enumerate(families):
        points = [
            (row["operators"], row["plan_s"])
            for row in rows
            if row["graph"] == family and "plan_s" in row
        ]
        marker = MARKERS[number % len(MARKERS)]
        axes.loglog(*zip(*points, strict=True), marker=marker, markersize=4, label=family)
    for row in rows:
        if row["asked"] is None and "plan_s" in row:
            place = (row["operators"], row["plan_s"])
            axes.loglog([place[0]], [place[1]], "k^", markersize=4)
            axes.annotate(
                row["graph"], place, fontsize=7, xytext=(4, -3), textcoords="offset points"
            )
    axes.loglog(*zip(*TARGETS, strict=True), "k--", linewidth=1, label="target")
    axes.set_xlabel("operators, compound ones written out")
    axes.set_ylabel("CPU seconds of planning")
    axes.grid(True, which="both", alpha=0.3)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
