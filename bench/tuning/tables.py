"""What was found as Markdown and plots.

In: a folder of records and kernels. Out: Markdown text; figures as PNG and SVG files.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.tuning import kernels
from bench.tuning.curves import Curve, median_trials
from bench.tuning.run import RECORDS
from tvm_stitch.tuning.records import Record
from tvm_stitch.tuning.store import Store

PLOTTED = 8


@dataclass(frozen=True)
class Row:
    """One tuned kernel."""

    kernel: kernels.Kernel
    unit: str
    analytic: float
    best: float
    trials: int
    curve: tuple[float, ...]  # the best cost after each trial

    @property
    def gain(self) -> float:
        """The analytic cost over the best."""
        return self.analytic / self.best


def rows(folder: Path) -> list[Row]:
    """Every kernel that was tuned, by its case."""
    by_key: dict[str, list[Record]] = {}
    for record in Store(folder / RECORDS).read().records:
        by_key.setdefault(record.workload, []).append(record)
    found = []
    for kernel in kernels.read(folder):
        own = by_key.get(kernel.key, [])
        finals = [record for record in own if record.final and record.ok]
        compared = finals or [record for record in own if record.ok]
        analytic = [r.cost for r in compared if r.trial == 0 and r.cost is not None]
        if analytic:
            best = min(record.cost for record in compared if record.cost is not None)
            first = sorted((r for r in own if not r.final), key=lambda record: record.trial)
            curve = _running_best([record.cost for record in first])
            found.append(Row(kernel, own[0].unit, analytic[0], best, len(first), curve))
    return found


def _running_best(costs: Sequence[float | None]) -> tuple[float, ...]:
    best: list[float] = []
    for cost in costs:
        now = float("inf") if cost is None else cost
        best.append(min(now, best[-1]) if best else now)
    return tuple(best)


def markdown(found: Sequence[Row], curves: Sequence[Curve]) -> str:
    """Both tables."""
    return "\n".join([*_gains(found), "", *_searches(curves)]) + "\n"


def _gains(found: Sequence[Row]) -> list[str]:
    if not found:
        return ["No kernel has been tuned yet."]
    mean = statistics.geometric_mean(row.gain for row in found)
    slower = sum(row.gain < 0.99 for row in found)
    lines = [
        f"{len(found)} kernels; geometric mean gain {mean:.3f}; "
        f"{slower} slower than the analytic choice by more than 1 %.",
        "",
        f"| case | kernel | chosen {found[0].unit} | tuned {found[0].unit} | gain | of the floor | "
        "trials | space |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    for row in sorted(found, key=lambda row: -row.gain):
        floor = row.kernel.floor_us
        share = f"{100 * floor / row.best:.0f} %" if floor and row.unit == "us" else "-"
        lines.append(
            f"| {row.kernel.case} | {row.kernel.title} | {row.analytic:.6g} | {row.best:.6g} | "
            f"{row.gain:.3f} | {share} | {row.trials} | {row.kernel.space} |"
        )
    return lines


def _searches(curves: Sequence[Curve]) -> list[str]:
    if not curves:
        return ["No space has been measured as a whole yet."]
    lines = [
        "Trials until a search is within 3 % of the best of the whole space (median of the seeds):",
        "",
        "| case | kernel | space | XGBoost | random | ratio |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for kernel in {curve.kernel.key: curve.kernel for curve in curves}.values():
        learnt, drawn = (median_trials(curves, kernel.key, s) for s in ("xgboost", "random"))
        lines.append(
            f"| {kernel.case} | {kernel.title} | {kernel.space} | {learnt:g} | {drawn:g} | "
            f"{learnt / drawn:.2f} |"
        )
    return lines


def draw(found: Sequence[Row], curves: Sequence[Curve], folder: Path) -> list[Path]:
    """Best cost against trials: of the kernels that gained most, and of the replayed searches."""
    import matplotlib

    matplotlib.use("Agg", force=False)
    from matplotlib.figure import Figure

    figures = {}
    top = sorted(found, key=lambda row: -row.gain)[:PLOTTED]
    if top:
        figures["tuning"] = figure = Figure(figsize=(8, 5))
        axes = figure.subplots()
        for row in top:
            relative = [cost / row.analytic for cost in row.curve]
            axes.plot(range(1, len(relative) + 1), relative, label=row.kernel.case)
        axes.set_ylabel("best time over the chosen schedule's")
        axes.set_xlabel("trials")
        axes.legend(fontsize=7)
    if curves:
        figures["searches"] = _panels(Figure, curves)
    written = []
    for name, figure in figures.items():
        for kind in ("png", "svg"):
            written.append(folder / f"{name}.{kind}")
            figure.savefig(written[-1], dpi=150, bbox_inches="tight")
    return written


def _panels(figure_class: type, curves: Sequence[Curve]):  # type: ignore[no-untyped-def]
    """A panel for each kernel: every seed of both searches, and the best of the space."""
    shown = list({curve.kernel.key: curve.kernel for curve in curves}.values())
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    figure = figure_class(figsize=(4 * across, 3 * down))
    panels = figure.subplots(down, across, squeeze=False).flat
    for panel, kernel in zip(panels, shown, strict=False):
        for curve in (c for c in curves if c.kernel.key == kernel.key):
            colour = {"xgboost": "#D55E00", "random": "#999999"}[curve.search]
            label = curve.search if curve.seed == 0 else None
            steps = range(1, len(curve.best) + 1)
            panel.plot(steps, curve.best, color=colour, label=label, linewidth=1)
        panel.axhline(curve.optimum, color="black", linestyle=":", label="exhaustive")
        panel.set_title(kernel.case, fontsize=8)
        panel.set_xscale("log", base=2)
        panel.legend(fontsize=6)
    figure.tight_layout()
    return figure
