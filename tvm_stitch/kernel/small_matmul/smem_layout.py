"""How the factors of small products lie in a block's shared memory.

In: a ProductProgram and its Mapping. Out: the Slices that the mapping asks for, and of each panel
the Table that a block has: its size, and where the element of a thread's column is. Decides nothing
about what is staged; must not know blocks.
"""

from __future__ import annotations

from dataclasses import dataclass

from tvm import tirx

from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.small_matmul.column_slices import Slices, find_slices
from tvm_stitch.kernel.small_matmul.program import ProductProgram
from tvm_stitch.kernel.small_matmul.shared_operand import Panel
from tvm_stitch.stages.stage import Expr, Stage, Var

ITEM = 4  # bytes of an element: factors wait as they are multiplied
MOST_GROUPED = 4  # columns that a thread reads in one access
# Rows side by side from which on it pays to sort a table's columns by their threads, element by
# element. Measured on an H200: attention of 32 x 32 with 8 takes 29.0 us sorted and 26.6 not.
GROUPED_ROWS = 16


def pitch(columns: int) -> int:
    """Elements from one row in shared memory to the next.

    Vectors of four stay aligned, and those of neighbouring rows lie in different banks.
    """
    return (columns + 3) // 8 * 8 + 4


def slices_of(program: ProductProgram, mapping: Mapping) -> Slices | None:
    """How a mapping slices rows; None: blocks have whole rows."""
    slices = find_slices(program, mapping.steps) if mapping.split else None
    return slices if isinstance(slices, Slices) else None


@dataclass(frozen=True, eq=False)
class Table:
    """A panel, or the part of it that belongs to a block's columns."""

    panel: Panel
    slow: int
    fast: int
    by_depth: bool  # whether a product's columns go along `slow`; else along `fast`
    sliced: Var | None  # the product whose columns in the block it holds; None: it is whole
    threads: int  # of a row
    group: int  # columns of a thread that lie side by side; 1: as they come

    @property
    def pitch(self) -> int:
        """Elements from one value of `slow` to the next."""
        return pitch(self.fast)

    @property
    def bytes(self) -> int:
        """Shared memory that it takes."""
        return self.slow * self.pitch * ITEM

    def place(self, slow: Expr, fast: Expr) -> Expr:
        """Where an element lies, both counted in the block."""
        if self.group > 1:
            step, lane = tirx.floordiv(fast, self.threads), tirx.floormod(fast, self.threads)
            fast = self.grouped(step, lane)
        return slow * self.pitch + fast

    def grouped(self, step: Expr, lane: Expr) -> Expr:
        """Where a thread's columns lie: side by side, as many as come in one access."""
        group = tirx.floordiv(step, self.group) * self.threads + lane
        return group * self.group + tirx.floormod(step, self.group)


def table_of(program: ProductProgram, mapping: Mapping, panel: Panel) -> Table:
    """The table of a panel that several products may use, its columns along different axes."""
    readers = {o: c for o, c in program.contractions.items() if c.panel.key == panel.key}
    uses = {(program.columns[output], each.by_depth) for output, each in readers.items()}
    (columns, by_depth), *others = uses
    slices = slices_of(program, mapping)
    own = slices.values.intersection(readers) if slices is not None else frozenset()
    if others or (own and len(own) < len(readers)):
        return Table(panel, panel.slow, panel.fast, False, None, mapping.threads, 1)
    sliced = next(iter(own), None)
    if slices is not None and sliced is not None:
        columns = columns // slices.period * mapping.threads
    if by_depth:
        return Table(panel, columns, panel.fast, True, sliced, mapping.threads, 1)
    by_thread = mapping.rows >= GROUPED_ROWS and columns % mapping.threads == 0
    group = _widest(columns // mapping.threads) if by_thread else 1
    return Table(panel, panel.slow, columns, False, sliced, mapping.threads, group)


def steps_of(program: ProductProgram, mapping: Mapping, stage: Stage) -> int:
    """The columns that a thread has of what a stage goes through."""
    slices = slices_of(program, mapping)
    sliced = slices is not None and stage.output in slices.values
    period = slices.period if slices is not None and sliced else mapping.threads
    return -(-program.walked(stage) // period)


def _widest(steps: int) -> int:
    """The columns of the widest access that divides a thread's."""
    group = MOST_GROUPED
    while steps % group:
        group //= 2
    return group
