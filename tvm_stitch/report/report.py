"""The report: plain data, with a text for people and JSON for programs.

In: what explain found. Out: Report. Must not know TVM.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvm_stitch.report.data import Findings, Kernel
from tvm_stitch.report.html import page
from tvm_stitch.report.text import render

JSON_VERSION = 1


@dataclass(frozen=True)
class Report(Findings):
    """A module's kernels before and after stitching; `str()` is a text for people."""

    def __str__(self) -> str:
        return render(self)

    def to_json(self) -> dict[str, Any]:
        """The whole report as what json.dump writes: dicts, lists, strings, numbers, None."""
        return {
            "version": JSON_VERSION,
            "target": self.target,
            "device": self.device,
            "before": asdict(self.before),
            "launches": self.launches,
            "kernels": [_kernel_json(kernel) for kernel in self.kernels],
            "fallbacks": [asdict(fallback) for fallback in self.fallbacks],
            "cuts": [_lists(asdict(cut)) for cut in self.cuts],
            "measured": [_lists(asdict(each)) for each in self.measured],
            "seconds": dict(self.seconds),
            "plans": [{**asdict(plan), "gap": plan.gap} for plan in self.plans],
        }

    def to_html(self, path: str | Path) -> None:
        """Write the report as one HTML file with pictures, which needs nothing else."""
        Path(path).write_text(page(self), encoding="utf-8")


def _lists(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: list(v) if isinstance(v, tuple) else v for name, v in fields.items()}


def _kernel_json(kernel: Kernel) -> dict[str, Any]:
    return {**vars(kernel), "ops": list(kernel.ops), "schemes": dict(kernel.schemes)}
