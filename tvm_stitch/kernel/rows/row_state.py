"""What a part of a kernel has at hand while a row of it is emitted.

In: what a Part is made of, among it the program's Phases. Out: what has been loaded, kept and
reduced so far, for those who write a phase, a vector of it or its asynchronous copies. Writes
nothing itself.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from dataclasses import dataclass, field

from tvm_stitch.kernel.analysis.addressing import AddressKey
from tvm_stitch.kernel.analysis.keep_or_recompute import phases_of
from tvm_stitch.kernel.codegen.reduction import Accumulator
from tvm_stitch.kernel.codegen.thread_indexing import Guard, Position, Steps
from tvm_stitch.kernel.codegen.tir_builder import Place
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.phases import Phase
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.global_access import Access, Element, Fragments
from tvm_stitch.stages.stage import Expr, Var


@dataclass(frozen=True, eq=False)
class NextRow:
    """The row after this one: its tiles are full when its iteration begins."""

    position: Position
    exists: Expr
    tiles: MappingOf[Var, Var]


@dataclass
class PhaseState:
    """What a phase has at hand."""

    phase: Phase
    loaded: dict[Var, tuple[Var, Element]] = field(default_factory=dict)
    vectors: Fragments = field(default_factory=dict)  # vectors along the columns
    accumulators: dict[Var, Accumulator] = field(default_factory=dict)


class RowState(Access):
    """What is known of one row of a program: loaded, kept, reduced."""

    number = 0  # among the rows that a thread has side by side

    def __init__(
        self,
        program: Program,
        mapping: Mapping,
        place: Place,
        position: Position,
        sums: MappingOf[Var, Var] | None = None,
        next_row: NextRow | None = None,
    ) -> None:
        self.phases = phases_of(program, mapping)
        super().__init__(self.phases.program, mapping, place, position)
        self.sums = sums or {}  # a thread's partials of each reduction over the rows
        self.next_row = next_row
        self.row_values: dict[Var, Expr] = {}
        self.row_loads: dict[AddressKey, Expr] = {}
        self.kept: dict[Var, Var] = {}
        self.ahead: dict[Var, tuple[Var, Element]] = {}  # inputs loaded before the first phase
        self.barriers: dict[int, Expr] = {}  # of a cluster, by the phase that ends there
        self.vectors: Fragments = {}  # vectors along the columns loaded then
        self.carries: dict[Var, Var] = {}  # of each scan, what earlier chunks of the row came to

    def begin_steps(self, phase: Phase, steps: Steps) -> None:
        """Make room for what some steps gather of all rows; nothing, where there is one."""

    def copy_in_rows(
        self, buffer: Var, tile: Var, step: Expr, guard: Guard, element: Element
    ) -> None:
        """A vector of an input into a tile, or one of all rows that lie side by side."""
        self.copy_in(buffer, tile, step, guard, element)

    def loads_of(self, phase: Phase) -> tuple[Var, ...]:
        """The inputs that come through registers, a thread's share of the row at once."""
        return phase.loads
