"""Which columns a block may have for itself, to read little of the factors that rows share.

In: a ProductProgram. Out: its Slices: of which values a block may compute some columns only, and
which columns a thread must have together; or why a block needs whole rows. Must not know threads.

A cell of a recurrent network has four gates side by side in a row of its product, and each of its
units needs the four columns of its own: a block that has a tile of rows and units reads no more of
the weights than belongs to these. What is reduced or multiplied again is needed whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from tvm import tirx

from tvm_stitch.kernel.analysis.addressing import COLUMN
from tvm_stitch.kernel.analysis.contiguity import bound_to
from tvm_stitch.kernel.ir.program import Where
from tvm_stitch.kernel.small_matmul.program import ProductProgram
from tvm_stitch.stages.memoized import memoized
from tvm_stitch.stages.stage import Expr, Read, Refused, Stage, Var, handle, substitute

STEP = tirx.Var("step", "int64")  # of a thread's columns, a period apart
_WITHIN = tirx.Var("within", "int64")


@dataclass(frozen=True, eq=False)
class Slices:
    """A thread that has a column of a sliced value has all those that are periods away from it."""

    period: int
    steps: int  # columns of a thread in the widest sliced value
    values: frozenset[Var]
    step_of: dict[tuple[int, int], Expr]  # which of its thread's columns a read takes, by STEP


def waiting(program: ProductProgram, slices: Slices | None) -> dict[Var, int]:
    """The values that other threads of their row read, and their columns."""
    own = frozenset() if slices is None else slices.values
    found = [contraction.own for contraction in program.contractions.values()]
    for stage in program.stages:
        for read in stage.reads:
            place = program.place(stage, read)
            if read.buffer in own or read.buffer not in program.producer:
                continue
            if place is Where.ALONG or (place is Where.SAME and stage.output in own):
                found.append(read.buffer)
    return {buffer: program.columns[buffer] for buffer in found}


@memoized
def find_slices(program: ProductProgram, steps: int = 0) -> Slices | Refused:
    """The slices with so many columns a thread, or with as few as there can be."""
    whole = _needed_whole(program)
    sliced = [stage for stage in program.stages if stage.output not in whole]
    if not any(stage.output in program.contractions for stage in sliced):
        return Refused("all of a row's products are reduced or multiplied again")
    columns = [program.columns[stage.output] for stage in sliced]
    longest, widest = gcd(*columns), max(columns)
    steps = steps or widest // longest
    period = widest // steps
    if widest % steps or longest % period:
        return Refused(f"rows of {widest} columns have no {steps} for each thread")
    step_of: dict[tuple[int, int], Expr] = {}
    for stage in sliced:
        for read in stage.reads:
            if read.buffer in whole or program.place(stage, read) is not Where.ALONG:
                continue
            step = _step(program, stage, read, period)
            if step is None:
                return Refused(f"{stage.name} takes columns of {read.buffer.name} from all over it")
            step_of[handle(stage.output), read.key] = step
    return Slices(period, steps, frozenset(stage.output for stage in sliced), step_of)


def _needed_whole(program: ProductProgram) -> set[Var]:
    """What is reduced along a row or multiplied again, and all that it is made of."""
    whole = {contraction.own for contraction in program.contractions.values()}
    for stage in reversed(program.stages):
        if stage.output in whole or program.columns[stage.output] == 1:
            whole.add(stage.output)
            whole |= {read.buffer for read in stage.reads if read.buffer in program.producer}
    return whole


def _step(program: ProductProgram, stage: Stage, read: Read, period: int) -> Expr | None:
    """Which of its own thread's columns a read takes, if it is always one of them."""
    analyzer = bound_to({STEP: program.columns[stage.output] // period, _WITHIN: period})
    column = program.column_of[handle(stage.output), read.key]
    column = substitute(column, {COLUMN: STEP * period + _WITHIN})
    if not analyzer.can_prove_equal(tirx.floormod(column, period), _WITHIN):
        return None
    step = analyzer.simplify(tirx.floordiv(column, period))
    return None if _WITHIN in tirx.analysis.undefined_vars(step) else step
