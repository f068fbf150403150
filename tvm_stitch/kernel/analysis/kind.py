"""What every kind of kernel answers; kernel/kinds lists them.

In: a Problem, which is a Program on a Device, and Mappings of it. Out: Mappings, reasons, profiles,
TIR. A kind lives in its room; nobody outside asks which one it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar

import tvm

from tvm_stitch.device import Device
from tvm_stitch.kernel.analysis.addressing import weights
from tvm_stitch.kernel.analysis.keep_or_recompute import plan_residency
from tvm_stitch.kernel.analysis.profile import Profile, rows_profile
from tvm_stitch.kernel.codegen.tir_builder import ACCESS_BYTES, Place
from tvm_stitch.kernel.ir.mapping import MAX_BLOCK_THREADS, WARP, Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.stage import Expr, Refused, Var, constant, dtype_of

SUPPORTED = ("float32", "float16", "bfloat16", "bool", "int8", "uint8", "int32", "int64")
RESIDENCES = ("register", "shared", "nowhere")
MAX_STEPS = 1 << 20
# Loops over a thread's own elements are written out by the CUDA compiler: more than this takes it
# minutes, and no register file holds them.
MAX_ELEMENTS = 256
POWERS = tuple(1 << n for n in range(11))

Values = dict[str, Any]  # of the axes along which a tuner searches, by name
Axes = dict[str, tuple[object, ...]]
M = TypeVar("M", bound=Mapping)
P = TypeVar("P", bound=Program)


@dataclass(frozen=True, eq=False)
class Problem(Generic[P]):
    """A program on a device. Made once for many questions."""

    program: P
    device: Device
    columns: int  # of a row, at most; 0: as many as it likes
    others_follow: bool = False  # a kernel of another schedule takes the rows that are too long
    schemes: tuple[str, ...] = ()
    _aligned: dict[int, bool] = field(default_factory=dict, init=False)

    @property
    def is_open(self) -> bool:
        """Whether rows are of a length that is known at run time."""
        return constant(self.program.space.columns) is None

    def aligned(self, vector: int) -> bool:
        """Whether every row starts at a multiple of so many elements."""
        if vector not in self._aligned:
            space = self.program.space
            run = space.columns if space.whole else space.run
            modular, exact = tvm.sym.Analyzer().modular_set(run), constant(run)
            step, rest = (modular.coeff, modular.base) if exact is None else (0, exact)
            self._aligned[vector] = step % vector == 0 and rest % vector == 0
        return self._aligned[vector]

    @cached_property
    def recomputes(self) -> bool:
        """Whether anything can be computed again rather than kept."""
        return list(plan_residency(self.program).kept) != list(
            plan_residency(self.program, rematerialize=True).kept
        )

    @cached_property
    def has_weights(self) -> bool:
        """Whether vectors are read that are the same for all rows."""
        return weights(self.program) > 0


class Kind(Generic[P, M]):
    """A kind of kernel: its programs, and mappings of them."""

    mappings: tuple[type[Mapping], ...]
    has_rows = True
    # Yes or no, tried by a tuner where all else is legal: most programs have no use for most.
    flags: tuple[str, ...] = ()

    def holds(self, program: Program) -> bool:
        """Whether a program is of this kind, if it is of none that kernel/kinds lists before."""
        raise NotImplementedError

    def in_rounds_if_long(self, _program: P) -> bool:
        """Whether few long rows, or such in short pieces, had better be reduced in rounds."""
        return False

    def unsupported(self, program: P) -> Refused | None:
        """What no mapping can make a stitched kernel of."""
        for buffer in (*program.inputs, *program.outputs, *program.producer):
            if dtype_of(buffer) not in SUPPORTED:
                return Refused(f"{buffer.name} has dtype {dtype_of(buffer)}")
        for stage in program.stages:
            logical = stage.is_reduction and stage.combiner in ("any", "all")
            if logical and dtype_of(stage.output) != "bool":
                return Refused(f"{stage.name} combines {dtype_of(stage.output)} logically")
        return None

    def choose(self, problem: Problem[P]) -> M | Refused:
        """The mapping of a program in whatever kernel it is in."""
        raise NotImplementedError

    def alone(self, _problem: Problem[P], mapping: M) -> M:
        """The same of a program that has the device to itself."""
        return mapping

    def beside(self, _program: P, mapping: M, _threads: int) -> M | Refused:
        """The same in blocks of so many threads, beside other parts of a kernel."""
        return Refused(f"a part of the {mapping.scheme} scheme fills a kernel of its own")

    def illegal(self, problem: Problem[P], mapping: M) -> Iterator[str]:
        """Why a mapping that somebody else made would not work."""
        raise NotImplementedError

    def profile(self, program: P, mapping: M) -> Profile | None:
        """What it asks of a device."""
        return rows_profile(program, mapping)

    def workspace(self, _program: P, _mapping: M) -> Var | None:
        """The buffer of device memory that its blocks share, if they do."""
        return None

    def emit(self, program: P, mapping: M, place: Place) -> Expr:
        """Write its statements; the number of its blocks."""
        raise NotImplementedError

    def why(self, _program: P, _mapping: M) -> str:
        """What it rests on, in words, where phases and their reductions do not say."""
        return ""

    # For a tuner

    def axes(self, _program: P) -> Axes:
        """The values that are tried of each axis; what else a mapping says follows from them."""
        raise NotImplementedError

    def values(self, program: P, mapping: M) -> Values:
        """The values of the axes that make a mapping."""
        return {name: getattr(mapping, name) for name in (*self.axes(program), *self.flags)}

    def fitted(self, problem: Problem[P], values: Values) -> M | None:
        """The mapping that values make, perhaps not legal; None where others say the same."""
        raise NotImplementedError


def refusal(kind: Kind[Any, Any], problem: Problem[Any], mapping: Mapping) -> Refused | None:
    """The first rule that a mapping breaks."""
    refused = kind.unsupported(problem.program)
    if refused is not None:
        return refused
    if not isinstance(mapping, kind.mappings):
        names = " or ".join(each.kind for each in kind.mappings)
        return Refused(f"a {mapping.kind} mapping of a {names} part")
    reason = next(_numbers(mapping), None) or next(kind.illegal(problem, mapping), None)
    return None if reason is None else Refused(reason)


def _numbers(mapping: Mapping) -> Iterator[str]:
    """What holds of every mapping, whatever it computes."""
    if mapping.residence not in RESIDENCES:
        yield f"values that wait in {mapping.residence}"
    for name in ("threads", "rows", "vector", "cluster", "batch"):
        value = getattr(mapping, name)
        if value < 1 or value & (value - 1):
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
    if mapping.prefetch_next_row and not mapping.blocks:
        yield "the next turn's row loaded ahead, where there are no iterations"
