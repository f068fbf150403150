"""What was found as Markdown and plots.

In: a folder of records and kernels. Out: Markdown text; figures as PNG and SVG files.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.tuning.curves import SEARCHES, Curve, median_trials, running_best
from bench.tuning.folder import Folder, Kernel
from tvm_stitch.tuning.records import Record, best_first

PLOTTED = 8
COLOURS = dict(zip(SEARCHES, ("#D55E00", "#0072B2", "#009E73", "#999999"), strict=True))


@dataclass(frozen=True)
class Row:
    """One tuned kernel."""

    kernel: Kernel
    unit: str
    analytic: float
    best: float
    trials: int
    curve: tuple[float, ...]  # the best cost after each trial

    @property
    def gain(self) -> float:
        """The analytic cost over the best."""
        return self.analytic / self.best


def rows(folder: Folder) -> list[Row]:
    """Every kernel that was searched, by its case."""
    measured = folder.records()
    searched, confirmed = _by_key(measured.searched), _by_key(measured.confirmed)
    return [
        row
        for kernel in folder.kernels()
        if (row := _row(kernel, searched.get(kernel.key, []), confirmed.get(kernel.key, [])))
    ]


def _by_key(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.workload, []).append(record)
    return found


def _row(kernel: Kernel, searched: list[Record], confirmed: list[Record]) -> Row | None:
    """The winner's time where it was measured once more, beside the chosen schedule's."""
    ranked = best_first(searched)
    if not ranked:
        return None
    best = ranked[0]
    analytic = next((r for r in ranked if r.trial == 0 and r.final == best.final), None)
    if len(confirmed) >= 2 and all(record.ok for record in confirmed):
        analytic = next(record for record in confirmed if record.trial == 0)
        best = next(record for record in confirmed if record.trial != 0)
    if analytic is None or analytic.cost is None or best.cost is None:
        return None
    first = sorted((r for r in searched if not r.final), key=lambda record: record.trial)
    curve = running_best([record.cost for record in first])
    return Row(kernel, best.unit, analytic.cost, best.cost, len(first), curve)


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
    searches = SEARCHES[:-1]
    lines = [
        "Trials until a search is within 3 % of the best of the whole space (median of the seeds):",
        "",
        f"| case | kernel | schedules | within 3 % | choice off | {' | '.join(SEARCHES)} | "
        f"{' | '.join(f'{name} / random' for name in searches)} |",
        "|---|---|" + "---:|" * (3 + len(SEARCHES) + len(searches)),
    ]
    thirds = dict.fromkeys(searches, 0)
    wholes = {curve.whole.kernel.key: curve.whole for curve in curves}
    for key, whole in wholes.items():
        trials = {name: median_trials(curves, key, name) for name in SEARCHES}
        shares = {name: trials[name] / trials["random"] for name in searches}
        for name in searches:
            thirds[name] += shares[name] <= 1 / 3
        cells = [
            whole.kernel.case,
            whole.kernel.title,
            str(len(whole.table)),
            f"{100 * whole.share:.1f} %",
            f"{100 * (whole.choice_off - 1):.1f} %",
            *(f"{trials[name]:g}" for name in SEARCHES),
            *(f"{shares[name]:.2f}" for name in searches),
        ]
        lines.append(f"| {' | '.join(cells)} |")
    counts = ", ".join(f"{count} {name}" for name, count in thirds.items())
    return [*lines, "", f"In a third of random's trials, of {len(wholes)} kernels: {counts}."]


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
    shown = list({curve.whole.kernel.key: curve.whole for curve in curves}.values())
    across = min(3, len(shown))
    down = -(-len(shown) // across)
    figure = figure_class(figsize=(4 * across, 3 * down))
    panels = list(figure.subplots(down, across, squeeze=False).flat)
    for panel in panels[len(shown) :]:
        panel.set_axis_off()
    for panel, whole in zip(panels, shown, strict=False):
        for curve in (c for c in curves if c.whole.kernel.key == whole.kernel.key):
            colour = COLOURS[curve.search]
            label = curve.search if curve.seed == 0 else None
            steps = range(1, len(curve.best) + 1)
            panel.plot(steps, curve.best, color=colour, label=label, linewidth=1)
        panel.axhline(whole.optimum, color="black", linestyle=":", label="exhaustive")
        panel.set_title(whole.kernel.case, fontsize=8)
        panel.set_xscale("log", base=2)
        panel.legend(fontsize=6)
    figure.tight_layout()
    return figure
