"""How tensors lie in memory, so that what is dense goes in and out without a copy.

In: FakeTensors. Out: the order of dimensions in which a tensor is contiguous. Must not know Relax.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

Order = tuple[int, ...]
CHANNELS_LAST: Order = (0, 2, 3, 1)
"""Of a batch of images: their channels innermost."""


def channels_last(rank: int) -> Order:
    """The same of signals, images or volumes, by the dimensions that a batch of them has."""
    return (0, *range(2, rank), 1)


def has_channels_last(order: Order) -> bool:
    """Whether images or volumes that lie in this order have their channels innermost."""
    return len(order) in (4, 5) and order == channels_last(len(order))


def row_by_row(places: Sequence[Any], extents: Sequence[Any]) -> Any:
    """The number of the element at these places along some sides, the last the innermost."""
    number, *others = places
    for place, extent in zip(others, extents[1:], strict=True):
        number = number * extent + place
    return number


def order_of(tensor: torch.Tensor) -> Order:
    """The dimensions from the outermost in memory to the innermost; as they are if not dense."""
    sizes = [_hint(size) for size in tensor.shape]
    strides = [_hint(stride) for stride in tensor.stride()]
    plain = tuple(range(len(sizes)))
    # Those of one element lie anywhere: they stay where they are beside their neighbours.
    long = [axis for axis in plain if sizes[axis] != 1]
    turned = sorted(long, key=lambda axis: -strides[axis])
    places = iter(turned)
    order = tuple(axis if sizes[axis] == 1 else next(places) for axis in plain)
    expected = 1
    for axis in reversed(order):
        if sizes[axis] != 1 and strides[axis] != expected:
            return plain
        expected *= sizes[axis]
    return order


def is_laid(tensor: torch.Tensor, order: Order) -> bool:
    """Whether a tensor is contiguous with its dimensions in this order."""
    size = 1
    for axis in reversed(order):
        if _hint(tensor.shape[axis]) != 1 and _hint(tensor.stride(axis)) != size:
            return False
        size *= _hint(tensor.shape[axis])
    return True


def is_dense(tensor: torch.Tensor) -> bool:
    """Whether some order of the dimensions is contiguous: no gaps, nothing twice."""
    return is_laid(tensor, order_of(tensor))


def is_empty(value: Any) -> bool:
    """Whether a traced value is a tensor of known shape and no elements."""
    if not isinstance(value, torch.Tensor) or not all(isinstance(e, int) for e in value.shape):
        return False
    return 0 in value.shape


def inverse(order: Order) -> Order:
    """What undoes a permutation."""
    return tuple(sorted(range(len(order)), key=order.__getitem__))


def _hint(value: Any) -> int:
    """A size without a guard on it: what it was when PyTorch traced."""
    if isinstance(value, int):
        return value
    hint = value.node.hint
    return int(hint) if hint is not None else _UNKNOWN


# A size that only running tells: large, so that dimensions keep their order.
_UNKNOWN = 1 << 20
