"""The report: plain data, with a text for people and JSON for programs.

In: what explain found. Out: Report. Must not know TVM.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvm_stitch.json_data import listed
from tvm_stitch.report.data import Findings
from tvm_stitch.report.html import page
from tvm_stitch.report.text import render

JSON_VERSION = 1


@dataclass(frozen=True)
class Report(Findings):
    """A module's kernels before and after stitching; `str()` is a text for people."""

    @staticmethod
    def of_nothing(device: str) -> Report:
        """A report where nothing was explained: of an executable that somebody profiles."""
        return Report("", device, (), ())

    def __str__(self) -> str:
        return render(self)

    def to_json(self) -> dict[str, Any]:
        """The whole report as what json.dump writes: dicts, lists, strings, numbers, None."""
        return {
            "version": JSON_VERSION,
            "versions": self.versions,
            "target": self.target,
            "device": self.device,
            "before": listed(asdict(self.before)),
            "launches": self.launches,
            "kernels": [listed(asdict(kernel)) for kernel in self.kernels],
            "fallbacks": [asdict(fallback) for fallback in self.fallbacks],
            "for_library": [asdict(each) for each in self.for_library],
            "cuts": [listed(asdict(cut)) for cut in self.cuts],
            "measured": [listed(asdict(each)) for each in self.measured],
            "plans": [{**asdict(plan), "gap": plan.gap} for plan in self.plans],
            "passed": [listed(asdict(each)) for each in self.flow.passed],
            "flow": listed(asdict(self.flow)),
            "sources": [asdict(source) for source in self.sources],
            "passes": [asdict(each) for each in self.times],
            "limits": asdict(self.limits),
        }

    def to_html(self, path: str | Path) -> None:
        """Write the report as one HTML page to look at, which needs no other file and no network.

        Makes the CUDA of every kernel, which takes TVM about as long as compiling for the host.
        """
        code = {name: asdict(each) for name, each in self.code().items()}
        Path(path).write_text(page(self.to_json(), code), encoding="utf-8")
