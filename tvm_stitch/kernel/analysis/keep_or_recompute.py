"""Which values cross from one phase of a kernel to the next, and which are computed again.

A reduction ends a phase: its result is known only when the whole row has been seen. In: a Program.
Out: a Residency: the phase in which every value is computed, and the values that are kept on the
chip in between. Must not know how many threads there are.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

import tvm
import tvm_ffi

from tvm_stitch.kernel.analysis.online_reduction import apply_online
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.memoized import memoized
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.kernel.ir.stage import Stage, Var, dtype_of, item_bytes

# Operations that cost about as much as keeping a value: more than this many are not repeated.
CHEAP_OPERATIONS = 4
_ARITHMETIC = ("Add", "Sub", "Mul", "Max", "Min", "Cast", "Select", "EQ", "NE", "LT", "LE", "GT")


@dataclass(frozen=True, eq=False)
class Residency:
    """Phases of a program's values; `kept` maps a value to its first and last phase."""

    phases: int
    available: dict[Var, int]  # first phase in which a computed value can be used
    needed: dict[Var, frozenset[int]]  # phases that compute or load a full value
    kept: dict[Var, tuple[int, int]]

    @property
    def live_bytes(self) -> int:
        """Bytes an element that wait between phases, at the worst boundary."""
        boundaries = range(self.phases - 1)
        return max((sum(self._waiting(boundary)) for boundary in boundaries), default=0)

    @property
    def kept_bytes(self) -> int:
        """Bytes an element of all kept values, were none to reuse another's place."""
        return sum(item_bytes(dtype_of(buffer)) for buffer in self.kept)

    def _waiting(self, boundary: int) -> list[int]:
        return [
            item_bytes(dtype_of(buffer))
            for buffer, (first, last) in self.kept.items()
            if first <= boundary < last
        ]


def residency_of(program: Program, mapping: Mapping) -> Residency:
    """What a mapping keeps."""
    return plan_residency(apply_online(program, mapping), mapping.recompute, mapping.residence)


def plan_residency(
    program: Program, rematerialize: bool = False, residence: str = "register"
) -> Residency:
    """Decide phases and kept values; `rematerialize` computes again whatever saves room.

    Nowhere means that every phase reads its inputs and computes all that it needs. In shared memory
    waits only what the first phase has at hand: a phase that reads and writes there would get a
    barrier from TVM for every element, which cannot be placed in a branch.
    """
    return _plan_residency(program, rematerialize, residence)


@memoized
def _plan_residency(program: Program, rematerialize: bool, residence: str) -> Residency:
    keep = residence != "nowhere"
    available = _available(program)
    wanted: dict[Var, set[int]] = defaultdict(set)
    needed: dict[Var, frozenset[int]] = {}
    kept: dict[Var, tuple[int, int]] = {}
    for stage in reversed(program.stages):
        buffer = stage.output
        if stage.is_reduction:
            phases = frozenset([available[buffer] - 1])
        elif program.is_full(buffer):
            if program.writes(buffer):
                wanted[buffer].add(available[buffer])
            late = residence == "shared" and min(wanted[buffer], default=0) > 0
            if keep and not late and _worth_keeping(program, stage, wanted, rematerialize):
                kept[buffer] = (min(wanted[buffer]), max(wanted[buffer]))
                phases = frozenset([min(wanted[buffer])])
            else:
                phases = frozenset(wanted[buffer])
            needed[buffer] = phases
        else:
            continue
        for read in stage.reads:
            if program.place(stage, read) is Where.SAME:
                wanted[read.buffer] |= phases
    for buffer in program.inputs:
        if not wanted[buffer]:
            continue
        keeps = keep and (residence != "shared" or min(wanted[buffer]) == 0)
        needed[buffer] = frozenset([min(wanted[buffer])] if keeps else wanted[buffer])
        if keeps and len(wanted[buffer]) > 1:
            kept[buffer] = (min(wanted[buffer]), max(wanted[buffer]))
    return Residency(_phases(program, available), available, needed, kept)


def _phases(program: Program, available: dict[Var, int]) -> int:
    """Reductions along a row make the next phase begin, those over the rows do not."""
    over_rows = {stage.output for stage in program.column_reductions}
    return max((available[b] + (b not in over_rows) for b in available), default=1)


def _available(program: Program) -> dict[Var, int]:
    """The first phase in which a value can be used; the columns' values come after all phases."""
    available: dict[Var, int] = {}
    for stage in program.stages:
        if stage.output in program.columnwise and not stage.is_reduction:
            continue
        ready = max((available.get(read.buffer, 0) for read in stage.reads), default=0)
        behind = stage.output in program.online_after or stage.output in program.variance_of
        ends = stage.is_reduction and not behind
        available[stage.output] = ready + 1 if ends else ready
    return available


def _worth_keeping(
    program: Program, stage: Stage, wanted: dict[Var, set[int]], rematerialize: bool
) -> bool:
    """Whether a value that several phases want is kept rather than computed again.

    Computing it again pays if that is cheap and what it is computed from is kept anyhow, or takes
    no more room: a cast from half precision is the common case.
    """
    phases = wanted[stage.output]
    if len(phases) < 2:
        return False
    sources = set()
    for read in stage.reads:
        where = program.place(stage, read)
        if where is Where.OTHER:
            return True
        if where is Where.SAME:
            sources.add(read.buffer)
    if _operations(stage) > CHEAP_OPERATIONS and not rematerialize:
        return True
    extra = [source for source in sources if not _waits_anyhow(wanted[source], phases)]
    extra_bytes = sum(item_bytes(dtype_of(source)) for source in extra)
    return extra_bytes > item_bytes(dtype_of(stage.output))


def _waits_anyhow(wanted: set[int], phases: set[int]) -> bool:
    return bool(wanted) and min(wanted) <= min(phases) and max(wanted) >= max(phases)


def _operations(stage: Stage) -> int:
    """Operations of an element-wise value; anything but plain arithmetic counts as many."""
    count = 0

    def visit(node: object) -> None:
        nonlocal count
        kind = type(node).__name__
        if kind in _ARITHMETIC:
            count += 1
        elif kind not in ("TensorLoad", "Var", "IntImm", "FloatImm", "Op", "PrimType", "Array"):
            count += CHEAP_OPERATIONS + 1

    tvm_ffi.structural_walk(stage.value, (tvm.ir.Expr, visit))
    return count
