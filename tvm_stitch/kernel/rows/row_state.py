"""What a part of a kernel has at hand while a row of it is emitted.

In: what a Part is made of. Out: which stages a phase computes, what waits where, for those who
write a phase, a vector of it or its asynchronous copies. Writes nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field

from tvm_stitch.kernel.analysis.keep_or_recompute import residency_of
from tvm_stitch.kernel.analysis.online_reduction import apply_online
from tvm_stitch.kernel.codegen.reduction import Accumulator
from tvm_stitch.kernel.codegen.thread_indexing import Position
from tvm_stitch.kernel.codegen.tir_builder import Place
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program, Where
from tvm_stitch.kernel.ir.stage import Expr, Stage, Var
from tvm_stitch.kernel.rows.async_copy import async_inputs
from tvm_stitch.kernel.rows.global_access import Access, Element, Fragments


@dataclass(frozen=True, eq=False)
class NextRow:
    """The row after this one: its tiles are full when its turn begins."""

    position: Position
    exists: Expr
    tiles: MappingOf[Var, Var]


@dataclass
class Phase:
    """What a phase has at hand."""

    number: int
    loaded: dict[Var, tuple[Var, Element]] = field(default_factory=dict)
    vectors: Fragments = field(default_factory=dict)  # vectors along the columns
    accumulators: dict[Var, Accumulator] = field(default_factory=dict)
    rescaled: list[Stage] = field(default_factory=list)  # sums measured against maxima so far


class RowState(Access):
    """What is known of one row of a program: loaded, kept, reduced."""

    def __init__(
        self,
        program: Program,
        mapping: Mapping,
        place: Place,
        position: Position,
        sums: MappingOf[Var, Var] | None = None,
        next_row: NextRow | None = None,
    ) -> None:
        super().__init__(apply_online(program, mapping), mapping, place, position)
        self.residency = residency_of(program, mapping)
        self.sums = sums or {}  # a thread's share of each reduction over the rows
        self.next_row = next_row
        self.row_values: dict[Var, Expr] = {}
        self.row_loads: dict[tuple[Var, str, str], Expr] = {}
        self.kept: dict[Var, Var] = {}
        self.ahead: dict[Var, tuple[Var, Element]] = {}  # inputs loaded before the first phase
        self.barriers: dict[int, Expr] = {}  # of a cluster, by the phase that ends there
        self.async_inputs = async_inputs(program, mapping)  # inputs copied meanwhile
        self.vectors: Fragments = {}  # vectors along the columns loaded then

    def needed(self, roots: list[Stage], number: int) -> list[Stage]:
        """The stages whose elements a phase computes, in order."""
        wanted = {stage.output for stage in roots}
        for stage in reversed(self.program.stages):
            if stage.output in wanted and not self.waits(stage.output, number):
                for read in stage.reads:
                    if self.program.place(stage, read) is Where.SAME:
                        wanted.add(read.buffer)
        return [
            stage
            for stage in self.program.stages
            if stage.output in wanted and not self.waits(stage.output, number)
        ]

    def waits(self, buffer: Var, number: int) -> bool:
        """Whether a value has been kept by an earlier phase."""
        if buffer in self.async_inputs:
            return True
        return buffer in self.residency.kept and self.residency.kept[buffer][0] < number

    def loads_of(self, number: int) -> list[Var]:
        """The inputs of which a phase is the first to need whole rows."""
        return [b for b in self.program.inputs if number in self.residency.needed.get(b, ())]
