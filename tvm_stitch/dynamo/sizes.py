"""Sizes by the values of the symbols, as functions that cost nothing to call.

In: TIR expressions, or sizes that PyTorch prints as Python. Out: functions that can be pickled.
Must not know what the sizes are of.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import tvm
from tvm import tirx

from tvm_stitch.errors import TorchError

_LARGEST = 2**62
Sizes = tuple[int, ...]
_WRITTEN = {
    tirx.Add: "({} + {})", tirx.Sub: "({} - {})", tirx.Mul: "({} * {})",
    tirx.FloorDiv: "({} // {})", tirx.FloorMod: "({} % {})", tirx.Max: "max({}, {})",
    tirx.Min: "min({}, {})", tirx.LE: "({} <= {})", tirx.LT: "({} < {})", tirx.GE: "({} >= {})",
    tirx.GT: "({} > {})", tirx.EQ: "({} == {})", tirx.NE: "({} != {})",
}  # fmt: skip


@dataclass(frozen=True)
class Formula:
    """A function of sizes, by their names in the order of the symbols, written as Python."""

    names: tuple[str, ...]
    written: str

    def __call__(self, sizes: Sizes) -> Any:
        """The value at these sizes."""
        return _function(self)(*sizes)


@lru_cache(maxsize=4096)
def _function(formula: Formula) -> Callable[..., Any]:
    arguments = ", ".join(formula.names)
    found: Callable[..., Any] = eval(f"lambda {arguments}: {formula.written}", {"math": math})
    return found


def of_expression(variables: Sequence[tirx.Var], expression: Any) -> int | Formula:
    """The value of an integer TIR expression over these variables."""
    analyzer = tvm.sym.Analyzer()
    for variable in variables:  # sizes, of which TVM does not know that none is below 0
        analyzer.update(variable, tvm.sym.ConstIntBound(0, _LARGEST), True)
    simple = analyzer.simplify(expression)
    if isinstance(simple, tirx.IntImm):
        return int(simple)
    names = {variable: f"s{number}" for number, variable in enumerate(variables)}
    written = _python(simple, names)
    return Formula(tuple(names.values()), written)


def _python(expression: Any, names: dict[tirx.Var, str]) -> str:
    if isinstance(expression, tirx.IntImm):
        return str(int(expression))
    if isinstance(expression, tirx.Var) and expression in names:
        return names[expression]
    if isinstance(expression, tirx.Cast):
        return _python(expression.value, names)
    if isinstance(expression, tirx.Select):
        parts = (expression.true_value, expression.condition, expression.false_value)
        return "({} if {} else {})".format(*(_python(part, names) for part in parts))
    if type(expression) not in _WRITTEN:
        raise TorchError(f"a size of {expression}")
    sides = (_python(side, names) for side in (expression.a, expression.b))
    return _WRITTEN[type(expression)].format(*sides)
