"""From a functional ATen graph to Relax.

In: a torch.fx graph whose nodes carry FakeTensors, as AOTAutograd and torch.export leave them. Out:
a Relax module with one function, or a TorchError that names the node. The result of every node is
checked against its FakeTensor. Must not know which parts of a graph are worth converting.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
import tvm
from torch import fx
from tvm import relax

from tvm_stitch.errors import TorchError
from tvm_stitch.frontend.torch.call import Expr, is_tensor
from tvm_stitch.frontend.torch.dtypes import name_of
from tvm_stitch.frontend.torch.layout import Order, is_empty, is_laid, order_of
from tvm_stitch.frontend.torch.ops import LEFT, OPERATORS
from tvm_stitch.frontend.torch.symbols import Symbols
from tvm_stitch.frontend.torch.writer import Laid, Writer, operator_name
from tvm_stitch.stages.stage import Refused


@dataclass(frozen=True)
class Source:
    """Where a call finds the value of a symbol: an input, and its dimension if it is a tensor."""

    input: int
    dim: int | None = None


@dataclass(frozen=True)
class Converted:
    """A graph as a Relax module.

    `main` takes the values of the symbols as one shape, if there are any, and then the tensors
    among the graph's inputs, each by the order of its dimensions in memory; so it returns a tuple.
    Tensors that are known to have no elements it neither takes nor returns.
    """

    module: tvm.IRModule
    symbols: tuple[Source, ...]
    inputs: tuple[tuple[int, Order], ...]  # the tensors among the inputs
    outputs: tuple[Order | None, ...]  # None for what has no elements
    operators: tuple[str, ...]


def convert(graph: fx.Graph, stored: bool = True) -> Converted:
    """Convert a graph that takes and returns tensors as they lie in memory.

    Without `stored`, `main` takes and returns them in their own shapes, and no symbols.
    """
    inputs = [node for node in graph.nodes if node.op == "placeholder"]
    values = [node.meta["val"] for node in inputs]
    # What is known to have no elements is made, not passed.
    empty = {n for n, value in enumerate(values) if stored and is_empty(value)}
    tensors = [
        n for n, value in enumerate(values) if isinstance(value, torch.Tensor) and n not in empty
    ]
    order = order_of if stored else _plain
    orders = {n: order(values[n]) for n in tensors}
    results = _results(graph)
    out_orders: list[Order | None] = []
    writer = Writer()
    shapes = {n: writer.symbols.extents(values[n].shape) for n in tensors}
    for node in graph.nodes:  # meets every symbol before the parameters are made
        writer.meet(node.meta.get("val"))
    sources = _sources(values, writer.symbols)
    params = {
        n: _parameter(inputs[n].name, [shapes[n][axis] for axis in orders[n]], values[n])
        for n in tensors
    }
    symbols = [relax.Var("symbols", relax.ShapeType(list(sources)))] if sources and stored else []

    def body() -> Expr:
        for n, node in enumerate(inputs):
            if n in params:
                writer.values[node] = Laid(params[n], orders[n])
            elif n in empty:
                writer.values[node] = writer.nothing(values[n])
            elif isinstance(values[n], (torch.SymInt, torch.SymFloat, int, float)):
                writer.values[node] = writer.symbols(values[n])
        writer.run(graph)
        out_orders.extend(
            _order_of_result(writer.values[node], node.meta["val"]) if stored else
            _plain(node.meta["val"])
            for node in results
        )  # fmt: skip
        turned = [
            writer.laid(node, order)
            for node, order in zip(results, out_orders, strict=True)
            if order is not None
        ]
        return relax.Tuple([writer.builder.emit_output(value) for value in turned])

    module = writer.function([*symbols, *params.values()], body)
    names = (operator_name(node.target) for node in graph.nodes if node.op == "call_function")
    return Converted(
        module,
        tuple(sources.values()),
        tuple(orders.items()),
        tuple(out_orders),
        tuple(name for name in names if name != "getitem"),
    )


def refusal(node: fx.Node) -> Refused | None:
    """Why a node has no counterpart in Relax, if it has none: it is converted by itself."""
    if node.target is operator.getitem:
        return None
    if not isinstance(node.target, torch._ops.OpOverload):
        return Refused("it is no ATen operator")
    name = operator_name(node.target)
    if name not in OPERATORS:
        return Refused(LEFT.get(name, "it has no counterpart in Relax"))
    return _trial(_Trial(node))


class _Trial:
    """A node, equal to others that ask the same of their converter."""

    def __init__(self, node: fx.Node) -> None:
        self.node = node
        given = fx.map_arg((node.args, dict(node.kwargs)), lambda n: _Described(n.meta.get("val")))
        self.key = f"{node.target}{given}{_Described(node.meta.get('val'))}"
        if node.target is torch.ops.aten.as_strided.default:
            source = node.args[0].meta["val"]  # type: ignore[union-attr]
            self.key += f"{source.stride()}{source.storage_offset()}"

    def __hash__(self) -> int:
        return hash(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Trial) and self.key == other.key


class _Described:
    """A traced value by what a converter may ask of it."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def __repr__(self) -> str:
        value = self.value
        if isinstance(value, (list, tuple)):
            return str([_Described(each) for each in value])
        if isinstance(value, torch.Tensor):
            return f"{value.dtype}{tuple(value.shape)}{order_of(value)}"
        return f"{type(value).__name__}({value})"


