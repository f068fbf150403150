"""Max pooling that says where in a window its largest element is: a byte, where PyTorch's says 8.

Two operators that PyTorch can run as well, by its own: graphs for training hold them where forward
keeps positions for backward. Must not know graphs.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

_aten = torch.ops.aten
_LIBRARY = torch.library.Library("tvm_stitch", "DEF")
_WINDOWS = "int[2] kernel_size, int[2] stride, int[2] padding, bool ceil_mode"
_LIBRARY.define(f"max_pool2d_with_offsets(Tensor x, {_WINDOWS}) -> (Tensor, Tensor)")
_LIBRARY.define(
    f"max_pool2d_with_offsets_backward(Tensor gradient, Tensor x, {_WINDOWS}, Tensor offsets)"
    " -> Tensor"
)


def _with_offsets(
    x: torch.Tensor, size: Sequence[int], stride: Sequence[int], padding: Sequence[int], ceil: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    values, places = _aten.max_pool2d_with_indices(x, size, stride, padding, 1, ceil)
    top, left = _corners(places, stride, padding)
    row, column = places // x.shape[-1] - top, places % x.shape[-1] - left
    return values, (row * size[1] + column).to(torch.int8)


def _backward(
    gradient: torch.Tensor,
    x: torch.Tensor,
    size: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    ceil: bool,
    offsets: torch.Tensor,
) -> torch.Tensor:
    top, left = _corners(offsets, stride, padding)
    row, column = offsets // size[1] + top, offsets % size[1] + left
    found: torch.Tensor = _aten.max_pool2d_with_indices_backward(
        gradient, x, size, stride, padding, 1, ceil, row * x.shape[-1] + column
    )
    return found


def _corners(
    windows: torch.Tensor, stride: Sequence[int], padding: Sequence[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """The row and the column of the first element of each window."""
    rows, columns = (torch.arange(n, device=windows.device) for n in windows.shape[-2:])
    return rows[:, None] * stride[0] - padding[0], columns * stride[1] - padding[1]


_LIBRARY.impl("max_pool2d_with_offsets", _with_offsets, "CompositeExplicitAutograd")
_LIBRARY.impl("max_pool2d_with_offsets_backward", _backward, "CompositeExplicitAutograd")

WITH_OFFSETS = torch.ops.tvm_stitch.max_pool2d_with_offsets.default
BACKWARD = torch.ops.tvm_stitch.max_pool2d_with_offsets_backward.default
