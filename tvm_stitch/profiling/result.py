"""The profile: plain data, with a table for people and JSON, a page and a trace for programs.

In: what was measured, or counted. Out: Profile. Must not know how.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tvm_stitch.profiling.data import Figures
from tvm_stitch.profiling.text import render
from tvm_stitch.profiling.trace import chrome_trace
from tvm_stitch.report import Report
from tvm_stitch.report.html import page

JSON_VERSION = 1


@dataclass(frozen=True)
class Profile(Figures):
    """Calls of a model, kernel by kernel; `str()` is a table, what takes most on top."""

    def __str__(self) -> str:
        return render(self)

    def to_json(self) -> dict[str, Any]:
        """All of it, with the report, as what json.dump writes."""
        report = None if self.report is None else self.report.to_json()
        return {"version": JSON_VERSION, **self._figures(), "report": report}

    def to_html(self, path: str | Path) -> None:
        """Write the report's page, with what was measured in it."""
        report = self.report or Report.of_nothing(self.device)
        code = {name: asdict(each) for name, each in report.code().items()}
        text = page(report.to_json(), code, self._figures())
        Path(path).write_text(text, encoding="utf-8")

    def to_trace(self, path: str | Path) -> None:
        """Write the median call for chrome://tracing and ui.perfetto.dev."""
        Path(path).write_text(json.dumps(chrome_trace(self)) + "\n", encoding="utf-8")

    def _figures(self) -> Mapping[str, Any]:
        names = ("how", "device", "calls", "measured", "total_us", "gaps_us", "host_us")
        return {
            **{name: getattr(self, name) for name in names},
            "kernels": [{**asdict(each), "copy_share": each.copy_share} for each in self.kernels],
            "launches": [asdict(each) for each in self.launches],
            "not_run": list(self.not_run),
        }
