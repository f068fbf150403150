"""What the operators mean: the tables of all families as one, and the evaluation of a graph.

In: a graph, the arrays of its inputs. Out: a Number for every value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.outside.graphs import data
from tests.outside.graphs.extent import Extent
from tests.outside.graphs.families import (
    compound,
    creation,
    elementwise,
    indexing,
    movement,
    products,
    reductions,
)
from tests.outside.graphs.graph import Call, Const, Graph, Input, Item, Ref, Value
from tests.outside.graphs.number import Noise, Number, exact

MEANINGS: dict[str, Callable] = {
    **elementwise.MEANINGS,
    **movement.MEANINGS,
    **reductions.MEANINGS,
    **compound.MEANINGS,
    **creation.MEANINGS,
    **indexing.MEANINGS,
    **products.MEANINGS,
}
Result = Number | tuple[Number, ...]


@dataclass(frozen=True)
class Evaluation:
    """How values are computed: at which sizes of the symbols, with which noise."""

    sizes: Mapping[str, int]
    noise: Noise
    seed: int

    def of(self, value: Value, place: int, before: Sequence[Result]) -> Result:
        """The Number of a value, or of all results of a call."""
        if isinstance(value, Input):
            return exact(data.array(value, place, self.sizes, self.seed), value.dtype)
        if isinstance(value, Const):
            return exact(data.held(np.asarray(value.value), value.dtype), value.dtype)
        if isinstance(value, Item):
            results = before[value.of.index]
            assert isinstance(results, tuple)
            return results[value.item]
        return self._call(value, before)

    def _call(self, call: Call, before: Sequence[Result]) -> Result:
        def argument(given: Any) -> Any:
            if isinstance(given, Ref):
                return before[given.index]
            if isinstance(given, Extent):
                return given.size(self.sizes)
            if isinstance(given, list | tuple):
                return type(given)(argument(part) for part in given)
            return given

        attrs = {name: argument(attr) for name, attr in call.attrs}
        with np.errstate(all="ignore"):
            return MEANINGS[call.op](self.noise, *map(argument, call.args), **attrs)


def evaluated(graph: Graph, binding: int = 0, noise: Noise | None = None) -> list[Result]:
    """The Numbers of all values of a graph, at one of its bindings."""
    evaluation = Evaluation(graph.bindings[binding], noise or Noise(), graph.seed + 7919 * binding)
    found: list[Result] = []
    for place, value in enumerate(graph.values):
        found.append(evaluation.of(value, place, found))
    return found
