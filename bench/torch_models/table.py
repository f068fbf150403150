"""What a run found, as Markdown: a line for every model, element type and way."""

from __future__ import annotations

import math

from bench.table import microseconds
from bench.torch_models.row import OF_STEPS, Results, Row, judged
from bench.torch_models.systems import CAPTURED, DYNAMO, EAGER, INDUCTOR, STITCH

Key = tuple[str, str, str]
HEADER = [
    "model", "dtype", "way", "error/eager's", "breaks (torch.compile's)", "first call s (its)",
    "GPU µs: eager", "torch.compile", "tvm_stitch", "wall µs: eager", "torch.compile",
    "tvm_stitch", "host µs: eager", "torch.compile", "tvm_stitch", "parts", "PyTorch's",
]  # fmt: skip


def document(results: Results) -> str:
    """The table, what is counted in it, and what went wrong."""
    keys = list(dict.fromkeys(row.key for row in results.rows))
    lines = [f"| {' | '.join(HEADER)} |", f"|{'---|' * len(HEADER)}"]
    lines += [f"| {' | '.join(cells(results, key))} |" for key in keys]
    gpu = results.machine.get("gpu", "no GPU")
    title = f"{gpu}; {results.run.get('command', '')}; {results.run.get('date', '')}"
    captured = _captured(results, keys)
    summary, left = _summary(results, keys), _left(results, keys)
    parts = [title, "\n".join(lines), captured, summary, left, _troubles(results)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _captured(results: Results, keys: list[Key]) -> str:
    """The systems with mode="reduce-overhead", where they were tried."""
    header = ["model", "dtype", "way", "error/eager's"]
    header += [f"{title}: {system}" for title in ("GPU µs", "wall µs") for system in CAPTURED]
    lines = []
    for key in keys:
        rows = [results.row(key, name) for name in CAPTURED]
        if any(rows):
            times = [_time(row, field) for field in ("us", "wall_us") for row in rows]
            error = _error(rows[-1], results.row(key, EAGER))
            lines.append(f"| {' | '.join([*key, error, *times])} |")
    above = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    return "\n".join([*above, *lines]) if lines else ""


def _left(results: Results, keys: list[Key]) -> str:
    """The operators that stayed PyTorch's, by name."""
    lines = []
    for key in keys:
        row = results.row(key, STITCH)
        if row and row.left:
            calls = ", ".join(f"{count} {name}" for name, count in sorted(row.left.items()))
            lines.append(f"- {' '.join(key)}: {calls}")
    return "\n".join(["PyTorch's were:", "", *lines]) if lines else ""


def cells(results: Results, key: Key) -> list[str]:
    """One line of the table."""
    rows = [results.row(key, name) for name in (EAGER, INDUCTOR, STITCH)]
    eager, inductor, stitch = rows
    return [
        *key,
        _error(stitch, eager),
        _beside(_breaks(stitch), _breaks(inductor or results.row(key, DYNAMO))),
        _beside(_seconds(stitch), _seconds(inductor)),
        *(_time(row, "us") for row in rows),
        *(_time(row, "wall_us") for row in rows),
        *(_time(row, "host_us") for row in rows),
        _parts(stitch),
        str(sum(stitch.left.values())) if stitch else "–",
    ]


def line(results: Results, key: Key) -> str:
    """The same for a terminal, and what went wrong."""
    found = [results.row(key, name) for name in (EAGER, INDUCTOR, STITCH)]
    why = [f"\n    {row.system}: {text}" for row in found if row for text in _trouble(results, row)]
    return " ".join(cells(results, key)) + "".join(why)


def _error(row: Row | None, eager: Row | None) -> str:
    if row is None or row.status != "ok":
        return row.status if row else "–"
    if eager is None or not eager.rms_error or row.rms_error is None:
        return "–" if row.rms_error is None else f"{row.rms_error:.1e}"
    ratio = row.rms_error / eager.rms_error
    said = f"{judged(row, eager)}: {ratio:.2f} of {eager.rms_error:.1e}"
    return f"{said} ({min(eager.starts):.1e} to {max(eager.starts):.1e})" if eager.starts else said


def _breaks(row: Row | None) -> str:
    if row is None or row.status != "ok":
        return "–"
    return str(row.breaks) + (f", {row.recompiled} recompiled" if row.recompiled else "")


def _seconds(row: Row | None) -> str:
    if row is None or row.first_s is None:
        return "–"
    again = f", again {row.second_s:.1f}" if row.second_s is not None else ""
    return f"{row.first_s:.1f}{again}"


def _beside(ours: str, other: str) -> str:
    return f"{ours} ({other})"


def _time(row: Row | None, field: str) -> str:
    if row is None or row.status != "ok":
        return row.status if row else "–"
    launches = f"/{(row.kernels or 0) + (row.copies or 0)}" if field == "us" and row.us else ""
    return microseconds(getattr(row, field)) + launches


def _parts(row: Row | None) -> str:
    if row is None:
        return "–"
    failed = f", {len(row.failures)} failed" if row.failures else ""
    return f"{row.stitched}{failed}"


def _summary(results: Results, keys: list[Key]) -> str:
    lines = []
    for name in (INDUCTOR, STITCH):
        rows = [(results.row(key, name), results.row(key, EAGER)) for key in keys]
        verdicts = [judged(row, eager) for row, eager in rows if row]
        counts = {each: verdicts.count(each) for each in ("ok", "wrong", "failed")}
        said = ", ".join(f"{count} {each}" for each, count in counts.items())
        for field, title in (("us", "GPU"), ("wall_us", "wall")):
            said += _mean([(r, e) for r, e in rows if r and e], field, title, "eager")
        if name == STITCH:
            pairs = [(results.row(key, STITCH), results.row(key, INDUCTOR)) for key in keys]
            said += _mean([(r, e) for r, e in pairs if r and e], "us", "GPU", "torch.compile")
        if verdicts:
            lines.append(f"- {name}: {said}")
    return "\n".join(lines)


def _mean(pairs: list[tuple[Row, Row]], field: str, title: str, other: str) -> str:
    """The geometric mean of how much faster it is."""
    times = [(getattr(row, field), getattr(base, field)) for row, base in pairs]
    logs = [math.log(base / ours) for ours, base in times if ours and base]
    if not logs:
        return ""
    return f"; {title} time {math.exp(sum(logs) / len(logs)):.2f}× faster than {other}"


def _troubles(results: Results) -> str:
    lines = [
        f"- {' '.join(row.key)}, {row.system}: {text}"
        for row in results.rows
        for text in _trouble(results, row)
    ]
    return "\n".join(lines)


def _trouble(results: Results, row: Row) -> list[str]:
    found = [row.detail] if row.detail else []
    eager = results.row(row.key, EAGER)
    if judged(row, eager) == "wrong" and eager is not None:
        found.append(
            f"error {row.rms_error:.2g} (largest {row.error:.2g}), eager {eager.rms_error:.2g} "
            f"({eager.error:.2g})"
        )
        if row.gradients_error is not None and eager.gradients_error is not None:
            pairs = [(n, getattr(row, n), getattr(eager, n)) for n in OF_STEPS]
            found += [
                f"{name.removesuffix('_error')} of a step {ours:.2g}, eager {base:.2g}"
                for name, ours, base in pairs
                if ours is not None and base is not None
            ]
    other = results.row(row.key, INDUCTOR) or results.row(row.key, DYNAMO)
    if row.system == STITCH and other is not None and row.breaks > other.breaks:
        found.append(f"{row.breaks} graph breaks, torch.compile has {other.breaks}")
    return [*found, *(f"a part fails: {failure}" for failure in row.failures)]
