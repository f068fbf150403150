"""What a run of convolutions says: how far the library's call is from PyTorch's best."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.libraries import how_near


def behind(row: dict[str, Any]) -> float | None:
    """The call's time over the better of PyTorch's; None if one of them was not timed."""
    theirs = [row[f"{way}_us"] for way in ("torch", "torch_fused") if row.get(f"{way}_us")]
    ours = row.get("library_us")
    return ours / min(theirs) if ours and theirs else None


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """A table for people."""
    lines = [f"{'convolution':72} {'library':>8} {'torch':>8} {'fused':>8}  error    ratio"]
    ratios = []
    for row in rows:
        ratio = behind(row)
        ratios += [] if ratio is None else [ratio]
        times = (row.get(f"{way}_us") for way in ("library", "torch", "torch_fused"))
        shown = " ".join(f"{'-' if us is None else f'{us:.1f}':>8}" for us in times)
        error = row.get("library_error")
        lines.append(
            f"{row['shape']:72} {shown}  {'-' if error is None else f'{error:.0e}'}"
            f"  {'-' if ratio is None else f'{ratio:.2f}'}{'' if row['ok'] else '  WRONG'}"
        )
        lines += [f"    {row['library_said']}"] if "library_said" in row else []
    if ratios:
        near, mean, worst_ratio = how_near(ratios)
        lines.append(
            f"{len(ratios)} convolutions: within 5 % of PyTorch's best on {near:.0%}, "
            f"{mean:.3f} times it in the mean, at worst {worst_ratio:.2f}"
        )
    wrong = [row["shape"] for row in rows if not row["ok"]]
    lines.append(f"{len(rows)} checked, {len(wrong)} wrong or refused")
    return "\n".join(lines)
