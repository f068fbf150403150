"""Sizes of attention as data: numbers, or what they are by the number of keys.

In: expressions of Relax, and the one that is the number of keys. Out: ints and OfKeys. Knows no
memory.
"""

from __future__ import annotations

import tvm
from tvm import tirx
from tvm.ir import Expr

from tvm_stitch.graph.front.decompose.stages import has_shape, shape_of
from tvm_stitch.library.attention import Size
from tvm_stitch.library.of_keys import OfKeys

Shape = tuple[Size, ...]


class Sizes:
    """Reads sizes: by a number of keys that is made of one symbol, and grows with it."""

    def __init__(self, keys: Expr | None = None) -> None:
        """Without `keys`, and where they are a number, all that is read are numbers."""
        symbols = [] if keys is None else list(tirx.analysis.undefined_vars(keys))
        self._symbol = symbols[0] if len(symbols) == 1 else None
        self._keys = None if self._symbol is None else self._linear(keys)

    def __call__(self, size: Expr) -> Size | None:
        """A size; None where it is something else that is known at run time only."""
        if isinstance(size, int | tirx.IntImm):
            return int(size)
        found = None if self._keys is None else self._linear(size)
        if found is None:
            return None
        by_symbol, fixed = found
        assert self._keys is not None
        each, rest = divmod(by_symbol, self._keys[0])
        if rest or each <= 0:
            return None
        return OfKeys((fixed - each * self._keys[1], each))

    def of(self, tensor: Expr) -> Shape | None:
        """The extents of a tensor."""
        if not has_shape(tensor):
            return None
        found = tuple(map(self, shape_of(tensor)))
        return None if None in found else found

    def _linear(self, size: Expr) -> tuple[int, int] | None:
        """What a size has for each of the symbol, and beside that."""
        terms = tvm.sym.detect_linear_equation(size, [self._symbol])
        numbers = [int(each) for each in terms if isinstance(each, tirx.IntImm)]
        if len(terms) != 2 or len(numbers) != 2 or numbers[0] <= 0:
            return None
        return numbers[0], numbers[1]
