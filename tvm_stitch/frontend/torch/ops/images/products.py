"""Convolutions that Relax's pass writes as products of matrices: which, and their gradients.

In: FakeTensors and the numbers of a convolution. Out: gradients in PyTorch's operators, products as
well. The convolutions themselves are written by graph/front/convolution/products.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch

from tvm_stitch.frontend.torch.ops.images.window import per_dimension
from tvm_stitch.graph.front.convolution import are_side_by_side, is_product
from tvm_stitch.graph.front.pooling.windows import Windows


def becomes_product(images: torch.Tensor, weight: torch.Tensor, *how: Any) -> bool:
    """Whether a convolution is written as a product; `how` are stride, padding, … of it."""
    return _windows(images, weight, *how) is not None


def has_gradients(images: torch.Tensor, weight: torch.Tensor, *how: Any) -> bool:
    """Whether its gradients are products as well: where its windows lie side by side."""
    sides = _windows(images, weight, *how)
    return sides is not None and are_side_by_side(sides)


def _windows(
    images: torch.Tensor,
    weight: torch.Tensor,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    groups: int,
) -> list[Windows] | None:
    """The windows along each dimension of a convolution that becomes a product; of others none."""
    spatial, sizes = weight.dim() - 2, weight.shape[2:]
    known = (*images.shape[2:], *weight.shape, *stride, *padding, *dilation, groups)
    if transposed or not sizes or not all(isinstance(each, int) for each in known):
        return None
    numbers = (per_dimension(each, spatial) for each in (stride, padding, dilation))
    sides = [Windows(*each) for each in zip(sizes, *numbers, strict=True)]
    return sides if is_product(groups, weight.shape[1], sides) else None


def gradients(
    gradient: torch.Tensor,
    images: torch.Tensor,
    weight: torch.Tensor,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Those of a convolution that becomes a product, whose windows lie side by side."""
    number, (depth, *sizes), counts = len(images), weight.shape[1:], gradient.shape[2:]
    spatial, filters = len(sizes), len(weight) // groups
    results = gradient.transpose(0, 1).reshape(groups, filters, number * prod(counts))
    read = [count * size for count, size in zip(counts, sizes, strict=True)]
    of_images = of_weight = None
    if output_mask[0]:
        windows = results.transpose(1, 2) @ weight.reshape(groups, filters, depth * prod(sizes))
        windows = windows.reshape(groups, number, *counts, depth, *sizes)
        sides = [axis for n in range(spatial) for axis in (2 + n, 3 + spatial + n)]
        whole = windows.permute(1, 0, 2 + spatial, *sides).reshape(number, groups * depth, *read)
        unread = [had - has for had, has in zip(images.shape[2:], read, strict=True)]
        behind = [each for left in reversed(unread) for each in (0, left)]
        of_images = torch.constant_pad_nd(whole, behind) if any(unread) else whole
    if output_mask[1]:
        for axis, extent in enumerate(read, start=2):
            images = images.narrow(axis, 0, extent)
        sides = [each for pair in zip(counts, sizes, strict=True) for each in pair]
        windows = images.reshape(number, groups, depth, *sides)
        order = [1, 0, *range(3, windows.dim(), 2), 2, *range(4, windows.dim(), 2)]
        windows = windows.permute(order).reshape(groups, number * prod(counts), -1)
        of_weight = (results @ windows).reshape(weight.shape)
    return of_images, of_weight
