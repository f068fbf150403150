"""The results of a run: rows, cases and the machine, as one JSON file that grows as they come.

In: what the workers report. Out: a file that is complete JSON at any moment, and the questions
that tables, plots and comparisons ask of it.
"""

from __future__ import annotations

import json
import os
import re
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

FORMAT = 1

# Kernels of matrix products and convolutions, as cuBLAS, cuDNN, CUTLASS, Triton, XLA and TVM call
# them; the rest of a model's kernels is what stitching works on.
MATRIX = re.compile(
    r"gemm|gemv|xmma|nvjet|cutlass|cudnn|conv(?!ert)|wgrad|dgrad|matmul|triton_.*_mm|(?<!re)dot(?!s)",
    re.IGNORECASE,
)


class ResultsError(Exception):
    """A results file that cannot be read or does not fit the request."""


@dataclass
class CaseInfo:
    """What is known of a case apart from any system."""

    title: str
    group: str
    suite: str
    bytes: int
    flops: float
    copy_us: float | None = None
    grid: list[Any] | None = None


@dataclass
class Row:
    """One system on one case. status: "ok", "wrong", "failed" or "skipped"; times only if "ok"."""

    case: str
    system: str
    status: str
    detail: str = ""
    us: float | None = None
    us_q1: float | None = None
    us_q3: float | None = None
    kernels: int | None = None
    copies: int | None = None
    wall_us: float | None = None
    graph_us: float | None = None
    compile_s: float | None = None
    error: float | None = None
    dram_bytes: float | None = None
    # Kernels by name: [name, launches a call, microseconds a call].
    parts: list[list[Any]] = field(default_factory=list)

    @property
    def matrix_us(self) -> float:
        """Time in matrix products and convolutions."""
        return sum(us for name, _, us in self.parts if MATRIX.search(name))


@dataclass
class Results:
    """A run: about the run, the machine, cases by name, rows in the order they came."""

    run: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    cases: dict[str, CaseInfo] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """Add a row, in place of an older one of the same case and system."""
        self.rows = [r for r in self.rows if (r.case, r.system) != (row.case, row.system)]
        self.rows.append(row)

    def row(self, case: str, system: str) -> Row | None:
        """That system's row for that case."""
        return next((r for r in self.rows if (r.case, r.system) == (case, system)), None)

    def us(self, case: str, system: str) -> float | None:
        """The time of a right result; None for anything else."""
        row = self.row(case, system)
        return row.us if row is not None and row.status == "ok" else None

    def systems(self) -> list[str]:
        """Systems with a row, in the order of first appearance, tvm_stitch last."""
        names = list(dict.fromkeys(r.system for r in self.rows))
        return sorted(names, key=lambda name: name.startswith("stitch"))

    def floor_us(self, case: str) -> float | None:
        """The case's bytes over the copy bandwidth of this run."""
        rate = self.machine.get("copy_gbs")
        return self.cases[case].bytes / (rate * 1e3) if rate else None

    def limit_us(self, case: str) -> float | None:
        """What a plain copy of the case's bytes cost in this run."""
        return self.cases[case].copy_us

    def best_peer(self, case: str) -> tuple[str, float] | None:
        """The fastest system other than tvm_stitch, and its time."""
        times = [
            (name, us)
            for name in self.systems()
            if not name.startswith("stitch") and (us := self.us(case, name)) is not None
        ]
        return min(times, key=lambda pair: pair[1], default=None)

    def save(self, path: str | Path) -> None:
        """Write the file in one step, so that an interruption never leaves half of one."""
        write_json(Path(path), self._data())

    def as_json(self) -> str:
        """What the file holds."""
        return json.dumps(self._data(), indent=1, ensure_ascii=False)

    def _data(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "run": self.run,
            "machine": self.machine,
            "missing": self.missing,
            "cases": {name: asdict(info) for name, info in self.cases.items()},
            "rows": [asdict(row) for row in self.rows],
        }

    @classmethod
    def load(cls, path: str | Path) -> Results:
        """Read a results file; fields that a later version added are left out."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as error:
            raise ResultsError(f"{path}: {error.strerror or error}") from None
        except ValueError as error:
            raise ResultsError(f"{path} is no JSON: {error}") from None
        if not isinstance(data, dict) or data.get("format") != FORMAT:
            raise ResultsError(f"{path} is no results file of format {FORMAT}")
        return cls(
            run=data["run"],
            machine=data["machine"],
            missing=data.get("missing", {}),
            cases={name: _known(CaseInfo, info) for name, info in data["cases"].items()},
            rows=[_known(Row, row) for row in data["rows"]],
        )


def write_json(path: Path, data: Any) -> None:
    """The file whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".new")
    beside.write_text(json.dumps(data, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(beside, path)


def row_from(data: dict[str, Any]) -> Row:
    """A row as a worker sent it."""
    return _known(Row, data)


def case_info_from(data: dict[str, Any]) -> CaseInfo:
    """A case's figures as a worker sent them."""
    return _known(CaseInfo, data)


def _known(kind: Any, data: dict[str, Any]) -> Any:
    names = {f.name for f in fields(kind)}
    return kind(**{name: value for name, value in data.items() if name in names})
