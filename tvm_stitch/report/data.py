"""What a report says, as plain data: the kernels of a module before and after stitching.

In: what explain found. Out: data for the renderers. Must not know TVM, nor how it is shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tvm_stitch.plan.plan import Cut, Fallback, Measured, Solved
from tvm_stitch.plan.saved import SavedPlan

DEFAULT = "default"  # the scheme of kernels that went TVM's default way


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
class Findings:
    """A module's kernels before and after stitching."""

    target: str
    device: str
    before: Before
    kernels: tuple[Kernel, ...]
    fallbacks: tuple[Fallback, ...]
    cuts: tuple[Cut, ...] = ()  # values that go from one kernel to another through memory, and why
    plans: tuple[Solved, ...] = ()  # how good the plan of each dataflow block is
    measured: tuple[Measured, ...] = ()  # regions that were timed both ways
    # Where explain's time went, by stage; it differs from one time to the next.
    seconds: tuple[tuple[str, float], ...] = field(default=(), compare=False)
    # To save, to compare, to pin with Options(plan=...).
    plan: SavedPlan = field(default_factory=lambda: SavedPlan(()))

    @property
    def launches(self) -> int:
        """Kernel launches in the stitched module."""
        return sum(kernel.launches for kernel in self.kernels)
