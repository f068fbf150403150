"""The least graph that fails as a seed does: fewer outputs and values, smaller extents.

Greedy: a change that still fails the same way is kept, until none is.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tests.outside.graphs.extent import Extent
from tests.outside.graphs.graph import (
    Call,
    Const,
    Data,
    Graph,
    Input,
    Item,
    Ref,
    mapped,
    module_of,
    pruned,
    references,
)
from tests.outside.graphs.meaning import evaluated
from tests.outside.graphs.number import Number
from tests.outside.graphs.outcome import FAILURES, Outcome
from tests.outside.graphs.script import script
from tests.outside.graphs.worker import Worker

LITERAL = 4096  # elements of an input that takes over what was computed


def minimize(seed: int, settings: Any, timeout: float, time_limit: float | None) -> str:
    """A script of the least graph found, or why there is none."""
    worker = Worker(settings, timeout)
    end = time.monotonic() + (time_limit or 1200.0)
    try:
        graph = settings.graph(seed)
        wanted = worker.ask(graph)
        if wanted.kind not in FAILURES and wanted.kind not in ("tvm", "tvm-other", "executor"):
            return f"seed {seed} does not fail: {wanted}"
        print(f"{wanted} ({wanted.where})", file=sys.stderr)
        graph, last = smallest(graph, wanted, worker, end)
        return script(graph, f"{last}\n{last.where}")
    finally:
        worker.close()


def smallest(graph: Graph, wanted: Outcome, worker: Worker, end: float) -> tuple[Graph, Outcome]:
    """The least graph that fails the same way, and how it does."""
    last, changed = wanted, True
    while changed:
        changed = False
        for candidate in _smaller(graph):
            if time.monotonic() > end:
                return graph, last
            found = _tried(candidate, worker)
            if found is not None and same(found, wanted):
                print(f"  {len(candidate.values)} values, {found}", file=sys.stderr)
                graph, last, changed = candidate, found, True
                break
    return graph, last


def same(found: Outcome, wanted: Outcome) -> bool:
    """Whether it is the same failure, as far as a signature tells."""
    if found.kind != wanted.kind:
        return False
    return found.kind in ("wrong", "launches", "hang", "hazard") or found.where == wanted.where


def _tried(graph: Graph, worker: Worker) -> Outcome | None:
    """None where the graph is none."""
    try:
        module_of(graph)
        evaluated(graph)
    except Exception:
        return None
    return worker.ask(graph)


def _smaller(graph: Graph) -> Iterator[Graph]:
    """Graphs with something less, those that lose most first."""
    count = len(graph.outputs)
    for size in (count // 2, 1):
        if 0 < size < count:
            for first in range(0, count, size):
                kept = graph.outputs[:first] + graph.outputs[first + size :]
                yield pruned(replace(graph, outputs=kept or graph.outputs[:1]))
    if len(graph.bindings) > 1:
        for number in range(len(graph.bindings)):
            symbols = tuple(replace(s, sizes=(s.sizes[number],)) for s in graph.symbols)
            yield replace(graph, symbols=symbols)
    for place in reversed(graph.outputs):
        # What is returned instead: what the output was computed from.
        for operand in references(graph.values[place]):
            outputs = tuple(operand if output == place else output for output in graph.outputs)
            if isinstance(graph.values[operand], Call | Item):
                yield pruned(replace(graph, outputs=tuple(dict.fromkeys(outputs))))
    yield from _without_values(graph)
    if graph.options:
        yield replace(graph, options=())
    yield from _static(graph)
    yield from _shrunk(graph)
    yield from _plain(graph)


def _without_values(graph: Graph) -> Iterator[Graph]:
    """Each call becomes one of its operands, or a parameter that holds its value."""
    numbers = evaluated(graph)
    for place in range(len(graph.values) - 1, -1, -1):
        value, number = graph.values[place], numbers[place]
        if not isinstance(value, Call | Item) or not isinstance(number, Number):
            continue
        for operand in references(value):
            other = numbers[operand]
            if isinstance(other, Number) and _alike(other, number):
                yield pruned(_replaced(graph, place, operand))
        literal = number.value.tolist() if number.value.size <= LITERAL else None
        if len(graph.bindings) == 1 and not graph.symbols:
            shape = tuple(Extent.of(extent) for extent in number.value.shape)
            for data in (Data("normal"), Data("normal", literal=literal)):
                given = Input(number.dtype, shape, data)
                values = (*graph.values[:place], given, *graph.values[place + 1 :])
                if place not in graph.outputs:
                    yield pruned(replace(graph, values=values))


def _alike(left: Number, right: Number) -> bool:
    return (left.dtype, left.value.shape) == (right.dtype, right.value.shape)


def _replaced(graph: Graph, place: int, operand: int) -> Graph:
    def change(part: Any) -> Any:
        return Ref(operand) if isinstance(part, Ref) and part.index == place else part

    values = tuple(mapped(value, change) for value in graph.values)
    outputs = tuple(operand if output == place else output for output in graph.outputs)
    return replace(graph, values=values, outputs=tuple(dict.fromkeys(outputs)))


def _static(graph: Graph) -> Iterator[Graph]:
    """Without a symbol: its first size in its place; or without its bound."""
    for symbol in graph.symbols:
        if len(symbol.sizes) == 1:
            size = {symbol.name: symbol.sizes[0]}
            yield replace(
                _extents(graph, lambda extent, size=size: extent.substitute(size)),
                symbols=tuple(other for other in graph.symbols if other != symbol),
            )
            for fewer in _fewer(symbol.sizes[0]):
                others = tuple(
                    replace(other, sizes=(fewer,)) if other == symbol else other
                    for other in graph.symbols
                )
                yield replace(graph, symbols=others)
        if symbol.bound is not None:
            others = tuple(
                replace(other, bound=None) if other == symbol else other for other in graph.symbols
            )
            yield replace(graph, symbols=others)


def _shrunk(graph: Graph) -> Iterator[Graph]:
    """Smaller numbers wherever a number stands, in shapes and attributes alike."""
    sizes = {e.constant for value in graph.inputs.values() for e in value.shape}
    for size in sorted((n for n in sizes if n is not None and n > 1), reverse=True):
        for fewer in _fewer(size):
            yield _numbers(graph, size, fewer)


def _fewer(size: int) -> list[int]:
    tried = (1, 2, 3, 5, size // 8, size // 4, size // 2, size - 1)
    return sorted({n for n in tried if 0 < n < size})


def _extents(graph: Graph, change: Any) -> Graph:
    values = tuple(
        mapped(value, lambda part: change(part) if isinstance(part, Extent) else part)
        for value in graph.values
    )
    return replace(graph, values=values)


def _numbers(graph: Graph, size: int, fewer: int) -> Graph:
    """One number becomes another in all shapes, and in attributes that hold it."""

    def extent(found: Extent) -> Extent:
        return Extent.of(fewer) if found.constant == size else found

    def attribute(given: Any) -> Any:
        if isinstance(given, list | tuple):
            return type(given)(attribute(part) for part in given)
        whole = isinstance(given, int) and not isinstance(given, bool)
        return fewer if whole and given == size else given

    changed = _extents(graph, extent)
    values = tuple(
        replace(value, attrs=tuple((name, attribute(attr)) for name, attr in value.attrs))
        if isinstance(value, Call)
        else value
        for value in changed.values
    )
    return replace(changed, values=values)


def _plain(graph: Graph) -> Iterator[Graph]:
    """Simple data, simple constants, the usual architecture."""
    if graph.arch != "sm_90":
        yield replace(graph, arch="sm_90")
    for place, value in enumerate(graph.values):
        if isinstance(value, Input) and value.data.kind not in ("normal", "index", "small"):
            given = replace(value, data=Data("normal"))
        elif isinstance(value, Const) and value.value not in (1, 1.0):
            given = replace(value, value=1)
        else:
            continue
        yield replace(graph, values=(*graph.values[:place], given, *graph.values[place + 1 :]))
