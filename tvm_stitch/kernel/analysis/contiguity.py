"""Whether neighbours of an index are neighbours in memory, so many at a time.

In: the place of an element as an expression of variables and their extents. Must not know what the
elements are, nor threads.
"""

from __future__ import annotations

from collections.abc import Mapping

from tvm import tirx

from tvm_stitch.stages.stage import Expr, Var, as_int64, constant, substitute
from tvm_stitch.stages.symbolic_analyzer import Analyzer, analyzer_of

Extent = Expr  # or an int


def bound_to(extents: Mapping[Var, Extent]) -> Analyzer:
    """An analyzer that knows how far variables go, each from 0."""
    return analyzer_of({var: as_int64(extent) for var, extent in extents.items()})


def in_chunks(at: Expr, along: Var, extents: Mapping[Var, Extent], width: int) -> bool:
    """Whether every so many neighbours along a variable are an aligned run of memory."""
    count = constant(as_int64(extents[along]))
    if count is None or count % width:
        return False
    others = {var: extent for var, extent in extents.items() if var is not along}
    quotient, lane = tirx.Var("quotient", "int64"), tirx.Var("lane", "int64")
    analyzer = bound_to({**others, quotient: count // width, lane: width})
    first = analyzer.simplify(substitute(at, {along: quotient * width}))
    moved = substitute(at, {along: quotient * width + lane})
    modular = analyzer.modular_set(first)
    aligned = modular.coeff % width == 0 and modular.base % width == 0
    return aligned and analyzer.can_prove_equal(moved - first, lane)
