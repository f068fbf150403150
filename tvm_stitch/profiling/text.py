"""A Profile as text: a table of its kernels, and what is between them."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from tvm_stitch.plan.plan import shown_bytes
from tvm_stitch.profiling.data import Figures, MeasuredKernel

WIDTH = 100
_TIMES = ("launches", "measured us", "predicted us", "floor us", "of a copy", "in all us")
_COUNTS = ("launches", "least", "global", "accesses", "barriers", "operations", "predicted us")


def render(profile: Figures) -> str:
    """The whole profile."""
    timed = profile.measured
    headings = _TIMES if timed else _COUNTS
    cells = [_times(kernel) if timed else _counts(kernel) for kernel in profile.kernels]
    names = [f"{k.name}: {k.library}" if k.library else k.name for k in profile.kernels]
    lines = [*textwrap.wrap(_headline(profile), WIDTH), "", *_table(headings, cells, names)]
    return "\n".join([*lines, *(f"not as CUDA, but by LLVM: {each}" for each in profile.not_run)])


def _headline(profile: Figures) -> str:
    if profile.total_us is None:
        return f"Counted by the {profile.how}, for {profile.device}; nothing is timed."
    parts = [f"{profile.total_us:.1f} us on the {profile.device} a call"]
    if profile.gaps_us is not None:
        parts.append(f"{profile.gaps_us:.1f} us between its launches")
    if profile.host_us is not None:
        parts.append(f"{profile.host_us:.1f} us as the host sees it")
    calls = "1 call" if profile.calls == 1 else f"{profile.calls} calls"
    return f"{', '.join(parts)}; {profile.how}, the median of {calls}."


def _table(headings: Sequence[str], cells: list[list[str]], names: Sequence[str]) -> list[str]:
    rows = [list(headings), *cells]
    widths = [max(len(row[column]) for row in rows) for column in range(len(headings))]
    lines = []
    for row, name in zip(rows, ["kernel", *names], strict=True):
        figures = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        line = "  ".join([*figures, name])
        lines.append(line if len(line) <= WIDTH else line[: WIDTH - 3] + "...")
    return lines


def _times(kernel: MeasuredKernel) -> list[str]:
    share = "-" if kernel.copy_share is None else f"{kernel.copy_share:.0%}"
    times = (kernel.measured_us, kernel.predicted_us, kernel.floor_us)
    return [str(kernel.launches), *map(_number, times), share, _number(kernel.total_us)]


def _counts(kernel: MeasuredKernel) -> list[str]:
    sizes = (kernel.bytes_min, kernel.global_bytes)
    traffic = ("-" if n is None else shown_bytes(n) for n in sizes)
    found = (kernel.accesses, kernel.barriers, kernel.operations)
    counts = ("-" if n is None else f"{n:.0f}" for n in found)
    return [str(kernel.launches), *traffic, *counts, _number(kernel.predicted_us)]


def _number(number: float | None) -> str:
    return "-" if number is None else f"{number:.2f}"
