"""What a report says, as plain data: the kernels of a module before and after stitching.

In: what explain found. Out: data for the renderers. Must not know TVM, nor how it is shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from tvm_stitch.kernel.ir.mapping import LIBRARY
from tvm_stitch.plan.plan import Cut, Fallback, Measured, Solved
from tvm_stitch.plan.saved import SavedPlan

DEFAULT = "default"  # the scheme of kernels that went TVM's default way
TVMS_PIPELINE = "TVM's own pipeline"  # what `before` is made by, as the log names it


@dataclass(frozen=True)
class Stage:
    """One operator of a kernel, after compound ones were written out."""

    operator: str
    type: str = ""  # of its result: "float32[128, 1024]"; empty if not known
    reads: tuple[int, ...] = ()  # the stages of the same kernel whose results it takes
    scheme: str = ""  # where its result flows, if it is reduced or kept
    sources: tuple[int, ...] = ()  # places in Findings.sources: one for each equal group


@dataclass(frozen=True)
class Kernel:
    """One CUDA kernel of the compiled module.

    Figures of symbolic shapes are for the sizes that `sizes` names, `formula` is bytes_min for any.
    """

    name: str  # as in the CUDA source and in profilers
    ops: tuple[str, ...]  # the operators it computes, after compound ones were written out
    scheme: str  # the widest it uses; "library", or "default" if TVM's own kernel
    mapping: str  # how its work is laid out on threads and blocks
    bytes_min: int  # each input read once, each output written once
    bytes_planned: int | None  # what this kernel reads and writes; None if it is not stitched
    floor_us: float  # moving bytes_min at the bandwidth of a large copy
    predicted_us: float | None  # what the planner expects; None if it is not stitched
    why: str  # one sentence: what the scheme rests on, or why it is not stitched
    launches: int = 1  # calls of it in the module
    schemes: Mapping[str, str] = field(default_factory=dict)  # by reduction or kept value
    # Of the mapping: "chosen" by rule, "tuned" by a record, or "tuned for" another shape.
    origin: str = ""
    together: str = ""  # one sentence: why these operators are fused; empty if not planned
    launches_saved: int = 0  # against a kernel for every operator
    bytes_saved: int = 0  # that those would write and read again
    formula: str = ""
    sizes: str = ""  # such as "n = 256"; empty where shapes are known
    stages: tuple[Stage, ...] = ()  # the same operators, with what is known of each
    operations: float | None = None  # of arithmetic, as TVM counts them in its TIR

    @property
    def stitched(self) -> bool:
        """Whether tvm_stitch emitted it."""
        return self.scheme not in (DEFAULT, LIBRARY)

    @property
    def by_library(self) -> bool:
        """Whether NVIDIA's libraries have it; the plan weighed it against a stitched one."""
        return self.scheme == LIBRARY


@dataclass(frozen=True)
class Source:
    """An operator of the module as it came, from which stages come."""

    text: str  # "lv1 = nn.softmax(lv)"
    place: str = ""  # "model.py:31", if the frontend said so
    line: str = ""  # what stands there: "x = self.encoder(x)"
    module: str = ""  # the part of a PyTorch model that was called: "encoder.layers.0.self_attn"


@dataclass(frozen=True)
class Edge:
    """Values that one launch writes to memory and a later one reads."""

    writer: int  # places in Flow.launches
    reader: int
    values: tuple[str, ...]
    bytes: int | None  # where shapes are symbolic, for the sizes that kernels name; None: unknown
    reason: str = ""  # why the two are not one kernel, and what that would cost; empty if unknown


@dataclass(frozen=True)
class Passed:
    """All values that launches of one kernel pass to those of another for the same reason."""

    writer: int  # places in Findings.kernels
    reader: int
    values: tuple[str, ...]  # the same name once
    bytes: int | None  # of all edges; None: not known of any
    reason: str
    count: int  # edges


@dataclass(frozen=True)
class Repeat:
    """A stretch of launches that occurs several times on end, or (once) a section of a long list.

    It covers `count * period` launches from `start` on; `items` are those of the first time.
    """

    start: int
    period: int
    count: int
    items: tuple[int | Repeat, ...]


