"""Tables of results: lines for the terminal as cases end, and a Markdown document.

In: Results. Out: text. A cell is a time and a kernel count, or why there is no time.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable

from bench.results import Results, Row

SYSTEM_TITLES = {
    "eager": "eager",
    "inductor": "torch.compile",
    "inductor-max": "max-autotune",
    "inductor-reductions": "torch.compile, reductions",
    "xla": "XLA",
    "quack": "QuACK",
    "liger": "Liger",
    "tvm": "TVM default",
    "metaschedule": "MetaSchedule",
    "stitch": "tvm_stitch",
    "stitch-fast": "stitch, fast",
    "stitch-traced": "stitch, traced",
    "stitch-tuned": "stitch, tuned",
}


def microseconds(us: float | None) -> str:
    """A time with three or four digits."""
    if us is None:
        return "–"
    return f"{us:.2f}" if us < 10 else f"{us:.1f}" if us < 1000 else f"{us:.0f}"


def cell(row: Row | None, limit_us: float | None) -> str:
    """ "time/kernels ×multiple of the limit", or the status."""
    if row is None or row.status == "skipped":
        return "–"
    if row.status != "ok" or row.us is None:
        return row.status
    launches = (row.kernels or 0) + (row.copies or 0)
    text = f"{microseconds(row.us)}/{launches}"
    if limit_us:
        text += f" ×{row.us / limit_us:.2f}"
    return text


def ratio(results: Results, case: str) -> str:
    """tvm_stitch's time over that of the best peer, and who that is."""
    best = results.best_peer(case)
    ours = results.us(case, "stitch-tuned") or results.us(case, "stitch")
    if best is None or ours is None:
        return "–"
    return f"{ours / best[1]:.2f} {SYSTEM_TITLES.get(best[0], best[0])}"


def line(results: Results, case: str, systems: list[str]) -> list[str]:
    """The cells of a case."""
    info = results.cases.get(case)
    limit = results.limit_us(case) if info else None
    floor = results.floor_us(case) if info else None
    return [
        info.title if info else case,
        microseconds(floor),
        microseconds(limit),
        *(cell(results.row(case, name), limit) for name in systems),
        ratio(results, case),
    ]


def header(systems: Iterable[str]) -> list[str]:
    """The column titles; times are microseconds."""
    names = [SYSTEM_TITLES.get(name, name) for name in systems]
    return ["case", "floor", "copy", *names, "stitch/best peer"]


def width(text: str) -> int:
    """Columns a text takes on a terminal."""
    return sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text)


def column_widths(systems: list[str], titles: Iterable[str]) -> list[int]:
    """Widths that hold every cell, fixed before the first case is measured."""
    first = max((width(title) for title in titles), default=4)
    names = header(systems)
    return [first, 7, 7, *(max(16, width(n)) for n in names[3:-1]), 18]


def aligned(cells: list[str], widths: list[int]) -> str:
    """One line of a terminal table: the first column to the left, the others to the right."""
    padded = [
        text + " " * (w - width(text)) if i == 0 else " " * (w - width(text)) + text
        for i, (text, w) in enumerate(zip(cells, widths, strict=True))
    ]
    return "  ".join(padded).rstrip()


def terminal(results: Results, cases: list[str] | None = None) -> str:
    """The whole table for a terminal."""
    names = cases if cases is not None else case_names(results)
    systems = results.systems()
    titles = [results.cases[n].title if n in results.cases else n for n in names]
    widths = column_widths(systems, titles)
    lines = [aligned(header(systems), widths)]
    lines += [aligned(line(results, name, systems), widths) for name in names]
    return "\n".join(lines)


def case_names(results: Results) -> list[str]:
    """Cases in the order they came."""
    return list(dict.fromkeys([*results.cases, *(row.case for row in results.rows)]))


