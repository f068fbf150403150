"""A graph as plain data: what chance made, the minimizer makes smaller, and a script prints.

Knows how to become a Relax module; knows nothing of chance, of numbers or of stitching.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import ml_dtypes
import numpy as np
import tvm
from tvm import relax, tirx
from tvm.relax import op

from tests.outside.graphs.extent import Extent

UPPER_BOUND = "tir_var_upper_bound"
Shape = tuple[Extent, ...]
Sizes = Mapping[str, int]


@dataclass(frozen=True)
class Ref:
    """A value of the graph, by its place."""

    index: int


@dataclass(frozen=True)
class Data:
    """What an input holds: see data.py. `limit` is one more than the largest index."""

    kind: str
    limit: Extent | None = None
    scale: float = 1.0
    literal: Any = None  # an array that was computed, for the first sizes only


@dataclass(frozen=True)
class Input:
    """A parameter of the function."""

    dtype: str
    shape: Shape
    data: Data


@dataclass(frozen=True)
class Const:
    """A constant tensor: a number, or nested lists of them."""

    dtype: str
    value: Any


@dataclass(frozen=True)
class Call:
    """An operator `relax.op.<op>` of values, attributes and lists of them."""

    op: str
    args: tuple[Any, ...]
    attrs: tuple[tuple[str, Any], ...] = ()

    @property
    def kwargs(self) -> dict[str, Any]:
        """The attributes by name."""
        return dict(self.attrs)


@dataclass(frozen=True)
class Item:
    """One of several results of a call."""

    of: Ref
    item: int


Value = Input | Const | Call | Item


@dataclass(frozen=True)
class Symbol:
    """A symbolic extent, the upper bound that the function states, and the sizes to run it at."""

    name: str
    sizes: tuple[int, ...]
    bound: int | None = None


@dataclass(frozen=True)
class Graph:
    """Values in the order of computation; some of them are returned."""

    seed: int
    values: tuple[Value, ...]
    outputs: tuple[int, ...]
    symbols: tuple[Symbol, ...] = ()
    arch: str = "sm_90"
    options: tuple[tuple[str, Any], ...] = ()
    extreme: bool = False

    @property
    def bindings(self) -> tuple[dict[str, int], ...]:
        """The sizes of all symbols, for each time the module is to run."""
        if not self.symbols:
            return ({},)
        names = [symbol.name for symbol in self.symbols]
        columns = zip(*(symbol.sizes for symbol in self.symbols), strict=True)
        return tuple(dict(zip(names, column, strict=True)) for column in columns)

    @property
    def inputs(self) -> dict[int, Input]:
        """The parameters, by place."""
        return {n: value for n, value in enumerate(self.values) if isinstance(value, Input)}

    @property
    def operators(self) -> tuple[str, ...]:
        """The names of the operators called."""
        return tuple(value.op for value in self.values if isinstance(value, Call))


def references(value: Any) -> Iterator[int]:
    """The places of the values that a value, or an argument, is made of."""
    if isinstance(value, Ref):
        yield value.index
    elif isinstance(value, Item):
        yield value.of.index
    elif isinstance(value, Call):
        yield from references(value.args)
        yield from references([attr for _, attr in value.attrs])
    elif isinstance(value, list | tuple):
        for part in value:
            yield from references(part)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A value or argument with Refs and Extents changed, wherever they are."""
    if isinstance(value, Ref | Extent):
        return change(value)
    if isinstance(value, Item):
        return replace(value, of=change(value.of))
    if isinstance(value, Call):
        attrs = tuple((name, mapped(attr, change)) for name, attr in value.attrs)
        return replace(value, args=mapped(value.args, change), attrs=attrs)
    if isinstance(value, Input):
        limit = value.data.limit and change(value.data.limit)
        shape = tuple(map(change, value.shape))
        return replace(value, shape=shape, data=replace(value.data, limit=limit))
    if isinstance(value, list | tuple):
        return type(value)(mapped(part, change) for part in value)
    return value


