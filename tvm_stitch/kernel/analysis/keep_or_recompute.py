"""Which values cross from one phase of a kernel to the next, and which are computed again.

A reduction ends a phase: its result is known only when the whole row has been seen. In: a Program.
Out: its Phases, from which all others read what a phase loads, keeps and computes. Must not know
how many threads there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial

import tvm
from tvm import tirx

from tvm_stitch.kernel.analysis.online_reduction import apply_online
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.phases import Phase, Phases
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.stages.memoized import memoized, memoized_for_copies
from tvm_stitch.stages.stage import Stage, Var, element_bytes
from tvm_stitch.stages.visit import walked

# Operations that cost about as much as keeping a value: more than this many are not repeated.
CHEAP_OPERATIONS = 4
_ARITHMETIC = ("Add", "Sub", "Mul", "Max", "Min", "Cast", "Select", "EQ", "NE", "LT", "LE", "GT")


def phases_of(program: Program, mapping: Mapping) -> Phases:
    """The phases of a program by what a mapping keeps."""
    own = apply_online(program, mapping)
    planned = plan_phases(own, mapping.recompute, mapping.residence)
    return planned.asynchronous if mapping.asynchronous else planned


@memoized
def plan_phases(
    program: Program, rematerialize: bool = False, residence: str = "register"
) -> Phases:
    """Decide phases and kept values; `rematerialize` computes again whatever saves room.

    Nowhere means that every phase reads its inputs and computes all that it needs. In shared memory
    waits only what the first phase has at hand: a phase that reads and writes there would get a
    barrier from TVM for every element, which cannot be placed in a branch.
    """
    keep = residence != "nowhere"
    available = _available(program)
    wanted: dict[Var, set[int]] = defaultdict(set)
    needed: dict[Var, AbstractSet[int]] = {}
    kept: dict[Var, tuple[int, int]] = {}
    for stage in reversed(program.stages):
        buffer = stage.output
        if stage.is_reduction:
            needed[buffer] = {available[buffer] - 1}
        elif stage.scan:
            # Its threads exchange what they have kept: it can be computed but once.
            needed[buffer] = {available[buffer] - 1}
            kept[buffer] = (available[buffer] - 1, max(wanted[buffer]))
        elif program.is_full(buffer):
            if program.writes(buffer):
                wanted[buffer].add(available[buffer])
            late = residence == "shared" and min(wanted[buffer], default=0) > 0
            needed[buffer] = wanted[buffer]
            if keep and not late and _worth_keeping(program, stage, wanted, rematerialize):
                kept[buffer] = (min(wanted[buffer]), max(wanted[buffer]))
                needed[buffer] = {min(wanted[buffer])}
        else:
            continue
        for read in stage.reads:
            if program.place(stage, read) is Where.SAME:
                wanted[read.buffer] |= needed[buffer]
    for buffer in program.inputs:
        needed[buffer] = wanted[buffer]
        if wanted[buffer] and keep and (residence != "shared" or min(wanted[buffer]) == 0):
            needed[buffer] = {min(wanted[buffer])}
            if len(wanted[buffer]) > 1:
                kept[buffer] = (min(wanted[buffer]), max(wanted[buffer]))
    lowering = _Lowering(program, available, needed, kept)
    finish = [s for s in program.stages if s.output in program.columnwise and not s.is_reduction]
    return Phases(program, tuple(lowering.phases()), tuple(finish), kept)


@dataclass(frozen=True, eq=False)
class _Lowering:
    """What has been decided of a program, on its way into phases."""

    program: Program
    available: dict[Var, int]  # first phase in which a computed value can be used
    needed: dict[Var, AbstractSet[int]]  # phases that compute or load what has several elements
    kept: dict[Var, tuple[int, int]]

    def phases(self) -> Iterator[Phase]:
        """All of them, of which there is one at least."""
        # Reductions along a row make the next phase begin, those over the rows do not.
        over_rows = {stage.output for stage in self.program.column_reductions}
        ends = (number + (b not in over_rows) for b, number in self.available.items())
        yield from map(self._phase, range(max(ends, default=1)))

    def _phase(self, number: int) -> Phase:
        program = self.program
        computed = [s for s in program.stages if number in self.needed.get(s.output, ())]
        behind = [stage for stage in computed if stage.output in program.online_after]
        first, second = computed, list[Stage]()
        if behind:
            first = self._behind(computed, [s for s in computed if self._ends(s, behind, number)])
            second = self._behind(computed, behind)
        loads = [buffer for buffer in program.inputs if number in self.needed[buffer]]
        return Phase(
            number,
            of_row=tuple(s for s in program.stages if self._is_of_row(s, number)),
            stages=tuple(first),
            second_pass=tuple(second),
            reductions=tuple(stage for stage in computed if stage.is_reduction),
            scans=tuple(stage for stage in computed if stage.scan),
            loads=tuple(loads),
            again=tuple(buffer for buffer in loads if number > min(self.needed[buffer])),
            held=frozenset(
                read.buffer
                for stage in computed
                for read in stage.reads
                if self.kept.get(read.buffer, (number,))[0] < number
            ),
            keeps=tuple(buffer for buffer, (start, _) in self.kept.items() if start == number),
            stores=tuple(
                buffer
                for buffer in program.outputs
                if program.is_full(buffer) and self.available[buffer] == number
            ),
        )

    def _is_of_row(self, stage: Stage, number: int) -> bool:
        return (
            not stage.is_reduction
            and self.available.get(stage.output) == number
            and self.program.holds(stage.output) is Where.ROW
        )

    def _ends(self, stage: Stage, behind: list[Stage], number: int) -> bool:
        """Whether a phase computes a stage for its own sake, before those behind a maximum."""
        stored = self.program.writes(stage.output) and self.available[stage.output] == number
        return stage not in behind and (stage.is_reduction or stored)

    def _behind(self, computed: list[Stage], ends: Iterable[Stage]) -> list[Stage]:
        """What some stages need of those that a phase computes, in order."""
        wanted = {stage.output for stage in ends}
        for stage in reversed(computed):
            if stage.output in wanted:
                wanted |= {
                    r.buffer for r in stage.reads if self.program.place(stage, r) is Where.SAME
                }
        return [stage for stage in computed if stage.output in wanted]


def _available(program: Program) -> dict[Var, int]:
    """The first phase in which a value can be used; the columns' values come after all phases."""
    available: dict[Var, int] = {}
    for stage in program.stages:
        if stage.output in program.columnwise and not stage.is_reduction:
            continue
        ready = max((available.get(read.buffer, 0) for read in stage.reads), default=0)
        behind = stage.output in program.online_after or stage.output in program.variance_of
        ends = stage.scan or (stage.is_reduction and not behind)
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
    bytes_of = partial(_least_bytes, program) if rematerialize else element_bytes
    return sum(map(bytes_of, extra)) > element_bytes(stage.output)


def _least_bytes(program: Program, buffer: Var) -> int:
    """What must wait for a value to be had again: of a cast, what it is of."""
    stage = program.producer.get(buffer)
    if stage is None or not isinstance(stage.value, tirx.Cast) or len(stage.reads) != 1:
        return element_bytes(buffer)
    return min(element_bytes(buffer), element_bytes(stage.reads[0].buffer))


def _waits_anyhow(wanted: set[int], phases: set[int]) -> bool:
    return bool(wanted) and min(wanted) <= min(phases) and max(wanted) >= max(phases)


@memoized_for_copies
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

    walked(stage.value, (tvm.ir.Expr, visit))
    return count
