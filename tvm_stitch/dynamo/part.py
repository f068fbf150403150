"""One of our parts of a graph, as a module that the graph calls.

In: a submodule of ATen operators. Out: a module that computes the same by stitched kernels, or by
those operators where that is not possible. Must not know the rest of the graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import Any

import torch
from torch import fx
from torch.utils._sympy.printers import PythonPrinter

from tvm_stitch.dynamo.machine import Machine, Results
from tvm_stitch.dynamo.sizes import Formula
from tvm_stitch.errors import SimtError
from tvm_stitch.frontend.torch.convert import Converted, Source
from tvm_stitch.frontend.torch.layout import Order, inverse, is_laid

# Bytes of the widest vectors that are loaded, by the kind of device.
ALIGNMENTS = {"cpu": 64, "cuda": 16}


@dataclass(frozen=True)
class Interface:
    """How a part takes and returns tensors; it can be pickled.

    inputs: the tensors that its machine is given, by number, with the order of their dimensions in
        memory where that is not PyTorch's.
    outputs: what makes a result of each that the machine returns, where it is not that already.
    empty: what makes the results that are known to have no elements, by number.
    over: results by number, and the inputs that are to become them.
    in_place: whether the machine may write results over inputs, those among them.
    """

    symbols: tuple[Source, ...]
    inputs: tuple[tuple[int, Order | None], ...]
    outputs: tuple[Callable[[Any], torch.Tensor] | None, ...]
    empty: tuple[tuple[int, Callable[[], torch.Tensor]], ...]
    over: tuple[tuple[int, int], ...]
    alignment: int
    in_place: bool = False

    @staticmethod
    def of(
        graph: fx.Graph,
        converted: Converted,
        device: torch.device,
        over: Mapping[int, int] | None = None,
        in_place: bool = False,
    ) -> Interface:
        """That of a graph on a device."""
        results = list(enumerate(zip(_values(graph), converted.outputs, strict=True)))
        return Interface(
            converted.symbols,
            tuple((n, _unless_plain(order)) for n, order in converted.inputs),
            tuple(_turned(order, value) for _, (value, order) in results if order is not None),
            tuple(
                (n, partial(torch.empty, value.shape, dtype=value.dtype, device=device))
                for n, (value, order) in results
                if order is None
            ),
            tuple((over or {}).items()),
            ALIGNMENTS[device.type],
            in_place,
        )


def forward_of(graph: fx.GraphModule) -> Callable[..., Any]:
    """What a graph computes, as a function with its modules at hand.

    As a module it would look for its code and for each of its parts at every call, in 3 us.
    """
    # PyTorch may have put off compiling the code, and would ask at every call whether it has.
    getattr(graph, "real_recompile", graph.recompile)()
    vars(graph).update(graph.named_children())
    return graph.forward


class Part(torch.nn.Module):
    """Calls a machine with tensors as they lie in memory; with sizes of 0, PyTorch's operators.

    Only what has gaps, or begins in the middle of a vector, is copied. Where the machine cannot be
    run (the driver may refuse a kernel), PyTorch's operators take its place for good.
    """

    def __init__(
        self,
        eager: Callable[..., tuple[torch.Tensor, ...]],
        interface: Interface,
        machine: Machine,
        failed: Callable[[Exception], None],
    ) -> None:
        super().__init__()
        self.eager = eager
        self.interface = interface
        self.machine: Machine | None = machine
        self._failed = failed
        self._has_run = False

    def __call__(self, *given: Any) -> tuple[torch.Tensor, ...]:
        """The part's results; nothing is copied that is dense."""
        interface, machine = self.interface, self.machine
        sizes = tuple([_size(source, given) for source in interface.symbols])
        if machine is None or 0 in sizes:
            return self._written(given, self.eager(*given))
        tensors = []
        for number, order in interface.inputs:
            tensor = given[number] if order is None else given[number].permute(order)
            if not tensor.is_contiguous():
                tensor = tensor.contiguous()
            elif tensor.data_ptr() % interface.alignment and tensor.numel() > 1:
                tensor = tensor.clone()
            tensors.append(tensor)
        try:
            # Until it is known to run, nothing is overwritten that would have to be there still.
            in_place = self._has_run and interface.in_place
            results = machine(sizes, tensors, in_place)
        except (torch.OutOfMemoryError, SimtError, IndexError):
            raise
        except Exception as error:
            if in_place:
                raise
            self.machine = None
            self._failed(error)
            return self._written(given, self.eager(*given))
        if not self._has_run:  # to set what a module has is slow
            self._has_run = True
        turned = [
            result if turn is None else turn(result)
            for result, turn in zip(results, interface.outputs, strict=True)
        ]
        for number, make in interface.empty:
            turned.insert(number, make())
        return self._written(given, tuple(turned))

    def _written(
        self, given: Sequence[Any], results: tuple[torch.Tensor, ...]
    ) -> tuple[torch.Tensor, ...]:
        """The results, of which some are in the inputs that they shall become.

        The others are copied there by one launch for each dtype: a model has two for every norm.
        """
        pending: dict[torch.dtype, tuple[list[torch.Tensor], list[torch.Tensor]]] = {}
        for number_of_result, number in self.interface.over:
            result, target = results[number_of_result], given[number]
            if result.data_ptr() != target.data_ptr():
                targets, values = pending.setdefault(result.dtype, ([], []))
                targets.append(target)
                values.append(result)
        for targets, values in pending.values():
            torch._foreach_copy_(targets, values)
        return results