def pruned(graph: Graph) -> Graph:
    """Without the values that no output needs; parameters that give symbols their size stay."""
    needed = set(graph.outputs)
    for place in range(len(graph.values) - 1, -1, -1):
        if place in needed:
            needed.update(references(graph.values[place]))
    symbols = {name for place in needed for name in _symbols(graph.values[place])}
    while missing := symbols - _given(graph, needed):
        givers = [n for n in graph.inputs if missing & _given(graph, {n})]
        needed.add(givers[0])
        symbols |= _symbols(graph.values[givers[0]])
    places = {old: new for new, old in enumerate(sorted(needed))}
    kept = tuple(
        mapped(graph.values[old], lambda part: _moved(part, places)) for old in sorted(needed)
    )
    outputs = tuple(places[output] for output in graph.outputs)
    names = tuple(symbol for symbol in graph.symbols if symbol.name in symbols)
    return replace(graph, values=kept, outputs=outputs, symbols=names)


def _moved(part: Any, places: Mapping[int, int]) -> Any:
    return Ref(places[part.index]) if isinstance(part, Ref) else part


def _symbols(value: Value) -> set[str]:
    found: set[str] = set()

    def note(part: Any) -> Any:
        found.update(part.symbols if isinstance(part, Extent) else ())
        return part

    mapped(value, note)
    return found


def _given(graph: Graph, places: set[int]) -> set[str]:
    """The symbols that parameters have as an extent of their own."""
    extents = [e for n, value in graph.inputs.items() if n in places for e in value.shape]
    return {e.terms[0][0][0] for e in extents if e == Extent.symbol(next(iter(e.symbols), ""))}


class Builder:
    """Makes Relax of values, one after the other."""

    def __init__(self, emit: Callable[[Any], Any]) -> None:
        self.emit = emit
        self.symbols: dict[str, tirx.Var] = {}
        self.built: list[Any] = []

    def add(self, value: Value) -> Any:
        """The Relax expression of the next value."""
        self.built.append(self._built(value))
        return self.built[-1]

    def _built(self, value: Value) -> Any:
        if isinstance(value, Input):
            shape = [self.extent(extent) for extent in value.shape]
            return relax.Var(f"p{len(self.built)}", relax.TensorType(shape, value.dtype))
        if isinstance(value, Const):
            return constant(value)
        if isinstance(value, Item):
            return self.emit(relax.TupleGetItem(self.built[value.of.index], value.item))
        return self.emit(self.call(value))

    def call(self, call: Call) -> Any:
        """The call of an operator, not yet emitted."""
        function: Any = op
        for name in call.op.split("."):
            function = getattr(function, name)
        attrs = {name: self.argument(attr) for name, attr in call.attrs}
        return function(*map(self.argument, call.args), **attrs)

    def argument(self, given: Any) -> Any:
        """An argument or attribute as TVM takes it."""
        if isinstance(given, Ref):
            return self.built[given.index]
        if isinstance(given, Extent):
            return self.extent(given)
        if isinstance(given, list | tuple):
            return [self.argument(part) for part in given]
        return given

    def extent(self, extent: Extent) -> Any:
        """An extent over this module's symbols."""
        for name in extent.symbols:
            self.symbols.setdefault(name, tirx.Var(name, "int64"))
        return extent.expr(self.symbols)


def constant(value: Const) -> Any:
    """A constant tensor of Relax."""
    array = np.asarray(value.value).astype(numpy_dtype(value.dtype))
    return relax.const(array, value.dtype)


def numpy_dtype(dtype: str) -> Any:
    """The NumPy dtype of that name, bfloat16 too."""
    return np.dtype(getattr(ml_dtypes, dtype, dtype))


def module_of(graph: Graph) -> tvm.IRModule:
    """The Relax module of a graph, with one function main."""
    builder = relax.BlockBuilder()
    made = Builder(builder.emit)
    params = {place: made.add(value) for place, value in graph.inputs.items()}
    made.built = []
    attrs = {UPPER_BOUND: {s.name: s.bound for s in graph.symbols if s.bound is not None}}
    with builder.function("main", list(params.values()), attrs if attrs[UPPER_BOUND] else None):
        with builder.dataflow():
            for place, value in enumerate(graph.values):
                if place in params:
                    made.built.append(params[place])
                else:
                    made.add(value)
            results = [made.built[output] for output in graph.outputs]
            one = len(results) == 1
            result = builder.emit_output(results[0] if one else relax.Tuple(results))
        builder.emit_func_output(result)
    return builder.get()
