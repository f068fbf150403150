"""The kinds of kernel. A new one is a room with a Kind in it, and a line.

The most special come first: a program is of the first kind that holds it, stages are the first's
that claims one of them, and of those that none claims the last makes the program that others want
to better.
"""

from __future__ import annotations

from tvm_stitch.kernel.analysis.kind import Kind
from tvm_stitch.kernel.cooperative.kinds import COLUMN_SUMS, PERSISTENT_ROWS, ROW_SEGMENT
from tvm_stitch.kernel.elementwise.kind import ELEMENTWISE
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.panels.kind import PANEL
from tvm_stitch.kernel.rows.kind import ROWS, SCANNED_ROWS
from tvm_stitch.kernel.scattered.kind import SCATTERED
from tvm_stitch.kernel.small_matmul.kind import SMALL_MATMUL

KINDS = (
    SCATTERED, SCANNED_ROWS, SMALL_MATMUL, ROW_SEGMENT, COLUMN_SUMS, ELEMENTWISE, PERSISTENT_ROWS,
    PANEL, ROWS,
)  # fmt: skip


def kind_of(program: Program) -> Kind:
    """The kind of a program."""
    return next(kind for kind in KINDS if kind.holds(program))