@dataclass(frozen=True)
class Flow:
    """The launches of a module in order, and what flows between them through memory."""

    launches: tuple[int, ...] = ()  # places in Findings.kernels
    edges: tuple[Edge, ...] = ()
    folded: tuple[int | Repeat, ...] = ()  # the launches, repeated stretches of them once

    @property
    def passed(self) -> tuple[Passed, ...]:
        """The edges by kernels and reason, the most bytes first."""
        found: dict[tuple[int, int, str], list[Edge]] = {}
        for edge in self.edges:
            key = self.launches[edge.writer], self.launches[edge.reader], edge.reason
            found.setdefault(key, []).append(edge)
        summed = (_passed(*key, edges) for key, edges in found.items())
        return tuple(sorted(summed, key=lambda each: -(each.bytes or 0)))


def _passed(writer: int, reader: int, reason: str, edges: Sequence[Edge]) -> Passed:
    known = [edge.bytes for edge in edges if edge.bytes is not None]
    values = tuple(dict.fromkeys(value for edge in edges for value in edge.values))
    return Passed(writer, reader, values, sum(known) if known else None, reason, len(edges))


@dataclass(frozen=True)
class PassTime:
    """The time of a pass without that of passes within it, all its runs in a stage together."""

    name: str
    stage: str  # of the build, as its log names them
    seconds: float
    runs: int


@dataclass(frozen=True)
class Limits:
    """What the device can do at most, for the roofline."""

    bandwidth: float  # bytes a second, of a large copy
    float32: float  # operations a second outside of tensor cores
    tensor: float = 0.0  # operations a second of tensor cores, on float16


@dataclass(frozen=True)
class Code:
    """What a kernel became."""

    tir: str
    cuda: str


def _no_code() -> Mapping[str, Code]:
    return {}


@dataclass(frozen=True)
class Before:
    """The same module after TVM's default pipeline."""

    kernels: int | None  # distinct kernels that the module calls; None if TVM refuses the module
    launches: int | None
    failure: str = ""  # what TVM said
    described: tuple[Kernel, ...] = ()  # these kernels
    flow: Flow = Flow()  # and what is between them
    seconds: float = field(default=0.0, compare=False)  # that finding this out took


def _not_asked() -> Before:
    return Before(None, None)


@dataclass(frozen=True)
class Findings:
    """A module's kernels before and after stitching."""

    target: str  # the architecture
    device: str  # the GPU whose figures plans were compared by
    kernels: tuple[Kernel, ...]  # all of the compiled module, TVM's own too
    fallbacks: tuple[Fallback, ...]  # operators that went TVM's way, and why
    for_library: tuple[Fallback, ...] = ()  # what a library would take, and why it does not
    cuts: tuple[Cut, ...] = ()  # values that go from one kernel to another through memory, and why
    plans: tuple[Solved, ...] = ()  # how good the plan of each dataflow block is
    measured: tuple[Measured, ...] = ()  # regions that were timed both ways
    # To save, to compare, to pin with Options(plan=...).
    plan: SavedPlan = field(default_factory=lambda: SavedPlan(()))
    flow: Flow = Flow()  # the launches in order, and what flows between them
    sources: tuple[Source, ...] = ()  # the operators as they came
    # Where explain's time went, the slowest first; it differs from one time to the next.
    passes: tuple[PassTime, ...] = field(default=(), compare=False)
    limits: Limits = Limits(0.0, 0.0)  # of the device
    versions: str = ""  # of this package and of TVM
    # By kernel; it takes TVM's lowering, and so it is made when somebody asks.
    code: Callable[[], Mapping[str, Code]] = field(default=_no_code, repr=False, compare=False)
    # Runs TVM's default pipeline on the module; `before` is what it finds.
    by_default: Callable[[], Before] = field(default=_not_asked, repr=False, compare=False)

    @property
    def before(self) -> Before:
        """The kernels of TVM's default pipeline, which runs when this is first asked for."""
        return self.by_default()

    @property
    def times(self) -> tuple[PassTime, ...]:
        """Where time went, the most first, with that of `before`."""
        seconds = self.before.seconds
        own = [PassTime(TVMS_PIPELINE, TVMS_PIPELINE, seconds, 1)] if seconds else []
        return tuple(sorted([*self.passes, *own], key=lambda each: -each.seconds))

    @property
    def launches(self) -> int:
        """Kernel launches in the stitched module."""
        return sum(kernel.launches for kernel in self.kernels)
