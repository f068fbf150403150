"""Where the threads of a panel have their elements; what they do with them is as in any rows.

In: a Program of rows in pieces, its Mapping. Out: a Position for rows/emit. Must not know what is
computed.
"""

from __future__ import annotations

from tvm_stitch.kernel.codegen.thread_indexing import Position
from tvm_stitch.kernel.codegen.tir_builder import Place, Writer, int64
from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.emit import emit_rows
from tvm_stitch.stages.stage import Expr


class PanelPosition(Position):
    """A thread's place in a panel."""

    def _start_row(self, _writer: Writer) -> None:
        """Where a thread's row begins: steps along it are then the same for all threads."""
        self.origin = self.space.flat(self.row, int64(0))
        self.first_column = int64(0)

    def address(self, step: Expr, lane: Expr) -> Expr:
        """Of an element in memory."""
        return self.origin + self.space.distance(self.offset(step)) + lane


def emit_panel(program: Program, mapping: Mapping, place: Place) -> Expr:
    """Write a part; the number of its blocks."""
    return emit_rows(program, mapping, place, PanelPosition)
