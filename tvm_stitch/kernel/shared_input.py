"""Programs over the same memory in rows of different lengths: side by side, co-scheduled.

In: Stages that no single space of rows holds. Out: a Program for each space, all of which read the
same large input; and the order of blocks in which they come to the same place of it at about the
same time, so that device memory is asked for it once. Must not know threads.

What several of them need is computed in each.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import tvm
from tvm import tirx

from tvm_stitch.kernel.ir.mapping import Mapping, Rows
from tvm_stitch.kernel.ir.placing import make_program
from tvm_stitch.kernel.ir.program import Program
from tvm_stitch.stages.stage import Expr, Refused, Stage, Var, constant, same_size, substitute

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
            wanted |= {read.buffer for read in stage.reads}
    program = make_program(tuple(reversed(own)), outputs)
    return None if isinstance(program, Refused) else program


def interleave_blocks(
    var: Var, place: Expr, bodies: Sequence[tuple[Expr, tirx.Stmt]], start: Expr | int = 0
) -> tirx.Stmt:
    """Statements of parts, each with the number of the block after its last, by a place of a grid.

    Of any first so many places, every part has the share that it has of all. The statements know
    their block by `var`, which counts those of the parts before as well.
    """
    (end, body), *others = bodies
    if not others:
        return substitute(body, {var: place + start})
    own, all_ = _shares(end - start, others[-1][0] - start)
    before = tirx.floordiv(place * own, all_)
    return tirx.IfThenElse(
        tirx.floordiv((place + 1) * own, all_) > before,
        substitute(body, {var: before + start}),
        interleave_blocks(var, place - before, others, end),
    )


def _shares(count: Expr, all_: Expr) -> tuple[Expr, Expr]:
    """So many of so many blocks, in the smallest numbers that are known."""
    known, total = (constant(tvm.sym.Analyzer().simplify(each)) for each in (count, all_))
    if known is None or total is None:
        return count, all_
    common = math.gcd(known, total)
    return tirx.IntImm("int64", known // common), tirx.IntImm("int64", total // common)


def balance_registers(mappings: Sequence[Rows]) -> list[Rows]:
    """Rows of a part whose threads have more elements than another's get more threads.

    Parts that go through the same input co-scheduled have rows, all of them.

    The registers of a kernel are those of its widest part, and leave room for few blocks: mean
    squares of rows of 2048 float32 beside maxima of groups of 64 take 30.4 us with 32 threads a
    row, which keep 127 registers, and 24.5 with 128, which keep 40.
    """
    least = min(mapping.elements for mapping in mappings)
    return [_spread(mapping, least) for mapping in mappings]


def _spread(mapping: Rows, least: int) -> Rows:
    while mapping.rows > 1 and mapping.steps % 2 == 0 and mapping.elements > least:
        threads, rows, steps = 2 * mapping.threads, mapping.rows // 2, mapping.steps // 2
        mapping = replace(mapping, threads=threads, rows=rows, steps=steps, min_blocks_per_sm=0)
    return mapping


def shares_input(programs: Sequence[Program], mappings: Sequence[Mapping]) -> tuple[Var, ...]:
    """The inputs that the parts of a kernel read co-scheduled."""
    apart = any(m.split or m.cluster > 1 or m.blocks for m in mappings)
    return () if apart or len(programs) == 1 else shared_rows(programs)
