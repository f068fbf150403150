"""Programs over the same memory in rows of different lengths: side by side, co-scheduled.

In: Stages that no single space of rows holds. Out: a Program for each space, all of which read the
same large input. Their blocks come to the same place of it at about the same time
(kernel/codegen/block_order), so that device memory is asked for it once. Must not know threads.

What several of them need is computed in each.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm_stitch.kernel.ir.mapping import Mapping
from tvm_stitch.kernel.ir.placing import make_program
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.stages.memoized import remembered
from tvm_stitch.stages.stage import Refused, Stage, Var, constant, same_size

MOST_SPACES = 3
# Longer rows are few, or take clusters of blocks.
MOST_COLUMNS = 1 << 15


def co_scheduled_programs(
    stages: tuple[Stage, ...], outputs: tuple[Var, ...]
) -> tuple[Program, ...]:
    """Programs that read the same, each with the outputs that share its rows, if there are such."""
    found: list[Program] = []
    for output in outputs:
        for number, program in enumerate(found):
            together = _program(stages, (*program.outputs, output))
            if together is not None:
                found[number] = together
                break
        else:
            alone = _program(stages, (output,))
            if alone is None or len(found) == MOST_SPACES:
                return ()
            found.append(alone)
    return tuple(found) if len(found) > 1 and shared_rows(found) else ()


def shared_rows(programs: Sequence[Program]) -> tuple[Var, ...]:
    """The inputs that all of some programs go through from the first element to the last."""
    if len(set(programs)) < len(programs):
        return ()  # the same work on other buffers
    first, *rest = programs
    alike = all(same_size(program.space.size, first.space.size) for program in rest)
    if not alike or not all(map(_by_rows, programs)):
        return ()
    return tuple(b for b in first.rows_read if all(b in program.rows_read for program in rest))


def _by_rows(program: Program) -> bool:
    """Whether its blocks have neighbouring rows, and nothing but them."""
    return (
        program.reduces
        and not program.column_reductions
        and not program.round
        and program.space.whole
        and program.space.row_segment is None
        and (constant(program.space.columns) or MOST_COLUMNS + 1) <= MOST_COLUMNS
    )


def _program(stages: tuple[Stage, ...], outputs: tuple[Var, ...]) -> Program | None:
    """The program of some outputs, and of what they need."""
    wanted, own = set(outputs), []
    for stage in reversed(stages):
        if stage.output in wanted:
            own.append(stage)
            wanted.update(stage.buffers)
    needed = tuple(reversed(own))
    if not needed:
        return None
    # Sets that differ in other stages ask for it again.
    key = (_program, needed, outputs)
    program = remembered(needed[-1], key, lambda: make_program(needed, outputs))
    return None if isinstance(program, Refused) else program


def shares_input(programs: Sequence[Program], mappings: Sequence[Mapping]) -> tuple[Var, ...]:
    """The inputs that the parts of a kernel read co-scheduled."""
    apart = any(m.split or m.cluster > 1 or m.blocks for m in mappings)
    return () if apart or len(programs) == 1 else shared_rows(programs)