@lru_cache(maxsize=4096)
def _trial(trial: _Trial) -> Refused | None:
    node = trial.node
    writer = Writer()
    try:
        params = {}
        for each in node.all_input_nodes:
            value = each.meta.get("val")
            if isinstance(value, torch.Tensor):
                extents = writer.symbols.extents(value.shape)
                order = order_of(value)
                stored = [extents[axis] for axis in order]
                params[each] = Laid(_parameter(each.name, stored, value), order)
            else:
                writer.values[each] = writer.symbols(value)
        writer.meet(node.meta.get("val"))
        variables = list(writer.symbols.variables.values())
        symbols = [relax.Var("symbols", relax.ShapeType(variables))] if variables else []

        def body() -> Expr:
            writer.values.update(params)
            writer.node(node)
            result = writer.plain(node)
            leaves = (
                [result] if is_tensor(result) else [each for each in result if each is not None]
            )
            return relax.Tuple([writer.builder.emit_output(leaf) for leaf in leaves])

        writer.function([*symbols, *(each.value for each in params.values())], body)
    except TorchError as error:
        return Refused(str(error).removeprefix(f"{operator_name(node.target)}: "))
    return None


def _parameter(name: str, extents: Sequence[Any], value: torch.Tensor) -> relax.Var:
    return relax.Var(name, relax.TensorType(list(extents), name_of(value.dtype)))


def _order_of_result(value: Any, traced: torch.Tensor) -> Order | None:
    """The order in which a result is given: of those that are the same memory the value's own.

    With dimensions of 1 there are several.
    """
    if is_empty(traced):
        return None
    is_fixed = all(isinstance(extent, int) for extent in traced.shape)
    if is_fixed and isinstance(value, Laid) and is_laid(traced, value.order):
        return value.order
    return order_of(traced)


def _plain(tensor: torch.Tensor) -> Order:
    return tuple(range(tensor.dim()))


def _results(graph: fx.Graph) -> list[fx.Node]:
    """The nodes whose values a graph returns, which must be tensors; None is left out."""
    (output,) = graph.find_nodes(op="output")
    returned = output.args[0]
    several = [returned] if isinstance(returned, fx.Node) else returned
    results = [value for value in several if value is not None]
    for value in results:
        if not isinstance(value, fx.Node) or not isinstance(value.meta["val"], torch.Tensor):
            raise TorchError(f"the graph returns {value}, which is no tensor")
    return results


def _sources(values: Sequence[Any], symbols: Symbols) -> dict[Any, Source]:
    """Where each symbol is found, by its variable."""
    found: dict[Any, Source] = {}
    for number, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            for dim, extent in enumerate(value.shape):
                _note(found, symbols, extent, Source(number, dim))
        else:
            _note(found, symbols, value, Source(number))
    missing = [v.name for v in symbols.variables.values() if v not in found]
    if missing:
        raise TorchError(f"no input is of size {', '.join(missing)}")
    return found


def _note(found: dict[Any, Source], symbols: Symbols, value: Any, source: Source) -> None:
    if isinstance(value, torch.SymInt):
        variable = symbols.variables.get(value.node.expr)
        if variable is not None:
            found.setdefault(variable, source)