def _size(source: Source, given: Sequence[Any]) -> int:
    value = given[source.input]
    return int(value if source.dim is None else value.shape[source.dim])


def _turned(order: Order, traced: torch.Tensor) -> Callable[[Any], torch.Tensor] | None:
    """What makes a result of one that comes in this order of dimensions; None if it is that."""
    if is_laid(traced, order) and all(isinstance(extent, int) for extent in traced.shape):
        made = torch.empty([traced.shape[axis] for axis in order], device="meta")
        if made.permute(inverse(order)).stride() != traced.stride():
            # Dimensions of 1 have any stride; optimizers compare those of gradients and parameters.
            return methodcaller("as_strided", traced.shape, traced.stride())
    back = _unless_plain(inverse(order))
    return None if back is None else methodcaller("permute", back)


def _unless_plain(order: Order) -> Order | None:
    return None if order == tuple(range(len(order))) else order


def results_of(
    graph: fx.Graph, converted: Converted, over: Mapping[int, int] | None = None
) -> Results:
    """How the results of a part are made, in the order of their memory.

    `over` has the numbers of results, with those of inputs that they may be written over.
    """
    pairs = zip(_values(graph), converted.outputs, strict=True)
    numbered = [(n, value, order) for n, (value, order) in enumerate(pairs) if order is not None]
    kept = [(value, order) for _, value, order in numbered]
    place = {number: at for at, (number, _) in enumerate(converted.inputs)}
    tensors = tuple(
        (at, place[(over or {})[n]]) for at, (n, _, _) in enumerate(numbered) if n in (over or {})
    )
    shapes = [tuple(value.shape[axis] for axis in order) for value, order in kept]
    dtypes = tuple(value.dtype for value, _order in kept)
    return Results(_shapes(graph, converted, shapes), dtypes, tensors)


def _values(graph: fx.Graph) -> list[torch.Tensor]:
    """The results as PyTorch traced them."""
    (output,) = graph.find_nodes(op="output")
    return [node.meta["val"] for node in output.args[0]]


def _shapes(graph: fx.Graph, converted: Converted, shapes: Sequence[tuple[Any, ...]]) -> Formula:
    """The shapes as a function of the values of the symbols."""
    inputs = [node.meta["val"] for node in graph.find_nodes(op="placeholder")]
    names = [
        str((value if dim is None else value.shape[dim]).node.expr)
        for value, dim in ((inputs[s.input], s.dim) for s in converted.symbols)
    ]
    written = ", ".join(f"({''.join(f'{_written(e)}, ' for e in shape)})" for shape in shapes)
    # Sizes are sums, products and quotients, which PyTorch itself prints as Python.
    return Formula(tuple(names), f"[{written}]")


def _written(extent: Any) -> str:
    return str(extent) if isinstance(extent, int) else PythonPrinter().doprint(extent.node.expr)
