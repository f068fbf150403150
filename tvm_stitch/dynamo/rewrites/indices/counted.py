"""Integers that a graph counts: what they are is known when it is compiled.

In: a node of a functional graph with FakeTensors. Out: its elements as a first number and steps.
Must not know what the integers are for.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

_aten, _prims = torch.ops.aten, torch.ops.prims
_INTEGERS = (torch.int32, torch.int64)
_SAME_ORDER = frozenset({
    _aten._to_copy.default, _aten._unsafe_view.default, _aten.alias.default, _aten.clone.default,
    _aten.detach.default, _aten.reshape.default, _aten.squeeze.default, _aten.squeeze.dim,
    _aten.squeeze.dims, _aten.unsqueeze.default, _aten.view.default,
})  # fmt: skip
_MOVED = {
    _aten.add.Tensor: operator.add, _aten.add.Scalar: operator.add,
    _aten.sub.Tensor: operator.sub, _aten.sub.Scalar: operator.sub,
}  # fmt: skip


@dataclass(frozen=True)
class Counted:
    """A first number, and axes by which the elements of a tensor follow it in their order.

    An axis has a size and a step between neighbours. The tensor's own dimensions may be others:
    views leave the order as it is.
    """

    first: int
    axes: tuple[tuple[int, int], ...]

    @property
    def run(self) -> range | None:
        """The numbers, if each follows the one before by the same step upwards."""
        if not self.axes:
            return range(self.first, self.first + 1)
        ((size, step),) = self.axes if len(self.axes) == 1 else ((0, 0),)
        return range(self.first, self.first + size * step, step) if step > 0 else None


def counted(node: object) -> Counted | None:
    """What a node's elements are; None of those that are not known."""
    value = node.meta.get("val") if isinstance(node, fx.Node) else None
    if not isinstance(node, fx.Node) or not isinstance(value, torch.Tensor):
        return None
    is_known = all(isinstance(extent, int) and extent > 0 for extent in value.shape)
    if node.op != "call_function" or value.dtype not in _INTEGERS or not is_known:
        return None
    found = _read(node)
    return found if found is not None and _fits(found, value.dtype) else None


def _fits(of: Counted, dtype: torch.dtype) -> bool:
    """Whether no number is another in a type."""
    ends = [(size - 1) * step for size, step in of.axes]
    lowest = of.first + sum(end for end in ends if end < 0)
    highest = of.first + sum(end for end in ends if end > 0)
    return torch.iinfo(dtype).min <= lowest and highest <= torch.iinfo(dtype).max


def _read(node: fx.Node) -> Counted | None:
    if node.target in _SAME_ORDER:
        return counted(node.args[0])
    if node.target in _MOVED:
        return _moved(_MOVED[node.target], *node.args[:2], **node.kwargs)  # type: ignore[arg-type]
    if node.target is _aten.arange.start_step:
        start, _end, *steps = node.args
        return _run(node, start, steps[0] if steps else 1)
    if node.target is _prims.iota.default:
        return _run(node, node.kwargs.get("start", 0), node.kwargs.get("step", 1))
    return _strided(*node.args) if node.target is _aten.as_strided.default else None


def _run(node: fx.Node, start: Any, step: Any) -> Counted | None:
    if type(start) is not int or type(step) is not int:
        return None
    return Counted(start, _merged([(node.meta["val"].numel(), step)]))


def _moved(
    function: Callable[[int, int], int], of: object, by: object, alpha: object = 1
) -> Counted | None:
    """Numbers to which one is added."""
    found = counted(of)
    if found is None or type(by) is not int or alpha != 1:
        return None
    return Counted(function(found.first, by), found.axes)


def counted_memory(size: Any, stride: Any, storage_offset: Any = None) -> Counted | None:
    """What elements of memory a view of it has, by their numbers; None where they are not known."""
    numbers = (*size, *stride, storage_offset or 0)
    if not all(type(each) is int for each in numbers) or 0 in size:
        return None
    return Counted(storage_offset or 0, _merged(list(zip(size, stride, strict=True))))


def _strided(of: Any, size: Any, stride: Any, storage_offset: Any = None) -> Counted | None:
    """A view of a run's memory; its own begins where it was traced to."""
    found, value = counted(of), of.meta["val"]
    run = None if found is None else found.run
    memory = counted_memory(size, stride, storage_offset)
    if run is None or memory is None or not value.is_contiguous():
        return None
    moved = 0 if storage_offset is None else storage_offset - value.storage_offset()
    axes = tuple((extent, by * run.step) for extent, by in memory.axes)
    return Counted(run.start + moved * run.step, axes)


def _merged(axes: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """As few axes as there can be, none of them of one element."""
    found: list[tuple[int, int]] = []
    for size, step in axes:
        if size == 1:
            continue
        if found and found[-1][1] == size * step:
            size *= found.pop()[0]
        found.append((size, step))
    return tuple(found)


def let_go(node: fx.Node) -> None:
    """Erase a node that nothing reads, and what only it counted from."""
    sources = node.all_input_nodes
    if node.users or counted(node) is None:
        return
    node.graph.erase_node(node)
    for source in sources:
        let_go(source)


def is_zero(node: object) -> bool:
    """Whether a node is a tensor full of zeros."""
    return isinstance(node, fx.Node) and node.target is _aten.full.default and node.args[1] == 0
