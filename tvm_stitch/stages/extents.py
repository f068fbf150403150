"""Numbers for extents that only run time knows: what kernels are judged by until then.

In: sizes of symbols. Out: sizes of expressions of symbols. Decides no kernel's result, only which
kernel there is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import tvm
from tvm import tirx

from tvm_stitch.stages.stage import (
    Expr,
    Var,
    buffer_shape,
    constant,
    dtype_of,
    element_bytes,
    substitute,
)

# Attributes of Relax functions: what symbols are at most, by name, and sizes to expect of them.
UPPER_BOUND, EXPECTED_SIZES = "tir_var_upper_bound", "tvm_stitch.expected_sizes"
NOMINAL_EXTENT = 256  # of a symbol of which nothing is said


@dataclass(frozen=True)
class Extents:
    """Representative sizes of symbols, by name."""

    of: tuple[tuple[str, int], ...] = ()

    def size(self, expr: Expr) -> int:
        """An expression where all symbols have these sizes, at least 1."""
        exact = constant(expr)
        if exact is not None:
            return exact
        known = dict(self.of)
        sizes = {
            var: tirx.IntImm(dtype_of(var), known.get(var.name, NOMINAL_EXTENT))
            for var in tirx.analysis.undefined_vars(expr)
        }
        found = constant(tvm.sym.Analyzer().simplify(substitute(expr, sizes)))
        return max(1, NOMINAL_EXTENT if found is None else found)

    def at(self, sizes: Mapping[str, int]) -> Extents:
        """The same, but for symbols that have these sizes."""
        return Extents(tuple(sorted({**dict(self.of), **sizes}.items())))

    def elements(self, buffer: Var) -> int:
        """Elements of a tensor."""
        return math.prod(map(self.size, buffer_shape(buffer)))

    def bytes(self, buffer: Var) -> int:
        """Bytes of a tensor."""
        return self.elements(buffer) * element_bytes(buffer)


NOMINAL = Extents()


def is_open(buffers: Iterable[Var], points: Sequence[Extents]) -> bool:
    """Whether nobody has said which sizes tensors have."""
    return not points and any(
        constant(extent) is None for buffer in buffers for extent in buffer_shape(buffer)
    )


def points_of(sizes: Mapping[str, Sequence[int]], bounds: Mapping[str, int]) -> tuple[Extents, ...]:
    """Where kernels are compared: at every symbol's first size, at its second and so on.

    One that has no more sizes keeps its last; none is larger than its upper bound.
    """
    return tuple(nominal(each, bounds) for each in _together(sizes))


def sizes_stated(
    sizes: Mapping[str, Sequence[int]], bounds: Mapping[str, int]
) -> list[dict[str, int]]:
    """The sizes that somebody states, of all symbols at once; without those beyond a bound."""
    return [
        each
        for each in _together(sizes)
        if all(size <= bounds.get(name, size) for name, size in each.items())
    ]


def _together(sizes: Mapping[str, Sequence[int]]) -> list[dict[str, int]]:
    """Every symbol's first size, its second and so on; one that has no more keeps its last."""
    count = max(map(len, sizes.values()), default=0)
    return [
        {name: each[min(number, len(each) - 1)] for name, each in sizes.items()}
        for number in range(count)
    ]


def nominal(sizes: Mapping[str, int], bounds: Mapping[str, int]) -> Extents:
    """These sizes, and the nominal one where there are only bounds; none beyond its bound."""
    known = {**dict.fromkeys(bounds, NOMINAL_EXTENT), **sizes}
    limited = {name: min(size, bounds.get(name, size)) for name, size in known.items()}
    return Extents(tuple(sorted(limited.items())))
