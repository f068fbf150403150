"""What calibration measures: one Sample for every kernel, a file of them, JSON both ways."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

VERSION = 2
CASE = "case:"  # before the names of the bench's cases, where graphs are named


@dataclass(frozen=True)
class Sample:
    """One kernel: what it is, what the cost model knows of it, and how long it took."""

    graph: str  # "softmax-3", or "case:" and the name of a case of the bench
    function: str
    schedule: dict[str, Any] | None  # None for TVM's own kernels
    chosen: bool  # whether tvm_stitch would have taken this schedule
    work: Any  # the cost model's features
    us: float | None  # median of the repeats; None where nothing was measured
    us_q1: float | None = None
    us_q3: float | None = None

    @property
    def key(self) -> tuple[str, str, str]:
        """Names the kernel within a file."""
        return self.graph, self.function, json.dumps(self.schedule, sort_keys=True)


@dataclass
class Samples:
    """All kernels of a run."""

    machine: dict[str, Any] = field(default_factory=dict)
    kernels: list[Sample] = field(default_factory=list)
    failures: list[dict[str, str]] = field(default_factory=list)  # graph, kernel, reason

    def save(self, path: Path) -> None:
        """Write the file; one kernel a line, so that versions can be compared."""
        head = {"version": VERSION, "machine": self.machine, "failures": self.failures}
        lines = [json.dumps(asdict(kernel), separators=(",", ":")) for kernel in self.kernels]
        text = json.dumps(head)[:-1] + ', "kernels": [\n' + ",\n".join(lines) + "\n]}\n"
        draft = path.with_suffix(".part")
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)

    @staticmethod
    def load(path: Path) -> Samples:
        """Read what save wrote."""
        data = json.loads(path.read_text(encoding="utf-8"))
        if data.get("version") != VERSION:
            raise ValueError(f"{path} is of version {data.get('version')}, expected {VERSION}")
        kernels = [Sample(**kernel) for kernel in data["kernels"]]
        return Samples(data["machine"], kernels, data["failures"])
