"""What every kind of kernel answers; kernel/kinds lists them.

In: a Problem, which is a Program on a Device, and Mappings of it. Out: Mappings, reasons, profiles,
TIR. A kind lives in its room; nobody outside asks which one it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Generic, TypeVar

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.analysis.profile import Profile, rows_profile
from tvm_stitch.kernel.analysis.why import why_rows
from tvm_stitch.kernel.codegen.footprint import Footprint
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES, Place
from tvm_stitch.kernel.ir.mapping import MAX_BLOCK_THREADS, WARP, Mapping
from tvm_stitch.kernel.ir.phases import Phases
from tvm_stitch.kernel.ir.placing import make_program
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.stages.stage import Expr, Refused, Stage, Var, constant, dtype_of

SUPPORTED = ("float32", "float16", "bfloat16", "bool", "int8", "uint8", "int32", "int64")
RESIDENCES = ("register", "shared", "nowhere")
MAX_STEPS = 1 << 20
# Loops over a thread's own elements are written out by the CUDA compiler: more than this takes it
# minutes, and no register file holds them.
MAX_ELEMENTS = 256

# Of the axes that a tuner searches along: the value of each by its name, and those it may have.
Values = dict[str, Any]
Axes = dict[str, tuple[object, ...]]
POWERS = tuple(1 << n for n in range(11))

P = TypeVar("P", bound=Program, covariant=True)

# An extent that only run time knows, the most that it may be, and the message where it is more.
Limit = tuple[Expr, int, str]

# What a part of a kernel may have beside it: nothing, other parts, other rounds of a grid.
ALONE, BESIDE, IN_ROUNDS = "alone", "beside", "in rounds"


@dataclass(frozen=True)
class Context:
    """Where in a kernel a program is, and threads of the blocks of all parts; 0: any number."""

    place: str = ALONE
    threads: int = 0


KERNEL_OF_ITS_OWN = Context()


@dataclass(frozen=True, eq=False)
class Problem(Generic[P]):
    """A program on a device, in a kernel."""

    program: P
    device: Device
    columns: int  # of a row, at most; 0: as many as it likes
    others_follow: bool = False  # a kernel of another schedule takes the rows that are too long
    schemes: tuple[str, ...] = ()
    context: Context = KERNEL_OF_ITS_OWN

    @property
    def is_open(self) -> bool:
        """Whether rows are of a length that is known at run time."""
        return constant(self.program.space.columns) is None


@dataclass(frozen=True)
class Search:
    """The axes along which a tuner searches mappings; of none, where nothing is searched alone."""

    axes: Callable[[Any], Axes] = lambda _program: {}
    # The mapping that values make, perhaps not legal; None where others say the same.
    fitted: Callable[[Problem[Any], Values], Mapping | None] = lambda _problem, _values: None
    values: Callable[[Any], Values] = vars  # of a mapping
    # The first value changes nothing; others make nothing legal that was not.
    extras: Axes = field(default_factory=dict)
    flags: tuple[str, ...] = ()  # each yes or no; all sets of them are tried of what is legal
    # Fields in which parts of a kernel in rounds are searched, whose parts share all values.
    in_rounds: tuple[str, ...] = ()
    # A mapping of these in blocks of so many threads.
    resized: Callable[[Any, Any, int], Any] = lambda _program, mapping, _threads: mapping

    def values_of(self, program: Program, mapping: Mapping) -> Values:
        """The values of the axes that make a mapping."""
        own = self.values(mapping)
        names = (*self.axes(program), *self.extras, *self.flags)
        return {name: own.get(name, 0) for name in names}


def unsupported(program: Program) -> Refused | None:
    """Types of which nothing is computed."""
    for buffer in (*program.inputs, *program.outputs, *program.producer):
        if dtype_of(buffer) not in SUPPORTED:
            return Refused(f"{buffer.name} has dtype {dtype_of(buffer)}")
    for stage in program.stages:
        logical = stage.is_reduction and stage.combiner in ("any", "all")
        if logical and dtype_of(stage.output) != "bool":
            return Refused(f"{stage.name} combines {dtype_of(stage.output)} logically")
    return None


@dataclass(frozen=True, eq=False)
class Made:
    """What kinds that kernel/kinds lists last have made of stages that no kind claims."""

    stages: tuple[Stage, ...]
    program: Program | Refused
    is_supported: bool  # by the kind of the program


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of kernel: answers about its programs, and about mappings of them."""

    mappings: tuple[type[Mapping], ...]
    # Of stages and the buffers that must be written: a program, mostly of this kind.
    program: Callable[[tuple[Stage, ...], tuple[Var, ...]], Program | Refused] = make_program
    # Whether no other kind can hold a stage: what this kind makes of it and others is final.
    claims: Callable[[Stage], bool] = lambda _stage: False
    # Whether its program is wanted instead, if some kind supports it.
    is_wanted: Callable[[Made], bool] = lambda _made: False
    # Whether a program is of this kind, if it is of none that kernel/kinds lists before.
    holds: Callable[[Program], bool]
    # What no mapping can make a stitched kernel of.
    unsupported: Callable[[Any], Refused | None]
    # Mappings for the problem's context, the best first: the first that is legal is taken. What is
    # legal they need not ask.
    candidates: Callable[[Problem[Any]], Iterable[Any]]
    places: tuple[str, ...] = (ALONE,)  # where in kernels its programs may be
    # Why a mapping would not work, whoever made it.
    illegal: Callable[[Problem[Any], Any], Iterator[str]]
    search: Search
    phases: Callable[[Any, Any], Phases] = phases_of  # what is done up to each reduction
    footprint: Callable[[Any, Any], Footprint]  # what a block takes of a multiprocessor
    profile: Callable[..., Profile] = rows_profile  # what it asks of a device
    # The buffer of device memory that its blocks share, if they do.
    workspace: Callable[[Any, Any], Var | None] = lambda _program, _mapping: None
    emit: Callable[[Any, Any, Place], Expr]  # writes its statements; the number of its blocks
    why: Callable[[Any, Any], str] = why_rows  # what it rests on, in words
    has_rows: bool = True
    limits: Callable[[Any], Iterable[Limit]] = lambda _program: ()  # what the host refuses
    # Whether partials of so many rows of so many columns, summed up in the next round of a grid,
    # are better than rows as they are; None: only run time knows.
    wants_rounds: Callable[[Any, int | None, int | None], bool] = lambda *_: False

    def takes(self, mapping: Mapping) -> bool:
        """Whether a mapping is of this kind."""
        return isinstance(mapping, self.mappings)

    def refusal(self, problem: Problem[Any], mapping: Mapping) -> Refused | None:
        """The first rule that a mapping breaks."""
        return self._impossible(problem) or self._broken(problem, mapping)

    def choose(self, problem: Problem[Any]) -> Mapping | Refused:
        """The first of the candidates that is legal; or why the last one is not."""
        refused = self._impossible(problem)
        if refused is not None:
            return refused
        for mapping in self.candidates(problem):
            refused = self._broken(problem, mapping)
            if refused is None:
                chosen: Mapping = mapping
                return chosen
        assert refused is not None, "a kind has a candidate for every program that it holds"
        return refused

    def _impossible(self, problem: Problem[Any]) -> Refused | None:
        """What no mapping can help."""
        if problem.context.place not in self.places:
            names = " or ".join(each.kind for each in self.mappings)
            return Refused(f"a {names} part fills a kernel of its own")
        return self.unsupported(problem.program)

    def _broken(self, problem: Problem[Any], mapping: Mapping) -> Refused | None:
        """The first rule that a mapping of a supported program breaks."""
        if not self.takes(mapping):
            names = " or ".join(each.kind for each in self.mappings)
            return Refused(f"a {mapping.kind} mapping of a {names} part")
        rules = (
            _numbers(mapping),
            _shared(problem.context, mapping),
            self.illegal(problem, mapping),
        )
        reason = next(chain.from_iterable(rules), None)
        return None if reason is None else Refused(reason)


