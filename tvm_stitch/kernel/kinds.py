"""The kinds of kernel. A new one is a room with a Kind in it, its mapping in kernel/ir, and a line.

A program is of the first kind that holds it.
"""

from __future__ import annotations

from tvm_stitch.kernel.analysis.kind import Kind
from tvm_stitch.kernel.cooperative.kinds import COLUMN_SUMS, PERSISTENT_ROWS, ROW_SEGMENT
from tvm_stitch.kernel.elementwise.kind import ELEMENTWISE
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.panels.kind import PANEL
from tvm_stitch.kernel.rows.kind import ROWS
from tvm_stitch.kernel.scattered.kind import SCATTERED
from tvm_stitch.kernel.small_matmul.kind import SMALL_MATMUL

KINDS = (
    SMALL_MATMUL, SCATTERED, ROW_SEGMENT, COLUMN_SUMS, ELEMENTWISE, PERSISTENT_ROWS, PANEL, ROWS,
)  # fmt: skip


def kind_of(program: Program) -> Kind:
    """The kind of a program."""
    return next(kind for kind in KINDS if kind.holds(program))
