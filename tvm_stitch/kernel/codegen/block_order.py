"""Which part of a kernel each block of the grid works on, and as which of its blocks.

In: a block of the grid, and the statements of parts with the numbers of their blocks. Out: the
statements of all, of which a block runs those of one part.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import tvm
from tvm import tirx

from tvm_stitch.kernel.codegen.tir_builder import Writer, block_uniform
from tvm_stitch.stages.stage import Expr, Var, as_int64, constant, substitute

# From so many places of the grid come blocks that run side by side, where a kernel has parts with
# rows and parts without: one that computes then overlaps with one that waits for memory. The glue
# of a BERT layer takes 30.4 us that way and 32.3 part by part; parts of one kind, such as an
# optimizer's 40 tensors, gain nothing and lose up to 3 %.
STREAMS = 8


def own_block(block: Expr, first: Expr, writer: Writer) -> Expr:
    """A block's number among those of its part, of which the first has this number in the grid.

    TVM would compute multiples of it once for many addresses, and no longer see that these are
    aligned: it has no vectors of eight addresses to go on with. Nor would it if it had to correct
    quotients for numbers that may be negative: hence unsigned.
    """
    return as_int64(writer.value("own_block", tirx.Cast("uint32", block - first)))


def in_streams(block: Expr, count: Expr) -> Expr:
    """The place in the grid's order that a block takes: every stream gets the next in turn."""
    exact = constant(count)
    if exact is not None and exact < 2 * STREAMS:
        return block
    each = tirx.floordiv(count, STREAMS).astype("int32") if exact is None else exact // STREAMS
    place = block % STREAMS * each + block // STREAMS
    most = each * STREAMS  # the few after that keep their places
    return place if exact == most else tirx.Select(block < most, place, block)


def by_ranges(block: Expr, bodies: Sequence[tuple[Expr, tirx.Stmt]]) -> tirx.Stmt:
    """Each block finds its part by halving. The branches are uniform in a block."""
    if len(bodies) == 1:
        return bodies[0][1]
    half = len(bodies) // 2
    return tirx.IfThenElse(
        block_uniform(block < bodies[half - 1][0]),
        by_ranges(block, bodies[:half]),
        by_ranges(block, bodies[half:]),
    )


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
