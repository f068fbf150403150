"""PyTorch's symbolic sizes as TIR expressions.

In: ints, SymInts and SymFloats. Out: ints and expressions over one TIR variable for each of
PyTorch's symbols, the ranges in which PyTorch guards them, and their sizes when it traced. Must not
know operators.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any

import sympy
import torch
import tvm
from torch.utils._sympy.functions import (
    CleanDiv,
    FloatTrueDiv,
    FloorDiv,
    IntTrueDiv,
    Mod,
    PythonMod,
    ToFloat,
)
from tvm import tirx

from tvm_stitch.errors import TorchError

Dim = Any
"""An int where the extent is known, else a TIR expression."""
# Extents beyond this are not addressed with 32 bits anyway: no bound that a kernel could use.
_LARGEST = 2**31 - 1


class Symbols:
    """One TIR variable for each symbol of a graph, made when it is first met."""

    def __init__(self) -> None:
        self.variables: dict[sympy.Symbol, tirx.Var] = {}
        self.upper: dict[str, int] = {}
        self.seen: dict[str, int] = {}  # what symbols were when PyTorch traced
        self._analyzer = tvm.sym.Analyzer()
        self._plainest: dict[sympy.Expr, sympy.Expr] = {}
        self._guards_read = 0

    def __call__(self, value: int | float | torch.SymInt | torch.SymFloat) -> Dim:
        """The value as an int, a float or a TIR expression."""
        if isinstance(value, (int, float)):
            return value
        if not isinstance(value, (torch.SymInt, torch.SymFloat)):
            raise TorchError(f"a {type(value).__name__} as an argument")
        node = value.node
        self._read_guards(node.shape_env.guards)
        expression = self._plainest.get(node.expr, node.expr)
        if expression.is_Integer:
            return int(expression)
        for symbol in expression.free_symbols:
            self._meet(symbol, node.shape_env)
        return self._analyzer.simplify(self._written(expression))

    def extents(self, values: Iterable[int | torch.SymInt]) -> list[Dim]:
        """A shape."""
        return [self(value) for value in values]

    def same(self, left: Dim, right: Dim) -> bool:
        """Whether two extents are provably one."""
        if isinstance(left, int) and isinstance(right, int):
            return left == right
        return bool(self._analyzer.can_prove_equal(left, right))

    def _read_guards(self, guards: Sequence[Any]) -> None:
        """Of sizes that PyTorch guards as equal the plainest stands for both, written alike.

        Where half of an image that is enlarged again meets the image, no arithmetic says that their
        sizes agree: graphs hold only where they do.
        """
        for guard in guards[self._guards_read :]:
            if isinstance(guard.expr, sympy.Eq):
                plainest = min(guard.expr.args, key=_length)
                self._plainest.update(dict.fromkeys(guard.expr.args, plainest))
        self._guards_read = len(guards)

    def _meet(self, symbol: sympy.Symbol, shape_env: Any) -> None:
        if symbol in self.variables:
            return
        bounds = shape_env.var_to_range.get(symbol)
        variable = tirx.Var(str(symbol), "int64")
        self.variables[symbol] = variable
        size = _sizes_seen(shape_env).get(symbol)
        if size is not None:
            self.seen[variable.name] = max(1, int(size))
        if bounds is None:
            return
        upper, lower = _finite(bounds.upper), _finite(bounds.lower)
        if upper is not None:
            self.upper[variable.name] = upper
        at_least = 0 if lower is None else max(lower, 0)
        self._analyzer.update(variable, tvm.sym.ConstIntBound(at_least, upper or _LARGEST), True)

    def _written(self, expression: Any) -> Any:
        if expression in self.variables:
            return self.variables[expression]
        if expression.is_Integer:
            return tirx.const(int(expression), "int64")
        if expression.is_Float:
            return tirx.const(float(expression), "float64")
        write = _WRITTEN.get(type(expression))
        if write is None or (expression.is_Pow and not expression.exp.is_Integer):
            raise TorchError(f"a size of {expression}")
        return write(*map(self._written, expression.args))


def _length(expression: sympy.Expr) -> tuple[int, str]:
    return expression.count_ops(), str(expression)


def _sizes_seen(shape_env: Any) -> Mapping[sympy.Symbol, Any]:
    """Sizes of symbols in the call that PyTorch traced; of those that data decide it has none."""
    seen = getattr(shape_env, "backed_var_to_val", None)  # before 2.13 by another name
    found: Mapping[sympy.Symbol, Any] = shape_env.var_to_val if seen is None else seen
    return found


def _finite(bound: Any) -> int | None:
    return int(bound) if bound.is_Integer and int(bound) <= _LARGEST else None


def _chain(function: Any) -> Any:
    return lambda *values: reduce(function, values)


def _power(base: Any, exponent: Any) -> Any:
    count = int(exponent)
    if count < 1:
        raise TorchError("a size that is a fraction")
    return reduce(lambda left, right: left * right, [base] * count)


def _as_float(value: Any) -> Any:
    return value.astype("float64")


def _true_quotient(left: Any, right: Any) -> Any:
    return _as_float(left) / _as_float(right)


_WRITTEN: dict[Any, Any] = {
    sympy.Add: _chain(lambda left, right: left + right),
    sympy.Mul: _chain(lambda left, right: left * right),
    sympy.Pow: _power,
    FloorDiv: tirx.floordiv,
    CleanDiv: tirx.floordiv,
    Mod: tirx.floormod,
    PythonMod: tirx.floormod,
    ToFloat: _as_float,
    FloatTrueDiv: _true_quotient,
    IntTrueDiv: _true_quotient,
}
