"""What builds take, as lines for people and tables in Markdown.

In: rows as the child makes them. Out: text. Measures nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from bench.building.child import INDUCTOR, OURS, XLA

Row = dict[str, Any]
NAMES = {OURS: "tvm_stitch", INDUCTOR: "torch.compile", XLA: "XLA"}


def line(row: Row) -> str:
    """A row for people."""
    begin = f"{row['model']:20} {NAMES.get(row['system'], row['system']):13} {row['what']:14}"
    if "failed" in row:
        return f"{begin} {row['failed']}"
    times = f"{row['seconds']:6.1f} s, {row['cpu_s']:6.1f} CPU s ({_stages(row)})"
    return f"{begin} {times}, ready after {row['ready_s']:.1f}"


def _stages(row: Row) -> str:
    told = sorted(row["stages"].items(), key=lambda each: -each[1])
    return ", ".join(f"{stage} {seconds:.1f}" for stage, seconds in told if seconds >= 0.05)


def markdown(rows: Sequence[Row]) -> list[str]:
    """Seconds of each model by system, cold and in a second process; then tvm_stitch's stages."""
    columns = list(dict.fromkeys((row["system"], row["what"]) for row in rows))
    heads = [f"{NAMES.get(system, system)}, {what}" for system, what in columns]
    lines = [
        f"| model | {' | '.join(heads)} | of torch.compile |",
        f"|---|{'---:|' * (len(heads) + 1)}",
    ]
    for model in dict.fromkeys(row["model"] for row in rows):
        own = {(row["system"], row["what"]): row for row in rows if row["model"] == model}
        cells = [_seconds(own.get(column)) for column in columns]
        lines.append(f"| {model} | {' | '.join([*cells, _share(own.values())])} |")
    stages = [row for row in rows if row["system"] == OURS and "stages" in row]
    lines += ["", "| tvm_stitch | seconds of stages |", "|---|---|"]
    return lines + [f"| {row['model']}, {row['what']} | {_stages(row)} |" for row in stages]


def _seconds(row: Row | None) -> str:
    if row is None:
        return ""
    return f"{row['seconds']:.1f}" if "seconds" in row else "failed"


def _share(rows: Iterable[Row]) -> str:
    """The first build's seconds as a share of torch.compile's first."""
    first: dict[str, float] = {}
    for row in rows:
        if "seconds" in row:
            first.setdefault(row["system"], row["seconds"])
    if not {OURS, INDUCTOR} <= first.keys():
        return ""
    return f"{100 * first[OURS] / first[INDUCTOR]:.0f} %"
