"""Convolutions by tensor cores with channels last, as these read them, and what is between.

In: a functional graph that changes nothing but its inputs, with FakeTensors; in training, of the
forward and the backward pass together. Out: the same graph; images, weights and gradients are laid
out where convolutions first read them, the FakeTensors behind them have the strides that PyTorch's
operators then give, and results leave as they were traced. Must not know who computes what.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import fx

from tvm_stitch.dynamo.rewrites.strides import Strides, laid_out
from tvm_stitch.dynamo.support import convolves_by_tf32, is_product
from tvm_stitch.frontend.torch.layout import CHANNELS_LAST, is_laid

_aten = torch.ops.aten
CONVOLUTION = _aten.convolution.default
GRADIENTS = _aten.convolution_backward.default
_HALVES = (torch.float16, torch.bfloat16)


def with_channels_last(graph: fx.Graph) -> fx.Graph:
    """The graph with such convolutions so; as it is where that cannot be done."""
    return laid_out(graph, _ChannelsLast) if any(map(gains, graph.nodes)) else graph


def gains(node: fx.Node) -> bool:
    """Whether a node is a convolution that is faster so: of images, in no groups of several.

    What becomes a product reads its images where they lie.
    """
    weight, groups = _weight_and_groups(node)
    if weight is None or weight.dim() != 4:
        return False
    if weight.dtype not in _HALVES and not (weight.dtype is torch.float32 and convolves_by_tf32()):
        return False
    return (groups == 1 or weight.shape[1] == 1) and not is_product(node)


def _weight_and_groups(node: fx.Node) -> tuple[torch.Tensor | None, Any]:
    """The weights of a convolution, or of one whose gradients a node is."""
    if node.op != "call_function" or node.target not in (CONVOLUTION, GRADIENTS):
        return None, 1
    weight, groups = (1, 8) if node.target is CONVOLUTION else (2, 9)
    return node.args[weight].meta["val"], node.args[groups]  # type: ignore[union-attr]


class _ChannelsLast(Strides):
    """Lays a graph's convolutions out, and traces what follows from it."""

    def change(self, node: fx.Node) -> None:
        """The operands of a convolution."""
        if gains(node):
            for place in (0, 1) if node.target is CONVOLUTION else (0, 1, 2):
                node.update_arg(place, self._laid(node.args[place], node))
            self.trace(node)

    def _laid(self, source: Any, reader: fx.Node) -> fx.Node:
        """Images or weights with channels last."""
        if is_laid(source.meta["val"], CHANNELS_LAST):
            return source
        return self.copied(source, torch.channels_last, reader)


__all__ = ["gains", "with_channels_last"]
