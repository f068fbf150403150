"""Gradients of chunks that overlap are sums of what is moved.

In: a functional graph with FakeTensors. Out: the same graph; where windows of a tensor's memory
(`as_strided`) put their gradients back, slices of them are moved to where they began and added.
PyTorch knows no more of such a gradient than that memory is counted, and adds each element at its
number: rows of one element to kernels of ours, the half of a Longformer's backward pass. Windows of
other steps stay what they are. Must not know what becomes of the graph.
"""

from __future__ import annotations

from math import prod

import torch
from torch import fx

from tvm_stitch.dynamo.rewrites.indices.counted import (
    Counted,
    counted,
    counted_memory,
    is_zero,
    let_go,
)
from tvm_stitch.frontend.torch.rewrites.calls import Calls

_aten = torch.ops.aten
_HALVES = (torch.float16, torch.bfloat16)
# Of an element, at most.
_MOST_SUMMED = 16


def with_sums_of_chunks(graph: fx.Graph) -> None:
    """Put sums where elements are added at windows of counted memory, or put where they do not
    overlap."""
    for node in graph.find_nodes(op="call_function", target=_aten.index_put.default):
        x, indices, values, *accumulate = node.args
        index = indices[0] if len(indices) == 1 else None  # type: ignore[arg-type, index]
        found = counted(index) if accumulate == [True] else None
        if found is None or values.meta["val"].shape != index.meta["val"].shape:  # type: ignore[union-attr]
            continue
        if _replaced(node, x, values, found):  # type: ignore[arg-type]
            let_go(index)  # type: ignore[arg-type]
    for node in graph.find_nodes(op="call_function", target=_aten.as_strided_scatter.default):
        x, values, *memory = node.args
        found = counted_memory(*memory)
        if found is not None and is_zero(x):
            _replaced(node, x, values, found, most=1)  # type: ignore[arg-type]


def _replaced(
    node: fx.Node, x: fx.Node, values: fx.Node, found: Counted, most: int = _MOST_SUMMED
) -> bool:
    """Whether a node is now what is there, and values added to it; of one dimension, as memory."""
    memory = x.meta["val"]
    if memory.dim() != 1 or memory.dtype is torch.bool or memory.storage_offset():
        return False
    if values.meta["val"].device != memory.device:
        return False
    if not memory.is_contiguous() or not _is_summed(found, memory.shape[0], most):
        return False
    calls = Calls(node)
    return calls.replace_by(_summed(calls, x, values, found))


def _is_summed(found: Counted, size: object, most: int) -> bool:
    """Whether all windows lie in the memory, forwards, and at most so many share an element."""
    last = found.first + sum((count - 1) * step for count, step in found.axes)
    if found.first < 0 or any(step < 1 for _count, step in found.axes):
        return False
    return isinstance(size, int) and last < size and _summands(found) <= most


def _outwards(found: Counted) -> list[int]:
    """The axes, from that of the smallest step."""
    return sorted(range(len(found.axes)), key=lambda axis: found.axes[axis][1])


def _overlaps(found: Counted) -> list[int]:
    """Of each axis outwards, how many of its windows share an element; 1 where none do."""
    extent, overlaps = 1, []
    for count, step in (found.axes[axis] for axis in _outwards(found)):
        overlaps.append(max(1, -(-extent // step)))
        extent = (count + overlaps[-1] - 1) * step
    return overlaps


def _summands(found: Counted) -> int:
    return prod(_overlaps(found))


def _summed(calls: Calls, x: fx.Node, values: fx.Node, found: Counted) -> fx.Node:
    """A tensor's memory and what is added to it."""
    memory, own = x.meta["val"], values
    wide = memory.dtype in _HALVES and _summands(found) + (not is_zero(x)) > 2
    if not own.meta["val"].is_contiguous():
        own = calls(_aten.clone.default, own, memory_format=torch.contiguous_format)
    if wide:
        own = calls(_aten._to_copy.default, own, dtype=torch.float32)
    own = _windows(calls, own, found)
    extent = own.meta["val"].shape[0]
    margins = [found.first, memory.shape[0] - found.first - extent]
    if any(margins):
        own = calls(_aten.constant_pad_nd.default, own, margins, 0)
    if not is_zero(x):
        own = calls(_aten.add.Tensor, x, own)
    return calls(_aten._to_copy.default, own, dtype=memory.dtype) if wide else own


def _windows(calls: Calls, values: fx.Node, found: Counted) -> fx.Node:
    """Memory from the first place on, as far as windows go."""
    outwards = _outwards(found)
    sizes, order = [size for size, _step in found.axes], outwards[::-1]
    own = calls(_aten.view.default, values, sizes)
    if order != sorted(order):
        own = calls(_aten.permute.default, own, order)
        own = calls(_aten.clone.default, own, memory_format=torch.contiguous_format)
    shape = [sizes[axis] for axis in order]
    own = calls(_aten.view.default, own, [*shape, 1])
    for axis, overlap in zip(outwards, _overlaps(found), strict=True):
        step = found.axes[axis][1]
        own = _put_together(calls, own, overlap, step)
    return own


def _put_together(calls: Calls, own: fx.Node, overlap: int, step: int) -> fx.Node:
    """The windows of an axis, the last but one, each a step behind the one before."""
    *outer, count, extent = own.meta["val"].shape
    if overlap * step != extent:
        own = calls(_aten.constant_pad_nd.default, own, [0, overlap * step - extent], 0)
    if overlap == 1:
        return calls(_aten.view.default, own, [*outer, count * step])
    pieces = calls(_aten.view.default, own, [*outer, count, overlap, step])
    total = None
    for number in range(overlap):
        piece = calls(_aten.select.int, pieces, len(outer) + 1, number)
        margins = [0, 0, number, overlap - 1 - number]
        moved = calls(_aten.constant_pad_nd.default, piece, margins, 0)
        total = moved if total is None else calls(_aten.add.Tensor, total, moved)
    assert total is not None
    return calls(_aten.view.default, total, [*outer, (count + overlap - 1) * step])
