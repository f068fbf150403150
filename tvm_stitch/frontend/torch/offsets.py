"""Max pooling that says where in a window its largest element is: a byte, where PyTorch's says 8.

Two operators that PyTorch can run as well, by its own, for images and two for volumes: graphs for
training hold them where forward keeps positions for backward. Must not know graphs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from tvm_stitch.frontend.torch.layout import row_by_row

_aten = torch.ops.aten
_LIBRARY = torch.library.Library("tvm_stitch", "DEF")
_POOLS = {2: _aten.max_pool2d_with_indices, 3: _aten.max_pool3d_with_indices}
_GRADIENTS = {2: _aten.max_pool2d_with_indices_backward, 3: _aten.max_pool3d_with_indices_backward}


def _with_offsets(
    x: torch.Tensor, size: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    values, places = _POOLS[len(size)](x, size, stride, padding, 1, ceil)
    extents, first = x.shape[-len(size) :], _corners(places, stride, padding)
    offsets = [at - corner for at, corner in zip(_split(places, extents), first, strict=True)]
    return values, row_by_row(offsets, size).to(torch.int8)


def _backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil: bool,
    offsets: torch.Tensor,
) -> torch.Tensor:
    first = _corners(offsets, stride, padding)
    places = [at + corner for at, corner in zip(_split(offsets, size), first, strict=True)]
    numbers = row_by_row(places, x.shape[-len(size) :])
    found: torch.Tensor = _GRADIENTS[len(size)](
        gradient, x, size, stride, padding, 1, ceil, numbers
    )
    return found


def _corners(
    windows: torch.Tensor, stride: Sequence[int], padding: Sequence[int]
) -> list[torch.Tensor]:
    """The place of the first element of each window along each side."""
    sides = len(stride)
    ways = zip(windows.shape[-sides:], stride, padding, strict=True)
    return [
        (torch.arange(n, device=windows.device) * step - pad).view(-1, *[1] * (sides - 1 - side))
        for side, (n, step, pad) in enumerate(ways)
    ]


def _split(numbers: torch.Tensor, extents: Sequence[int]) -> list[torch.Tensor]:
    """Places along each side, of numbers that count row by row."""
    places = []
    for extent in reversed(extents[1:]):
        places.append(numbers % extent)
        numbers = numbers // extent
    return [numbers, *reversed(places)]


def _operators(sides: int) -> tuple[Any, Any]:
    """The operator and its gradient, for windows along so many sides."""
    name, one = f"max_pool{sides}d_with_offsets", f"int[{sides}]"
    windows = f"{one} kernel_size, {one} stride, {one} padding, bool ceil_mode"
    _LIBRARY.define(f"{name}(Tensor x, {windows}) -> (Tensor, Tensor)")
    _LIBRARY.define(
        f"{name}_backward(Tensor gradient, Tensor x, {windows}, Tensor offsets) -> Tensor"
    )
    _LIBRARY.impl(name, _with_offsets, "CompositeExplicitAutograd")
    _LIBRARY.impl(f"{name}_backward", _backward, "CompositeExplicitAutograd")
    ours = torch.ops.tvm_stitch
    return getattr(ours, name).default, getattr(ours, f"{name}_backward").default


_OURS = {sides: _operators(sides) for sides in _POOLS}
WITH_OFFSETS = {sides: forward for sides, (forward, _) in _OURS.items()}
BACKWARD = {sides: backward for sides, (_, backward) in _OURS.items()}
"""Both by the number of sides of a window."""
