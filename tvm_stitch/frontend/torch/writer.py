"""A Relax function under construction, node by node of a graph.

In: nodes with FakeTensors. Out: Relax values, each in the order of dimensions that its tensor has
in memory where that is known to be of use: element-wise operators and those of images are written
in it. The result of every node is checked against its FakeTensor. Must not know where a graph
begins and ends.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

import torch
import tvm
from torch import fx
from tvm import relax

from tvm_stitch.errors import TorchError, last_line
from tvm_stitch.frontend.placing import PlacingBuilder
from tvm_stitch.frontend.torch.call import Call, Converter, Expr, dims, dtype
from tvm_stitch.frontend.torch.dtypes import name_of
from tvm_stitch.frontend.torch.layout import (
    Order,
    channels_last,
    inverse,
    is_empty,
    is_laid,
    order_of,
)
from tvm_stitch.frontend.torch.ops import (
    ALONG,
    ALONG_ONE,
    ELEMENTWISE,
    IMAGES,
    LEFT,
    OPERATORS,
    SAME_MEMORY,
)
from tvm_stitch.frontend.torch.source_lines import span_of
from tvm_stitch.frontend.torch.symbols import Symbols
from tvm_stitch.stages.extents import EXPECTED_SIZES, UPPER_BOUND

ENTRY = "main"


class Laid(NamedTuple):
    """A tensor with its dimensions in another order than PyTorch counts them."""

    value: Expr
    order: Order


def operator_name(target: Any) -> str:
    """ATen's name of an operator; an overload called default is left out, and so is aten."""
    if not isinstance(target, torch._ops.OpOverload):
        return getattr(target, "__name__", str(target))
    overload = target._overloadname
    name = target._schema.name.removeprefix("aten::").replace("::", ".")
    return name if overload in ("default", "") else f"{name}.{overload}"


