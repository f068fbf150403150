"""Which kernel takes rows whose length or number only run time knows: the host's choice.

In: Programs, a Schedule with its longer ones, bounds of the rows' lengths, and what launches the
kernel of one of them. Out: the host's statements. Must not know kernels.
"""

from __future__ import annotations

from collections.abc import Callable

from tvm import ir, tirx

from tvm_stitch.kernel.codegen.tir_builder import block_uniform, sequence
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.kernel.ir.schedule import Schedule
from tvm_stitch.stages.stage import Expr, constant


def dispatch(
    programs: tuple[Program, ...],
    schedule: Schedule,
    longest: tuple[int, ...],
    launch: Callable[[Schedule], tirx.Stmt],
) -> tirx.Stmt:
    """What the host does: it launches the first kernel for rows as long and as many as they are."""
    own = launch(schedule)
    limits = [
        # What is planned with the bound, such as memory, is as wrong beyond it as a kernel that
        # cannot hold the row.
        (program.space.columns, min(mapping.capacity, most))
        for program, mapping, most in zip(programs, schedule.parts, longest, strict=True)
        if constant(program.space.columns) is None and not mapping.any_length
    ]
    if schedule.longer is None:
        return sequence([*(_refusal(columns, most) for columns, most in limits), own])
    if not limits and not schedule.most_rows:
        return own
    conditions = [columns <= most for columns, most in limits]
    if schedule.most_rows:
        conditions += [program.space.rows <= schedule.most_rows for program in programs]
    fits = tirx.all(*conditions)
    longer = dispatch(programs, schedule.longer, longest, launch)
    return tirx.IfThenElse(block_uniform(fits), own, longer)


def _refusal(columns: Expr, most: int) -> tirx.Stmt:
    message = (
        f"a row of this stitched kernel has at most {most} elements, as the model's attribute "
        "tir_var_upper_bound says of its symbolic dimensions"
    )
    return refusal(columns, most, message)


def refusal(extent: Expr, most: int, message: str) -> tirx.Stmt:
    """What the host does before any launch: an error where there is more of something."""
    kind, text = ir.StringImm("ValueError"), [ir.StringImm(message)]
    # TVM's constructor takes the condition first, whatever its signature says.
    return tirx.AssertStmt(extent <= most, kind, text)
