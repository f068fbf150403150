"""Sizes of attention as data: numbers, or what they are by what is counted at run time.

In: expressions of Relax, and those that are the number of keys and of entries of the batch. Out:
ints and OfCounts. Knows no memory.
"""

from __future__ import annotations

from dataclasses import dataclass

import tvm
from tvm import tirx
from tvm.ir import Expr

from tvm_stitch.graph.front.decompose.stages import has_shape, shape_of
from tvm_stitch.library.attention import Size
from tvm_stitch.library.of_counts import BATCH, KEYS, OfCounts

Shape = tuple[Size, ...]


@dataclass(frozen=True, eq=False)
class _Count:
    """What is counted: so many for each of a symbol, and so many beside that."""

    symbol: tirx.Var
    count: OfCounts
    each: int
    beside: int


class Sizes:
    """Reads sizes: by a number of keys and one of entries, each made of a symbol of its own, and
    growing with it."""

    def __init__(self, keys: Expr | None = None, batch: Expr | None = None) -> None:
        """Without them, and where they are numbers, all that is read are numbers."""
        counted = ((keys, KEYS), (batch, BATCH))
        found = [_count(size, count) for size, count in counted if size is not None]
        self._counts = [each for each in found if each is not None]

    def __call__(self, size: Expr) -> Size | None:
        """A size; None where it is something else that is known at run time only."""
        if isinstance(size, int | tirx.IntImm):
            return int(size)
        terms = _linear(size, [each.symbol for each in self._counts])
        if terms is None or min(terms[:-1], default=-1) < 0:
            return None
        found: Size = terms[-1]
        for own, term in zip(self._counts, terms[:-1], strict=True):
            times, rest = divmod(term, own.each)
            if rest:
                return None
            found = found + times * own.count + -times * own.beside
        return found

    def of(self, tensor: Expr) -> Shape | None:
        """The extents of a tensor."""
        if not has_shape(tensor):
            return None
        found = tuple(map(self, shape_of(tensor)))
        return None if None in found else found


def _count(size: Expr, count: OfCounts) -> _Count | None:
    symbols = list(tirx.analysis.undefined_vars(size))
    terms = _linear(size, symbols)
    if len(symbols) != 1 or terms is None or terms[0] <= 0:
        return None
    return _Count(symbols[0], count, *terms)


def _linear(size: Expr, symbols: list[tirx.Var]) -> list[int] | None:
    """What a size has for each of the symbols, and beside that."""
    terms = tvm.sym.detect_linear_equation(size, symbols) if symbols else []
    numbers = [int(each) for each in terms if isinstance(each, tirx.IntImm)]
    return numbers if len(numbers) == len(symbols) + 1 else None