class Writer:
    """A Relax function under construction."""

    def __init__(self) -> None:
        self.builder = PlacingBuilder()
        self.symbols = Symbols()
        self.values: dict[fx.Node, Any] = {}
        self._orders: dict[tuple[fx.Node, Order], Expr] = {}

    def function(self, params: Sequence[relax.Var], body: Callable[[], Expr]) -> tvm.IRModule:
        """The module with one function of these parameters."""
        known = {UPPER_BOUND: self.symbols.upper, EXPECTED_SIZES: self.symbols.seen}
        attributes = {name: dict(sizes) for name, sizes in known.items() if sizes} or None
        try:
            with self.builder.function(ENTRY, list(params), attrs=attributes):
                with self.builder.dataflow():
                    result = body()
                self.builder.emit_func_output(result)
            return self.builder.finalize()
        except TorchError:
            self._abandon()
            raise
        except Exception as error:
            self._abandon()
            raise TorchError(last_line(error)) from error

    def _abandon(self) -> None:
        """Close what is open, so that TVM has nothing to warn of."""
        with suppress(Exception):
            while True:
                self.builder._end_block()

    def meet(self, value: Any) -> None:
        """Know the symbols of a traced value."""
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(each, torch.Tensor):
                self.symbols.extents(each.shape)
            elif isinstance(each, (torch.SymInt, torch.SymFloat)):
                self.symbols(each)

    def run(self, graph: fx.Graph) -> None:
        """Convert every node."""
        for node in graph.nodes:
            if node.op == "call_function":
                self.node(node)
            elif node.op not in ("placeholder", "output"):
                raise TorchError(f"{node.name}: {node.op} {node.target} is no operator")
        self.builder.span = None

    def node(self, node: fx.Node) -> None:
        """Convert one node, and check what came out."""
        if node.target is operator.getitem:
            whole, index = node.args
            self.values[node] = self.values[whole][index]
            return
        traced = node.meta.get("val")
        if isinstance(traced, (torch.SymInt, torch.SymFloat, int, float)):
            self.values[node] = self.symbols(traced)
            return
        name = operator_name(node.target)
        self.builder.span = span_of(node)
        try:
            self.values[node] = self._converted(node, name)
        except TorchError as error:
            raise TorchError(f"{name}: {error}") from error
        except Exception as error:
            raise TorchError(f"{name}: {last_line(error)}") from error

    def plain(self, node: fx.Node) -> Any:
        """A value with its dimensions as PyTorch counts them; of a tuple, all of them."""
        value = self.values[node]
        if isinstance(value, Laid):
            return self.laid(node, tuple(range(len(value.order))))
        if isinstance(value, tuple):
            return tuple(
                self._turned(each.value, inverse(each.order)) if isinstance(each, Laid) else each
                for each in value
            )
        return value

    def laid(self, node: fx.Node, order: Order) -> Expr:
        """A tensor with its dimensions in this order, of which those that it lacks are of 1."""
        key = node, order
        if key not in self._orders:
            self._orders[key] = self._in_order(self.values[node], order)
        return self._orders[key]

    def _in_order(self, value: Any, order: Order) -> Expr:
        if isinstance(value, Laid):
            if value.order == order:
                return value.value
            if len(value.order) == len(order):
                return self._turned(value.value, tuple(value.order.index(axis) for axis in order))
            value = self._turned(value.value, inverse(value.order))
        lacking = len(order) - len(dims(value))
        if lacking:
            value = self.builder.emit(relax.op.reshape(value, [*[1] * lacking, *dims(value)]))
        return self._turned(value, order)

    def _turned(self, value: Expr, order: Order) -> Expr:
        if order == tuple(range(len(order))):
            return value
        extents = dims(value)
        long = [axis for axis in order if not isinstance(extents[axis], int) or extents[axis] != 1]
        if long == sorted(long):  # nothing moves
            return self.builder.emit(relax.op.reshape(value, [extents[axis] for axis in order]))
        return self.builder.emit(relax.op.permute_dims(value, list(order)))

    def nothing(self, traced: torch.Tensor) -> Expr:
        """A tensor without elements, whatever would compute them."""
        extents = self.symbols.extents(traced.shape)
        return self.builder.emit(relax.op.zeros(extents, name_of(traced.dtype)))

    def _converted(self, node: fx.Node, name: str) -> Any:
        converter = OPERATORS.get(name)
        if converter is None:
            raise TorchError(LEFT.get(name, "it has no counterpart in Relax"))
        traced = node.meta["val"]
        if is_empty(traced):
            return self.nothing(traced)
        if name in ALONG and (found := self._reduced(node, converter)) is not None:
            return found
        if name in SAME_MEMORY and (viewed := self._viewed(node)) is not None:
            return viewed
        order = self._order_along(name, node) or _order_of_work(name, node)
        of_images = order is not None and name in IMAGES
        positional, named, given = [], {}, []
        for argument, value in arguments(node):
            given.append(fx.map_arg(value, lambda n: n.meta["val"]))
            known = self._known(value, order, of_images)
            if order is not None and name in ALONG_ONE and argument.name == "dim":
                known = order.index(known % len(order))
            if argument.kwarg_only:
                named[argument.name] = known
            else:
                positional.append(known)
        result_as_laid = _permuted(traced, order)
        call = Call(node.target, given, result_as_laid, self.builder, self.symbols, of_images)
        result = converter(call, *positional, **named)
        _check(result, result_as_laid, self.symbols)
        if order is None:
            return result
        return _laid(result, order)

    def _order_along(self, name: str, node: fx.Node) -> Order | None:
        """Channels last, where signals or images lie so that are cut or put side by side."""
        if name not in ALONG_ONE:
            return None
        sources = node.args[0] if isinstance(node.args[0], (list, tuple)) else [node.args[0]]
        values = [self.values.get(source) for source in sources]  # type: ignore[arg-type]
        orders = {each.order if isinstance(each, Laid) else () for each in values}
        (order,) = orders if len(orders) == 1 else [()]
        return order if len(order) > 2 and order == channels_last(len(order)) else None

    def _viewed(self, node: fx.Node) -> Laid | None:
        """A tensor that lies in another order under another shape, where that moves nothing."""
        source, traced = node.args[0], node.meta["val"]
        value = self.values.get(source)  # type: ignore[arg-type]
        if not isinstance(value, Laid) or not is_laid(source.meta["val"], value.order):  # type: ignore[union-attr]
            return None
        order = order_of(traced)
        if not is_laid(traced, order):
            return None
        extents = self.symbols.extents(traced.shape)
        stored = relax.op.reshape(value.value, [extents[axis] for axis in order])
        return Laid(self.builder.emit(stored), order)

    def _reduced(self, node: fx.Node, converter: Converter) -> Any:
        """A reduction along dimensions of a tensor that lies in another order, if it is that."""
        arguments_of = {argument.name: value for argument, value in arguments(node)}
        source, axes, keep = (arguments_of[name] for name in ("self", "dim", "keepdim"))
        value = self.values[source]
        if not isinstance(value, Laid) or not value.order or not axes:
            return None
        order, traced = value.order, node.meta["val"]
        reduced = {axis % len(order) for axis in ([axes] if isinstance(axes, int) else axes)}
        left = [axis for axis in order if keep or axis not in reduced]
        numbers = sorted(left)
        result_order = tuple(numbers.index(axis) for axis in left)
        places = [place for place, axis in enumerate(order) if axis in reduced]
        result_as_laid = _permuted(traced, result_order)
        given = [source.meta["val"], axes, keep]
        call = Call(node.target, given, result_as_laid, self.builder, self.symbols)
        more = {n: arguments_of[n] for n in ("correction",) if n in arguments_of}
        result = converter(call, value.value, dim=places, keepdim=keep, **more)
        _check(result, result_as_laid, self.symbols)
        return _laid(result, result_order)

    def _known(self, value: Any, order: Order | None, of_images: bool) -> Any:
        """An argument as converters take it."""
        if isinstance(value, fx.Node):
            tensor = value.meta.get("val")
            if order is None or not isinstance(tensor, torch.Tensor) or not tensor.dim():
                return self.plain(value)
            if of_images and tensor.dim() != len(order):
                return self.plain(value)
            return self.laid(value, order)
        if isinstance(value, (list, tuple)):
            return [self._known(each, order, of_images) for each in value]
        if isinstance(value, (torch.SymInt, torch.SymFloat)):
            return self.symbols(value)
        if isinstance(value, complex):
            raise TorchError("complex numbers")
        return value