def markdown(results: Results) -> str:
    """The tables of a run as a document: how it was measured, times by group, what failed."""
    parts = [_about(results)]
    groups: dict[str, list[str]] = {}
    for name in case_names(results):
        info = results.cases.get(name)
        groups.setdefault(info.group if info else "not measured", []).append(name)
    for group, names in groups.items():
        systems = [s for s in results.systems() if any(results.row(n, s) for n in names)]
        rows = [line(results, name, systems) for name in names]
        parts.append(f"## {group}\n\n" + _markdown_table(header(systems), rows))
        if group == "models" or any(_matrix_share(results, n) for n in names):
            parts.append(_memory_intensive(results, names, systems))
        else:
            parts.append(_wall(results, names, systems))
        parts.append(_traffic(results, names, systems))
    failures = _failures(results)
    if failures:
        parts.append("## Failed or wrong\n\n" + failures)
    return "\n\n".join(part for part in parts if part) + "\n"


def _about(results: Results) -> str:
    run, machine = results.run, results.machine
    versions = ", ".join(f"{k} {v}" for k, v in run.get("versions", {}).items())
    lines = [
        "# Benchmark results",
        "",
        f"- Command: `{run.get('command', '?')}`",
        f"- Date {run.get('date', '?')}, commit {run.get('commit', '?')}",
        f"- {machine.get('gpu', '?')}, driver {machine.get('driver', '?')}, "
        f"copy bandwidth {machine.get('copy_gbs', '?')} GB/s",
        f"- {versions}",
        *(f"- Skipped: {name}: {why}" for name, why in results.missing.items()),
        "",
        "Cells: microseconds of GPU time (the sum of kernel and copy durations, median of 12 "
        "calls, L2 flushed before each) / launches ×multiple of the copy. Floor: each input read "
        "once and each output written once at the copy bandwidth. Copy: a plain copy of as many "
        "bytes, timed in the same turns: the practical limit.",
    ]
    return "\n".join(lines)


def _wall(results: Results, names: list[str], systems: list[str]) -> str:
    def text(row: Row | None) -> str:
        if row is None or row.status != "ok":
            return "–"
        graph = f" ({microseconds(row.graph_us)})" if row.graph_us is not None else ""
        return microseconds(row.wall_us) + graph

    rows = [
        [line(results, name, [])[0], *(text(results.row(name, s)) for s in systems)]
        for name in names
    ]
    heads = ["wall time a call (as a CUDA graph), µs", *header(systems)[3:-1]]
    return _markdown_table(heads, rows)


def _matrix_share(results: Results, name: str) -> bool:
    rows = [r for r in results.rows if r.case == name and r.status == "ok"]
    return any(r.matrix_us > 0.2 * (r.us or 1) for r in rows)


def _memory_intensive(results: Results, names: list[str], systems: list[str]) -> str:
    def text(row: Row | None) -> str:
        if row is None or row.status != "ok" or row.us is None:
            return "–"
        return f"{microseconds(row.us - row.matrix_us)} of {microseconds(row.us)}"

    rows = [
        [line(results, name, [])[0], *(text(results.row(name, s)) for s in systems)]
        for name in names
    ]
    heads = ["all but matrix products and convolutions, µs", *header(systems)[3:-1]]
    return _markdown_table(heads, rows) + "\n\n" + _wall(results, names, systems)


def _traffic(results: Results, names: list[str], systems: list[str]) -> str:
    def text(row: Row | None) -> str:
        if row is None or row.dram_bytes is None:
            return "–"
        return f"{row.dram_bytes / results.cases[row.case].bytes:.2f}"

    if not any((row := results.row(n, s)) and row.dram_bytes for n in names for s in systems):
        return ""
    rows = [
        [line(results, name, [])[0], *(text(results.row(name, s)) for s in systems)]
        for name in names
    ]
    heads = ["DRAM bytes, as a multiple of inputs and outputs", *header(systems)[3:-1]]
    return _markdown_table(heads, rows)


def _failures(results: Results) -> str:
    bad = [r for r in results.rows if r.status in ("failed", "wrong")]
    titles = {name: info.title for name, info in results.cases.items()}
    rows = [[titles.get(r.case, r.case), r.system, r.status, r.detail] for r in bad]
    return _markdown_table(["case", "system", "status", "why"], rows) if rows else ""


def _markdown_table(heads: list[str], rows: list[list[str]]) -> str:
    def joined(cells: list[str]) -> str:
        return "| " + " | ".join(c.replace("|", "\\|") for c in cells) + " |"

    return "\n".join([joined(heads), "|" + "---|" * len(heads), *map(joined, rows)])
