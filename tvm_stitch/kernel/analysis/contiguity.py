"""Whether neighbours of an index are neighbours in memory, so many at a time.

In: the place of an element as an expression of variables and their extents. Must not know what the
elements are, nor threads.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
import tvm_ffi
from tvm import tirx

from tvm_stitch.stages.guards import is_branch, mentions
from tvm_stitch.stages.indices import may_follow
from tvm_stitch.stages.stage import Expr, Var, as_int64, constant, dtype_of, substitute
from tvm_stitch.stages.symbolic_analyzer import (
    Analyzer,
    SymbolicAnalyzer,
    analyzer_of,
    is_multiple,
)
from tvm_stitch.stages.visit import mapped

Extent = Expr  # or an int, where it is known


def parts_of(extent: Extent, size: int) -> Extent:
    """How many parts of a size make up an extent, the last of which may be smaller."""
    if isinstance(extent, int):
        return -(-extent // size)
    return tvm.sym.Analyzer().simplify(tirx.floordiv(extent + (size - 1), size))


def divides(size: int, extent: Extent) -> bool:
    """Whether parts of a size make up an extent."""
    if isinstance(extent, int):
        return extent % size == 0
    return is_multiple(extent, as_int64(size))


def is_at_least(extent: Extent, least: Extent) -> bool:
    """Whether an extent is provably no less than another, whatever sizes symbols have."""
    if isinstance(extent, int) and isinstance(least, int):
        return extent >= least
    return SymbolicAnalyzer({}).is_never_negative(as_int64(extent) - as_int64(least))


def bound_to(extents: Mapping[Var, Extent]) -> Analyzer:
    """An analyzer that knows how far variables go, each from 0."""
    return analyzer_of({var: as_int64(extent) for var, extent in extents.items()})


def lies_side_by_side(index: Expr, along: Var, start: Expr, lane: Var, analyzer: Analyzer) -> bool:
    """Whether an index grows by a lane where a variable is `start` plus that lane.

    Most of a long index, as of a table that a function of two positions is looked up in, is the
    same for all lanes: one variable for whoever proves the rest.
    """
    if isinstance(analyzer, SymbolicAnalyzer):  # which knows more of a whole index
        return _grows(index, along, start, lane, analyzer)
    if not may_follow(index, along, (1,)):
        return False
    same: dict[tvm_ffi.StructuralKey, Expr] = {}

    def named(part: Expr) -> Expr:
        key = tvm_ffi.StructuralKey(part)
        return same.setdefault(key, tirx.Var(f"same_{len(same)}", dtype_of(part)))

    def quotient(part: Expr) -> Expr:
        if not mentions(part, along):
            return part
        found = analyzer.simplify(substitute(part, {along: start + lane}))
        if mentions(found, lane) and not _is_of_aligned(part, along, start, lane, analyzer):
            return part
        return named(part)

    def shortened(part: Expr) -> Expr | None:
        if not mentions(part, along):
            return named(part)
        if isinstance(part, tirx.Add | tirx.Sub | tirx.Mul):
            sides = shortened(part.a), shortened(part.b)
            return None if sides[0] is None or sides[1] is None else type(part)(*sides)
        # Of what a function says of different lanes nothing is known.
        return None if isinstance(part, tvm.ir.Call) and not is_branch(part) else part

    short = shortened(mapped(index, (tirx.FloorDiv, quotient), (tirx.FloorMod, quotient)))
    return short is not None and _grows(short, along, start, lane, analyzer)


def _is_of_aligned(part: Expr, along: Var, start: Expr, lane: Var, analyzer: Analyzer) -> bool:
    """Whether a part divides what begins at a multiple of a vector by one, as behind a slice.

    TVM's analyzer finds nothing in (8 * x + lane + 16) // 32.
    """
    width, divisor = int(analyzer.const_int_bound(lane).max_value) + 1, constant(part.b)
    if not isinstance(part, tirx.FloorDiv) or divisor is None or divisor % width:
        return False
    first = analyzer.simplify(substitute(part.a, {along: start}))
    return is_aligned(first, width, analyzer) and _grows(part.a, along, start, lane, analyzer)


def is_aligned(place: Expr, width: int, analyzer: Analyzer) -> bool:
    """Whether a place is a multiple of a width, whatever its variables are."""
    modular = analyzer.modular_set(place)
    return bool(modular.coeff % width == 0 and modular.base % width == 0)


def _grows(index: Expr, along: Var, start: Expr, lane: Var, analyzer: Analyzer) -> bool:
    moved = substitute(index, {along: start + lane})
    return analyzer.can_prove_equal(moved - substitute(index, {along: start}), lane)


def in_chunks(at: Expr, along: Var, extents: Mapping[Var, Extent], width: int) -> bool:
    """Whether every so many neighbours along a variable are an aligned run of memory."""
    if not divides(width, extents[along]):
        return False
    others = {var: extent for var, extent in extents.items() if var is not along}
    quotient, lane = tirx.Var("quotient", "int64"), tirx.Var("lane", "int64")
    analyzer = bound_to({**others, quotient: parts_of(extents[along], width), lane: width})
    first = analyzer.simplify(substitute(at, {along: quotient * width}))
    moved = substitute(at, {along: quotient * width + lane})
    return is_aligned(first, width, analyzer) and analyzer.can_prove_equal(moved - first, lane)