def _order_of_work(name: str, node: fx.Node) -> Order | None:
    """The order of dimensions in which an operator is written, if not in PyTorch's."""
    traced = node.meta["val"]
    if name in ELEMENTWISE and isinstance(traced, torch.Tensor):
        order = order_of(traced)
        return None if order == tuple(range(len(order))) else order
    if name == "convolution_backward":  # that for the images may not be asked for
        return _channels_last([each.meta["val"] for each in node.args[:2]])  # type: ignore[union-attr]
    if name in IMAGES:
        return _channels_last([traced[0] if isinstance(traced, (list, tuple)) else traced])
    return None


def _channels_last(tensors: Sequence[torch.Tensor]) -> Order | None:
    """Channels last, where all of some images lie so, and not all of them as others do as well."""
    rank = tensors[0].dim()
    plain, last = tuple(range(rank)), channels_last(rank)
    if rank not in (4, 5) or not all(is_laid(each, last) for each in tensors):
        return None
    return None if all(is_laid(each, plain) for each in tensors) else last


def _permuted(traced: Any, order: Order | None) -> Any:
    """Traced tensors with their dimensions in another order, but for those that have others."""
    if order is None or traced is None:
        return traced
    if isinstance(traced, (list, tuple)):
        return tuple(_permuted(each, order) for each in traced)
    return traced.permute(order) if traced.dim() == len(order) else traced


def _laid(result: Any, order: Order) -> Any:
    """What an operator gives that is written in this order."""
    if isinstance(result, (list, tuple)):
        return tuple(_laid(each, order) for each in result)
    return Laid(result, order) if result is not None and len(dims(result)) == len(order) else result


def arguments(node: fx.Node) -> Iterable[tuple[Any, Any]]:
    """The arguments of a call in the schema's order, defaults filled in."""
    named: Mapping[str, Any] = node.kwargs
    for place, argument in enumerate(node.target._schema.arguments):
        if not argument.kwarg_only and place < len(node.args):
            yield argument, node.args[place]
        else:
            yield argument, named.get(argument.name, argument.default_value)


def _check(result: Any, expected: Any, symbols: Symbols) -> None:
    """What came out is what PyTorch says: a TorchError where it is not."""
    if isinstance(expected, (list, tuple)):
        for value, traced in zip(result, expected, strict=True):
            _check(value, traced, symbols)
        return
    if expected is None or result is None:
        if expected is not result:
            raise TorchError("a result is missing")
        return
    if result.ty.shape is None:
        raise TorchError("sizes are broadcast that are equal for all that PyTorch knows, or 1")
    found, wanted = dims(result), symbols.extents(expected.shape)
    same = len(found) == len(wanted) and all(map(symbols.same, found, wanted))
    if not same or dtype(result) != name_of(expected.dtype):
        shape = ", ".join(map(str, wanted))
        raise TorchError(
            f"it became {dtype(result)} of ({', '.join(map(str, found))}); PyTorch says "
            f"{name_of(expected.dtype)} of ({shape})"
        )
