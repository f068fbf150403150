"""What is known of one model under one system, and all of it as a file."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from bench.results import write_json

VERSION = 1
INFERENCE, TRAINING, DYNAMIC, AUTOCAST = "inference", "training", "dynamic", "autocast"
KINDS = (INFERENCE, TRAINING, DYNAMIC, AUTOCAST)
# What an error may be of eager's own, and what roundings alone may come to. Losses differ more:
# compiled, AdamW takes powers of its betas in float32, where eager may have Python's numbers.
ALLOWED = 1.5
OF_STEPS = ("gradients_error", "update_error", "state_error")
LEAST_ERROR = {INFERENCE: 3e-7, DYNAMIC: 3e-7, TRAINING: 1e-5, AUTOCAST: 1e-5}


@dataclass
class Row:
    """One model in one element type, tried one way under one system."""

    model: str
    dtype: str
    kind: str
    system: str
    status: str = "failed"  # or "ok"
    detail: str = ""
    # Against float64: the largest of any element, relative to |reference| + RMS(reference), and
    # the norm of the difference over that of the reference. Of training: of the losses.
    error: float | None = None
    rms_error: float | None = None
    # Of training, the largest of several steps, each from what it finds: gradients, the mean over
    # tensors; the change of the parameters and the optimizer's state, by the gradients that it has.
    gradients_error: float | None = None
    update_error: float | None = None
    state_error: float | None = None
    # The errors of the losses from several starts, of which rms_error is the median.
    starts: list[float] = field(default_factory=list)
    graphs: int = 0  # that dynamo gave to the compiler
    breaks: int = 0
    recompiled: int = 0  # for sizes that came later
    first_s: float | None = None
    second_s: float | None = None  # the first call in a second process
    us: float | None = None
    us_q1: float | None = None
    us_q3: float | None = None
    kernels: int | None = None
    copies: int | None = None
    wall_us: float | None = None
    host_us: float | None = None
    peak_mb: float | None = None
    parts: list[list[Any]] = field(default_factory=list)  # kernels: name, launches, microseconds
    losses: list[float] = field(default_factory=list)
    stitched: int = 0  # parts of ours
    failures: list[str] = field(default_factory=list)  # parts that run as PyTorch's operators
    left: dict[str, int] = field(default_factory=dict)  # calls of operators that are PyTorch's
    notes: list[str] = field(default_factory=list)

    @property
    def key(self) -> tuple[str, str, str]:
        """What it shares with other systems."""
        return self.model, self.dtype, self.kind


@dataclass
class Results:
    """A run."""

    run: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, Any] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def add(self, row: Row) -> None:
        """A row takes the place of an older one."""
        self.rows = [each for each in self.rows if (each.key, each.system) != (row.key, row.system)]
        self.rows.append(row)

    def row(self, key: tuple[str, str, str], system: str) -> Row | None:
        """That row, if there is one."""
        return next((r for r in self.rows if (r.key, r.system) == (key, system)), None)

    def save(self, path: Path) -> None:
        """As JSON, whole or not at all."""
        write_json(path, {"version": VERSION, **asdict(self)})

    @staticmethod
    def load(path: Path) -> Results:
        """What save wrote."""
        found = json.loads(path.read_text(encoding="utf-8"))
        rows = [Row(**row) for row in found["rows"]]
        return Results(found["run"], found["machine"], rows)


def judged(row: Row, eager: Row | None) -> str:
    """ "ok", "wrong" where its error is beyond what eager's allows, or "failed"."""
    if row.status != "ok" or eager is None or eager.rms_error is None or row.rms_error is None:
        return row.status
    # Losses may be as far off as eager's from a start that differs in the last bits.
    least = max(LEAST_ERROR[row.kind], *eager.starts, 0.0)
    if row.rms_error > max(ALLOWED * eager.rms_error, least):
        return "wrong"
    found = [(getattr(row, name), getattr(eager, name)) for name in OF_STEPS]
    least = LEAST_ERROR[row.kind]
    fine = [ours <= max(ALLOWED * (base or 0.0), least) for ours, base in found if ours is not None]
    return "ok" if all(fine) else "wrong"
