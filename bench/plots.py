"""Plots of stored results, each as PNG and SVG.

In: Results. Out: bars by case (one figure a group), share of the copy bandwidth against columns
for the grid, and a roofline of every case on every system.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.environment import missing_package
from bench.results import Results, ResultsError
from bench.table import SYSTEM_TITLES, case_names

# Colours that the colour-blind can tell apart; a system keeps its own in every plot.
COLOURS = {
    "eager": "#999999",
    "inductor": "#0072B2",
    "inductor-max": "#56B4E9",
    "inductor-reductions": "#332288",
    "xla": "#E69F00",
    "quack": "#F0E442",
    "liger": "#CC79A7",
    "tvm": "#009E73",
    "metaschedule": "#66C2A5",
    "stitch": "#D55E00",
    "stitch-fast": "#FC8D62",
    "stitch-tuned": "#8C2D04",
}
HEADLINE = "peers"  # the group of cases whose plot README shows
MARKERS = dict(zip(COLOURS, "xovs^<Dp*PhX", strict=True))


def draw_all(results: Results, folder: Path) -> list[Path]:
    """Draw every plot that the results have data for; the files written."""
    if (need := missing_package("matplotlib")) is not None:
        raise ResultsError(need)
    import matplotlib

    # Files only: no display is needed or asked for.
    matplotlib.use("Agg", force=False)
    # Text stays text in SVG: smaller, and it can be searched.
    matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "bench", "font.size": 9})
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, figure in _figures(results):
        for kind in ("png", "svg"):
            path = folder / f"{name}.{kind}"
            metadata = {"Date": None} if kind == "svg" else None
            figure.savefig(path, dpi=150, bbox_inches="tight", metadata=metadata)
            written.append(path)
    if not written:
        raise ResultsError("the results hold no times to draw")
    return written


def _figures(results: Results) -> Iterator[tuple[str, Any]]:
    groups: dict[str, list[str]] = {}
    for name in case_names(results):
        info = results.cases.get(name)
        if info is not None and any(results.us(name, s) for s in results.systems()):
            groups.setdefault(info.group, []).append(name)
    for group, names in groups.items():
        if group != "grid":
            yield f"bars-{group}", bars(results, names, group)
    if groups.get("grid"):
        yield "bandwidth", bandwidth(results, groups["grid"])
    points = [p for names in groups.values() for p in names if results.cases[p].flops]
    if points:
        yield "roofline", roofline(results, points)


def bars(results: Results, names: list[str], title: str) -> Any:
    """Times as multiples of the copy, one group of bars a case; failures are marked."""
    systems = [s for s in results.systems() if any(results.row(n, s) for n in names)]
    height = 0.8 / len(systems)
    figure, axes = _figure(9, 1 + len(names) * max(0.35, 0.11 * len(systems)))
    for i, system in enumerate(systems):
        for at, name in enumerate(names):
            place = at + (i - (len(systems) - 1) / 2) * height
            us, limit = results.us(name, system), results.limit_us(name)
            if us and limit:
                axes.barh(place, us / limit, height, color=COLOURS.get(system, "black"))
            elif (row := results.row(name, system)) and row.status in ("failed", "wrong"):
                axes.text(1.02, place, row.status, va="center", fontsize=6, color="#AA0000")
        axes.barh(0, 0, color=COLOURS.get(system, "black"), label=_title(system))
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlim(left=0.7)
    _plain_ticks(axes.xaxis)
    axes.set_yticks(range(len(names)), [results.cases[n].title for n in names])
    axes.invert_yaxis()
    axes.set_xlabel("GPU time as a multiple of a plain copy of the same bytes")
    gpu = str(results.machine.get("gpu", "unknown GPU")).removeprefix("NVIDIA ")
    group = "" if title == HEADLINE else f"{title}: "
    axes.set_title(f"{group}time relative to a copy, {gpu}")
    axes.legend(fontsize=7, loc="best")
    return figure


def bandwidth(results: Results, names: list[str]) -> Any:
    """Share of the copy bandwidth against columns, one panel a kernel."""
    curves: dict[str, list[str]] = {}
    for name in names:
        grid = results.cases[name].grid
        if grid:
            curves.setdefault(grid[0], []).append(name)
    from matplotlib.figure import Figure

    across = min(2, len(curves))
    down = math.ceil(len(curves) / across)
    figure = Figure(figsize=(5 * across, 3.4 * down))
    panels = figure.subplots(down, across, squeeze=False).flat
    for panel in list(panels)[len(curves) :]:
        panel.set_axis_off()
    for panel, (kernel, cases) in zip(figure.axes, curves.items(), strict=False):
        for system in results.systems():
            points = sorted(
                (grid[2], 100 * floor / us)
                for name in cases
                if (grid := results.cases[name].grid)
                and (us := results.us(name, system))
                and (floor := results.floor_us(name))
            )
            if points:
                panel.plot(*zip(*points, strict=True), label=_title(system), **_style(system))
        panel.set_xscale("log", base=2)
        panel.set_ylim(0, 105)
        panel.set_title(kernel.replace("_", " "))
        panel.grid(alpha=0.3)
        panel.set_xlabel("columns (bf16)")
        panel.set_ylabel("% of copy bandwidth")
    figure.axes[0].legend(fontsize=7)
    figure.tight_layout()
    return figure


def roofline(results: Results, names: list[str]) -> Any:
    """Operations a second against operations a byte, under the roofs of memory and arithmetic."""
    figure, axes = _figure(8, 5.5)
    intensities = []
    for system in results.systems():
        points = [
            (info.flops / info.bytes, info.flops / us / 1e3)
            for name in names
            if (us := results.us(name, system)) and (info := results.cases[name])
        ]
        if points:
            style = _style(system)
            style.pop("linewidth")
            axes.scatter(
                *zip(*points, strict=True), s=14, label=_title(system), alpha=0.8,
                color=style["color"], marker=style["marker"],
            )  # fmt: skip
            intensities += [x for x, _ in points]
    low, high = min(intensities) / 2, max(intensities) * 2
    rate, peak = results.machine.get("copy_gbs"), results.machine.get("fp32_tflops")
    if rate:
        axes.plot([low, high], [low * rate, high * rate], color="black", label="copy bandwidth")
    if peak:
        axes.axhline(peak * 1e3, color="black", linestyle=":", label="float32 peak")
    axes.set_xscale("log")
    axes.set_yscale("log")
    _plain_ticks(axes.xaxis)
    axes.set_xlabel("operations a byte (each input read once, each output written once)")
    axes.set_ylabel("10⁹ operations a second")
    axes.set_title(f"roofline, {results.machine.get('gpu', 'unknown GPU')}")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    return figure


def _figure(width: float, height: float) -> tuple[Any, Any]:
    # Not through pyplot, which would keep every figure until the process ends.
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    return figure, figure.subplots()


def _plain_ticks(axis: Any) -> None:
    """1, 2, 5, 10, … instead of powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter("{x:g}")
    axis.set_minor_formatter(NullFormatter())


def _style(system: str) -> dict[str, Any]:
    ours = system.startswith("stitch")
    return {
        "color": COLOURS.get(system, "black"),
        "marker": MARKERS.get(system, "."),
        "linewidth": 2.2 if ours else 1.2,
    }


def _title(system: str) -> str:
    return SYSTEM_TITLES.get(system, system)
