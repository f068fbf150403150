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
from tvm_stitch.graph.front.convolution import MOST_ELEMENTS, are_side_by_side, is_product
from tvm_stitch.graph.front.pooling.windows import Windows


def becomes_product(images: torch.Tensor, weight: torch.Tensor, *how: Any) -> bool:
    """Whether a convolution is written as a product; `how` are stride, padding, … of it."""
    return _windows(images, weight, *how) is not None


def has_gradients(images: torch.Tensor, weight: torch.Tensor, *how: Any) -> bool:
    """Whether its gradients are products as well: where its windows lie side by side, or overlap in
    steps of one, as those over positions of a wav2vec 2.0, for which cuDNN launches a kernel for
    each group (16 of 530 us on an H200)."""
    sides = _windows(images, weight, *how)
    if sides is None or are_side_by_side(sides):
        return sides is not None
    number, groups = len(images), how[-1]
    if not isinstance(number, int) or not all(side.is_turned for side in sides):
        return False
    counts = [side.count(extent) for side, extent in zip(sides, images.shape[2:], strict=True)]
    elements = number * groups * prod(counts) * prod(weight.shape[1:])
    return bool(elements <= MOST_ELEMENTS)


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
    stride: Sequence[int],
    padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Those of a convolution that becomes a product: for its images, and for its weights."""
    spatial, sizes = weight.dim() - 2, weight.shape[2:]
    if list(per_dimension(stride, spatial)) == list(sizes):
        return _side_by_side(gradient, images, weight, groups, output_mask)
    before = per_dimension(padding, spatial)
    of_images = of_weight = None
    if output_mask[0]:
        of_images = _turned(gradient, weight, before, groups)
    if output_mask[1]:
        of_weight = _of_weights(gradient, images, weight, before, groups)
    return of_images, of_weight


def _turned(
    gradient: torch.Tensor, weight: torch.Tensor, before: Sequence[int], groups: int
) -> torch.Tensor:
    """For the images: the convolution of the results' gradient with turned filters."""
    depth, *sizes = weight.shape[1:]
    filters = weight.reshape(groups, len(weight) // groups, depth, *sizes).transpose(1, 2)
    filters = filters.reshape(groups * depth, len(weight) // groups, *sizes)
    filters = filters.flip(list(range(2, 2 + len(sizes))))
    around = [size - 1 - pad for size, pad in zip(sizes, before, strict=True)]
    ones, zeros = [1] * len(sizes), [0] * len(sizes)
    return torch.convolution(gradient, filters, None, ones, around, ones, False, zeros, groups)


def _of_weights(
    gradient: torch.Tensor,
    images: torch.Tensor,
    weight: torch.Tensor,
    before: Sequence[int],
    groups: int,
) -> torch.Tensor:
    """For the weights: of each group a product over all windows, which are written out."""
    number, (depth, *sizes), counts = len(images), weight.shape[1:], gradient.shape[2:]
    filters, places = len(weight) // groups, number * prod(counts)
    results = gradient.transpose(0, 1).reshape(groups, filters, places)
    around = [pad for each in reversed(before) for pad in (each, each)]
    windows = torch.constant_pad_nd(images, around) if any(around) else images
    for axis, size in enumerate(sizes, start=2):
        windows = windows.unfold(axis, size, 1)
    windows = windows.reshape(number, groups, depth, *counts, *sizes)
    spatial = len(sizes)
    order = [1, 0, *range(3, 3 + spatial), 2, *range(3 + spatial, 3 + 2 * spatial)]
    windows = windows.permute(order).reshape(groups, places, depth * prod(sizes))
    return (results @ windows).reshape(weight.shape)


def _side_by_side(
    gradient: torch.Tensor,
    images: torch.Tensor,
    weight: torch.Tensor,
    groups: int,
    output_mask: Sequence[bool],
) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Where no element is in two windows, nothing is added up."""
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
