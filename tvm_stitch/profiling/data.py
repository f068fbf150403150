"""What a profile says, as plain data: what the kernels of a model took, and what was expected.

In: what a source took, joined with a report. Out: data for the renderers. Must not know how
anything is measured, nor how it is shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tvm_stitch.report import Report


@dataclass(frozen=True)
class Event:
    """One kernel, copy or fill on the device, or one kernel that the executor ran."""

    name: str
    start_us: float  # since the first of its run
    us: float | None  # None: it was counted, not timed
    accesses: int | None = None  # to global and shared memory, by all threads
    switches: int | None = None  # of threads that waited: at barriers, in shuffles
    library: str = ""  # what a library calls its kernels, where the name is that of its entry
    global_bytes: int | None = None  # read and written in global memory, by all threads
    barriers: int | None = None  # of blocks, clusters and the grid, counted by each block


@dataclass(frozen=True)
class Run:
    """One call of the model."""

    events: tuple[Event, ...]


@dataclass(frozen=True)
class MeasuredKernel:
    """A kernel of the model: measured or counted, and expected."""

    name: str
    launches: int  # in a call
    measured_us: float | None  # of a launch, the median of all
    total_us: float | None  # of all launches of a call
    predicted_us: float | None
    floor_us: float | None
    bytes_min: int | None
    scheme: str  # empty for what is no kernel of the module: a library's, a copy
    accesses: int | None = None  # of a launch
    switches: int | None = None
    library: str = ""  # what NVIDIA's library calls the kernels that it launched
    global_bytes: int | None = None  # of a launch, as `accesses`
    barriers: int | None = None
    operations: float | None = None  # of arithmetic in a launch, by TVM's count in its TIR

    @property
    def copy_share(self) -> float | None:
        """The bandwidth that it reaches, of that of a large copy of the same bytes."""
        if not self.measured_us or self.floor_us is None:
            return None
        return self.floor_us / self.measured_us


@dataclass(frozen=True)
class Figures:
    """Calls of a model, kernel by kernel."""

    how: str  # "CUPTI (torch.profiler)", "CUDA events", "CPU executor"
    device: str
    calls: int
    kernels: tuple[MeasuredKernel, ...]
    launches: tuple[Event, ...]  # of the median call, in order
    total_us: float | None  # on the device, a call
    gaps_us: float | None  # between its launches
    host_us: float | None  # from the call until the device is done, while nothing measures
    not_run: tuple[str, ...] = ()  # kernels that the executor left to LLVM, and why
    report: Report | None = field(default=None, repr=False, compare=False)

    @property
    def measured(self) -> bool:
        """Whether there are times, and not counts alone."""
        return self.total_us is not None
