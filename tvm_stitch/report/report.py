"""The report: plain data, with a text for people and JSON for programs.

In: what explain found. Out: Report. Must not know TVM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from tvm_stitch.plan.plan import Cut, Fallback, Measured, Solved
from tvm_stitch.plan.saved import SavedPlan

DEFAULT = "default"  # the scheme of kernels that went TVM's default way
JSON_VERSION = 1


@dataclass(frozen=True)
class Kernel:
    """One CUDA kernel of the compiled module; None stands for what a symbolic shape leaves open."""

    name: str  # as in the CUDA source and in profilers
    ops: tuple[str, ...]  # the operators it computes, after compound ones were written out
    scheme: str  # the widest it uses; "default" if it is not stitched
    mapping: str  # how its work is laid out on threads and blocks
    bytes_min: int | None  # each input read once, each output written once
    bytes_planned: int | None  # what this kernel reads and writes; None if it is not stitched
    floor_us: float | None  # moving bytes_min at the bandwidth of a large copy
    predicted_us: float | None  # what the planner expects; None if it is not stitched
    why: str  # one sentence: what the scheme rests on, or why it is not stitched
    launches: int = 1  # calls of it in the module
    schemes: Mapping[str, str] = field(default_factory=dict)  # by reduction or kept value
    # Of the mapping: "chosen" by rule, "tuned" by a record, or "tuned for" another shape.
    origin: str = ""
    together: str = ""  # one sentence: why these operators share a kernel; empty if not planned
    launches_saved: int = 0  # against a kernel for every operator
    bytes_saved: int = 0  # that those would write and read again

    @property
    def stitched(self) -> bool:
        """Whether tvm_stitch emitted it."""
        return self.scheme != DEFAULT


@dataclass(frozen=True)
class Before:
    """The same module after TVM's default pipeline."""

    kernels: int | None  # distinct kernels that the module calls; None if TVM refuses the module
    launches: int | None
    failure: str = ""  # what TVM said


@dataclass(frozen=True)
class Report:
    """A module's kernels before and after stitching; `str()` is a text for people."""

    target: str
    device: str
    before: Before
    kernels: tuple[Kernel, ...]
    fallbacks: tuple[Fallback, ...]
    cuts: tuple[Cut, ...] = ()  # values that go from one kernel to another through memory, and why
    plans: tuple[Solved, ...] = ()  # how good the plan of each dataflow block is
    measured: tuple[Measured, ...] = ()  # regions that were timed both ways
    # To save, to compare, to pin with Options(plan=...).
    plan: SavedPlan = field(default_factory=lambda: SavedPlan(()))

    @property
    def launches(self) -> int:
        """Kernel launches in the stitched module."""
        return sum(kernel.launches for kernel in self.kernels)

    def __str__(self) -> str:
        from tvm_stitch.report.text import render

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
            "plans": [{**asdict(plan), "gap": plan.gap} for plan in self.plans],
        }

    def to_html(self, path: str | Path) -> None:
        """Write the report as one HTML file with pictures, which needs nothing else."""
        from tvm_stitch.report.html import page

        Path(path).write_text(page(self), encoding="utf-8")


def _lists(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: list(v) if isinstance(v, tuple) else v for name, v in fields.items()}


def _kernel_json(kernel: Kernel) -> dict[str, Any]:
    return {**vars(kernel), "ops": list(kernel.ops), "schemes": dict(kernel.schemes)}
