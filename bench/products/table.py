"""What a run of products says: how often the models choose the faster way, and where not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.libraries import how_near

WAYS = ("library", "ours")


def chosen(row: dict[str, Any]) -> str | None:
    """The way that the models choose."""
    predicted = {way: (row["predicted"] or {}).get(way) for way in WAYS}
    known = {way: us for way, us in predicted.items() if us is not None}
    return min(known, key=lambda way: known[way]) if known else None


def behind(row: dict[str, Any]) -> float | None:
    """The chosen way's time over the best one's; None if it was not timed."""
    times = {way: row.get(f"{way}_us") for way in WAYS}
    way = chosen(row)
    known = [us for us in times.values() if us]
    return times[way] / min(known) if way and times[way] and known else None


def summary(rows: Sequence[dict[str, Any]], worst: int = 20) -> str:
    """A table for people."""
    lines = [f"{'product':50} {'library':>9} {'ours':>9} {'predicted':>19}  chosen / best"]
    ratios: list[tuple[float, str]] = []
    for row in rows:
        ratio = behind(row)
        ratios += [] if ratio is None else [(ratio, row["shape"])]
        predicted = row["predicted"] or {}
        cells = [row.get("library_us"), row.get("ours_us"), *(predicted.get(way) for way in WAYS)]
        shown = " ".join(f"{'-' if cell is None else f'{cell:.1f}':>9}" for cell in cells)
        lines.append(f"{row['shape']:50} {shown}  {'-' if ratio is None else f'{ratio:.2f}'}")
    if ratios:
        near, mean, worst_ratio = how_near([ratio for ratio, _ in ratios])
        lines.append(
            f"{len(ratios)} products: the chosen way within 5 % of the best on {near:.0%}, "
            f"{mean:.3f} times the best in the mean, at worst {worst_ratio:.2f}"
        )
    clocked = [
        row["library_us"] / row["clock_us"]
        for row in rows
        if row.get("library_us") and row.get("clock_us")
    ]
    if clocked:
        near, mean, best = how_near(clocked)
        lines.append(
            f"the library by the clock: {mean:.3f} times as fast in the mean, {best:.2f} at best, "
            f"within 5 % of its heuristics on {near:.0%}"
        )
    far = sorted(ratios, key=lambda each: -each[0])[:worst]
    lines += [f"  {ratio:.2f}  {shape}" for ratio, shape in far if ratio > 1.05]
    return "\n".join(lines)


def swept(rows: Sequence[dict[str, Any]]) -> str:
    """Each product's tiles, the fastest first; what is wrong is marked."""
    lines = []
    for row in sorted(rows, key=lambda row: (row["shape"], row["tiles_us"])):
        tiles = row["tiles"]
        size = f"{tiles['rows']}x{tiles['columns']}x{tiles['stages']}"
        size += f" {tiles['min_blocks_per_sm'] or 1} beside"
        wrong = "" if row["ok"] else f"  wrong by {row['error']:.1e}"
        lines.append(f"{row['shape']:50} {size:22} {row['tiles_us']:8.2f}{wrong}")
    return "\n".join(lines)
