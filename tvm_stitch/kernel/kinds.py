"""The kinds of kernel. A new one is a room with a Kind in it, its mapping in kernel/ir, and a line.

A program is of the first kind that holds it.
"""

from __future__ import annotations

from typing import Any

from tvm_stitch.kernel.analysis.kind import Kind
from tvm_stitch.kernel.cooperative.kinds import ColumnSumsKind, PersistentRowsKind, RowSegmentKind
from tvm_stitch.kernel.elementwise.kind import Elementwise
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.rows.kind import RowsKind
from tvm_stitch.kernel.small_matmul.kind import SmallMatmulKind

KINDS: tuple[Kind[Any, Any], ...] = (
    SmallMatmulKind(),
    RowSegmentKind(),
    ColumnSumsKind(),
    Elementwise(),
    PersistentRowsKind(),
    RowsKind(),
)


def kind_of(program: Program) -> Kind[Any, Any]:
    """The kind of a program."""
    return next(kind for kind in KINDS if kind.holds(program))
