"""Whether neighbours of an index are neighbours in memory, so many at a time.

In: the place of an element as an expression of variables and their extents. Must not know what the
elements are, nor threads.
"""

from __future__ import annotations

from collections.abc import Mapping

import tvm
from tvm import tirx

from tvm_stitch.stages.stage import Expr, Var, as_int64, substitute
from tvm_stitch.stages.symbolic_analyzer import (
    Analyzer,
    SymbolicAnalyzer,
    analyzer_of,
    is_multiple,
)

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


def in_chunks(at: Expr, along: Var, extents: Mapping[Var, Extent], width: int) -> bool:
    """Whether every so many neighbours along a variable are an aligned run of memory."""
    if not divides(width, extents[along]):
        return False
    others = {var: extent for var, extent in extents.items() if var is not along}
    quotient, lane = tirx.Var("quotient", "int64"), tirx.Var("lane", "int64")
    analyzer = bound_to({**others, quotient: parts_of(extents[along], width), lane: width})
    first = analyzer.simplify(substitute(at, {along: quotient * width}))
    moved = substitute(at, {along: quotient * width + lane})
    modular = analyzer.modular_set(first)
    aligned = modular.coeff % width == 0 and modular.base % width == 0
    return aligned and analyzer.can_prove_equal(moved - first, lane)