def _shared(context: Context, mapping: Mapping) -> Iterator[str]:
    """Why parts cannot share blocks, or a grid."""
    if context.place != ALONE and (mapping.cluster > 1 or mapping.blocks):
        yield f"a part of the {mapping.scheme} scheme fills a kernel of its own"
    if context.threads not in (0, mapping.block_threads):
        yield "its parts have blocks of different sizes"


def _numbers(mapping: Mapping) -> Iterator[str]:
    """What holds of every mapping, whatever it computes."""
    if mapping.residence not in RESIDENCES:
        yield f"values that wait in {mapping.residence}"
    for name in Mapping.powers:
        value = getattr(mapping, name)
        if value < 1 or (name in mapping.powers and value & (value - 1)):
            yield f"{name} of {value}, which is no power of two"
    if not WARP <= mapping.block_threads <= MAX_BLOCK_THREADS:
        yield f"blocks of {mapping.block_threads} threads"
    if mapping.vector > ACCESS_BYTES:
        yield f"vectors of {mapping.vector} elements"
    if not 0 <= mapping.steps <= MAX_STEPS:
        yield f"{mapping.steps} steps"
    if not 0 <= mapping.unroll <= MAX_ELEMENTS:
        yield f"{mapping.unroll} steps at once"
    if not 0 <= mapping.idle < mapping.threads:
        yield f"{mapping.idle} idle threads of {mapping.threads}"
    blocks, resident = mapping.blocks, mapping.min_blocks_per_sm
    if min(blocks, resident) < 0 or blocks > 0 == resident:
        yield f"{blocks} blocks in a grid-stride loop, {resident} a multiprocessor"
    if mapping.asynchronous and mapping.residence != "shared":
        yield "asynchronous copies of what does not wait in shared memory"
    if mapping.prefetch_next_row and not (mapping.blocks or mapping.chunked):
        yield "the next iteration's row loaded ahead, where there are no iterations"
