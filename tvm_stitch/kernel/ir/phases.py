"""What the threads of a row do up to each reduction: the form between a schedule and TIR.

A reduction ends a phase: its result is known only when the whole row has been seen. Phases say what
each loads, finds on the chip, computes, keeps and writes; the emitter, the footprint, the cost
model and the report read them. analysis/keep_or_recompute makes them. Must not know how many
threads there are.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.stages.memoized import cached_property
from tvm_stitch.stages.stage import Stage, Var, element_bytes


@dataclass(frozen=True, eq=False)
class Phase:
    """One pass over a row. Buffers are those with an element for each row and column."""

    number: int
    of_row: tuple[Stage, ...]  # one value for the row, known before the pass
    stages: tuple[Stage, ...]  # one value for each element
    # What sums measured against a maximum compute, once the largest of what is at hand is known.
    second_pass: tuple[Stage, ...]
    reductions: tuple[Stage, ...]  # of all these, what ends the phase
    loads: tuple[Var, ...]  # inputs
    again: tuple[Var, ...]  # of these, what an earlier phase has loaded, but not kept
    held: frozenset[Var]  # what an earlier phase has kept and this one reads
    keeps: tuple[Var, ...]  # for later phases
    stores: tuple[Var, ...]  # outputs
    copies: tuple[Var, ...] = ()  # inputs that are copied to where they wait beforehand
    scans: tuple[Stage, ...] = ()  # of its stages, what is accumulated along the row at its end

    @property
    def computed(self) -> tuple[Stage, ...]:
        """All stages of an element, each once."""
        return tuple(dict.fromkeys((*self.stages, *self.second_pass)))

    @property
    def inputs(self) -> tuple[Var, ...]:
        """What comes from memory, whichever way."""
        return (*self.copies, *self.loads)

    def finds(self, buffer: Var) -> bool:
        """Whether a value that it reads has been on the chip before it begins."""
        return buffer in self.held or buffer in self.copies


@dataclass(frozen=True, eq=False)
class Phases:
    """A program on its way into a kernel."""

    program: Program
    phases: tuple[Phase, ...]
    finish: tuple[Stage, ...]  # one value a column, known when all rows have been seen
    kept: dict[Var, tuple[int, int]]  # what waits on the chip, from which phase to which

    @cached_property
    def live_bytes(self) -> int:
        """Bytes an element that wait between phases, at the worst boundary."""
        return self.live_bytes_of(0)

    def live_bytes_of(self, least: int) -> int:
        """The same where each value takes so many bytes at least, however short it is."""
        return max(
            (
                sum(max(element_bytes(b), least) for b, (i, j) in self.kept.items() if i <= end < j)
                for end in range(len(self.phases) - 1)
            ),
            default=0,
        )

    @cached_property
    def kept_bytes(self) -> int:
        """Bytes an element of all kept values, were none to reuse another's place."""
        return _bytes(self.kept)

    @cached_property
    def first_bytes(self) -> int:
        """Bytes an element that are loaded before the first reduction."""
        return _bytes(self.phases[0].inputs)

    @property
    def copies(self) -> tuple[Var, ...]:
        """Inputs that are copied before the first phase to where they wait."""
        return self.phases[0].copies

    @property
    def kept_inputs(self) -> tuple[Var, ...]:
        """What waits as it was read."""
        return tuple(buffer for buffer in self.program.inputs if buffer in self.kept)

    @cached_property
    def asynchronous(self) -> Phases:
        """The same, where what waits as it was read is copied there by cp.async."""
        first, copies = self.phases[0], self.kept_inputs
        loads = tuple(buffer for buffer in first.loads if buffer not in copies)
        first = replace(first, loads=loads, copies=copies)
        return replace(self, phases=(first, *self.phases[1:]))

    def times_loaded(self, buffer: Var) -> int:
        """How many phases load some of an input from memory."""
        times = sum(
            buffer in phase.inputs or self._looks_up((*phase.of_row, *phase.computed), buffer)
            for phase in self.phases
        )
        return times + self._looks_up(self.finish, buffer)

    def _looks_up(self, stages: Iterable[Stage], buffer: Var) -> bool:
        """Whether stages read an input elsewhere than at their own row and column."""
        return any(
            read.buffer == buffer and self.program.place(stage, read) is Where.OTHER
            for stage in stages
            for read in stage.reads
        )

    def __repr__(self) -> str:
        lines = [line for phase in self.phases for line in self._lines(phase)]
        if self.finish:
            lines += ["when all rows have been seen", *(f"  {stage}" for stage in self.finish)]
        return "\n".join(lines)

    def _lines(self, phase: Phase) -> list[str]:
        words = {
            "copies ahead": phase.copies,
            "loads": [b for b in phase.loads if b not in phase.again],
            "loads again": phase.again,
            "finds": phase.held,
            "keeps": phase.keeps,
            "stores": phase.stores,
        }
        lines = [f"phase {phase.number}", *(f"  for the row: {stage}" for stage in phase.of_row)]
        for word, buffers in words.items():
            if names := sorted(map(self._name, buffers)):
                lines.append(f"  {word} {', '.join(names)}")
        lines += [f"  {stage}" for stage in phase.stages]
        return lines + [f"  once the maximum is known: {stage}" for stage in phase.second_pass]

    def _name(self, buffer: Var) -> str:
        """As the stage that computes it is called, or the input."""
        stage = self.program.producer.get(buffer)
        return str(buffer.name) if stage is None else stage.name


def _bytes(buffers: Iterable[Var]) -> int:
    return sum(element_bytes(buffer) for buffer in buffers)
