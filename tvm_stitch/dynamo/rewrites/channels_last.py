"""Convolutions by tensor cores with channels last, as these read them, and what is between.

In: a functional graph that changes nothing but its inputs, with FakeTensors; in training, of the
forward and the backward pass together. Out: the same graph; images, weights and gradients are laid
out where convolutions first read them, the FakeTensors behind them have the strides that PyTorch's
operators then give, and results leave as they were traced. Of signals PyTorch knows no such layout:
theirs are convolutions of images one row high. Must not know who computes what.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import fx
from torch._prims_common import suggest_memory_format

from tvm_stitch.dynamo.parts.nodes import bytes_of
from tvm_stitch.dynamo.rewrites.strides import Strides, is_of_memory, laid_out
from tvm_stitch.dynamo.support import convolves_by_tf32, is_product
from tvm_stitch.frontend.torch.layout import (
    channels_last,
    has_channels_last,
    inverse,
    is_laid,
    order_of,
)

_aten = torch.ops.aten
CONVOLUTION = _aten.convolution.default
GRADIENTS = _aten.convolution_backward.default
_HALVES = (torch.float16, torch.bfloat16)
_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


@dataclass(frozen=True)
class Dimensions:
    """Of how many dimensions the convolutions are that are laid out: in no groups, by channels."""

    plain: tuple[int, ...]
    by_channel: tuple[int, ...]


INFERRED = Dimensions((2, 3), (2, 3))
"""Those in inference, where a part reads signals as they lie."""
TRAINED = Dimensions((1, 2, 3), (2,))
"""Those in training, where what one graph keeps the other has to read as it lies."""
_ROW = 2
"""Where the axis of a single row is put, as PyTorch puts it itself."""
_NEUTRAL = (1, 0, 1)  # what stride, padding and dilation are along it


def with_channels_last(graph: fx.Graph, which: Dimensions = INFERRED) -> fx.Graph:
    """The graph with such convolutions of so many dimensions so; as it is where that fails."""
    if not any(gains(node, which) for node in graph.nodes):
        return graph
    return laid_out(graph, partial(_ChannelsLast, which=which))


def weights_laid_out(graph: fx.Graph) -> int:
    """Bytes of parameters that each call copies in front of convolutions."""
    weights = {node.args[1] for node in graph.find_nodes(op="call_function", target=CONVOLUTION)}
    return sum(
        bytes_of(weight)
        for weight in weights
        if isinstance(weight, fx.Node)
        and weight.target is _aten.clone.default
        and weight.all_input_nodes[0].op == "placeholder"
    )


def gains(node: fx.Node, which: Dimensions = INFERRED) -> bool:
    """Whether a node is a convolution that is faster so: in no groups, or by channels.

    What becomes a product reads its images where they lie.
    """
    weight, groups = _weight_and_groups(node)
    if weight is None:
        return False
    by_channel = groups != 1 and weight.shape[1] == 1
    if weight.dim() - 2 not in (which.by_channel if by_channel else which.plain):
        return False
    if weight.dtype not in _HALVES and not (weight.dtype is torch.float32 and convolves_by_tf32()):
        return False
    return (groups == 1 or by_channel) and not is_product(node)


def _moves_channels(node: fx.Node) -> bool:
    """Whether a node copies images whose channels are last, for whom they should be planes.

    PyTorch's group norm has such a copy in front on GPUs, and models put them behind attention.
    """
    if node.target is not _aten.clone.default or not node.all_input_nodes:
        return False
    if node.kwargs.get("memory_format") is not torch.contiguous_format:
        return False
    source, copy = node.args[0].meta["val"], node.meta["val"]  # type: ignore[union-attr]
    order = order_of(source)
    if not has_channels_last(order) or not is_laid(source, order) or is_laid(copy, order):
        return False
    return not any(user.op != "output" and is_of_memory(user) for user in node.users)


def _weight_and_groups(node: fx.Node) -> tuple[torch.Tensor | None, Any]:
    """The weights of a convolution, or of one whose gradients a node is."""
    if node.op != "call_function" or node.target not in (CONVOLUTION, GRADIENTS):
        return None, 1
    weight, groups = (1, 8) if node.target is CONVOLUTION else (2, 9)
    return node.args[weight].meta["val"], node.args[groups]  # type: ignore[union-attr]


class _ChannelsLast(Strides):
    """Lays a graph's convolutions out, and traces what follows from it."""

    def __init__(self, graph: fx.Graph, which: Dimensions) -> None:
        super().__init__(graph)
        self._which = which
        self._rows: dict[fx.Node, fx.Node] = {}  # signals as images one row high
        self._told: dict[fx.Node, fx.Node] = {}  # images of one channel, their strides set

    def change(self, node: fx.Node) -> None:
        """The operands of a convolution, and copies that would move what is laid out."""
        if _moves_channels(node):
            node.update_kwarg("memory_format", torch.preserve_format)
            self.trace(node)
        if gains(node, self._which):
            self._lay_out(node)

    def _lay_out(self, node: fx.Node) -> None:
        tensors = (0, 1) if node.target is CONVOLUTION else (0, 1, 2)
        images, weight = tensors[-2:]
        traced = self._moved.get(node, node.meta["val"])
        is_signal = node.args[weight].meta["val"].dim() == 3  # type: ignore[union-attr]
        if is_signal:
            self._by_rows(node, tensors)
        for place in tensors:
            node.update_arg(place, self._laid(node.args[place], node, place == images))
        self.trace(node)
        if is_signal:
            self._as_signals(node, traced)

    def _by_rows(self, node: fx.Node, tensors: Sequence[int]) -> None:
        """A convolution of signals as one of images."""
        for place in tensors:
            node.update_arg(place, self._row(node.args[place], node))
        first = len(tensors) + 1  # behind the bias, or its sizes
        for place, neutral in enumerate(_NEUTRAL, start=first):
            node.update_arg(place, [neutral, *node.args[place]])  # type: ignore[misc]
        beyond = first + len(_NEUTRAL) + 1
        node.update_arg(beyond, [0, *node.args[beyond]])  # type: ignore[misc]

    def _row(self, source: Any, reader: fx.Node) -> fx.Node:
        if source not in self._rows:
            self._rows[source] = self.called(reader, _aten.unsqueeze.default, source, _ROW)
        return self._rows[source]

    def _as_signals(self, node: fx.Node, traced: Any) -> None:
        """What such a convolution gives, for readers of what was `traced`."""
        if node.target is CONVOLUTION:
            self._as_signal(node, traced)
            return
        self._moved.pop(node, None)  # only its elements are read, which are known here
        for each in node.users:
            number = each.args[1]
            assert each.target is operator.getitem and isinstance(number, int)
            each.meta["val"] = node.meta["val"][number]
            if traced[number] is not None and traced[number].dim() == 3:
                self._as_signal(each, traced[number])

    def _as_signal(self, image: fx.Node, traced: torch.Tensor) -> None:
        self._moved.pop(image, None)
        signal = self.called(image.next, _aten.squeeze.dim, image, _ROW)
        image.replace_all_uses_with(signal, lambda user: user is not signal)
        self.traced_as(signal, signal.meta["val"], traced)

    def _laid(self, source: Any, reader: fx.Node, is_images: bool) -> fx.Node:
        """Images or weights with channels last, and images so that PyTorch can tell."""
        tensor = source.meta["val"]
        layout = _FORMATS[tensor.dim()]
        if not is_laid(tensor, channels_last(tensor.dim())):
            return self.copied(source, layout, reader)
        if not is_images or tensor.shape[1] != 1 or suggest_memory_format(tensor) is layout:
            return source
        if source not in self._told:
            self._told[source] = self._with_channel_last(source, reader)
        return self._told[source]

    def _with_channel_last(self, source: fx.Node, reader: fx.Node) -> fx.Node:
        """A view of images of one channel that has the strides of channels last.

        As they come PyTorch takes their channel to lie first, and what is convolved of them then
        does.
        """
        view = self.called(reader, _aten.squeeze.dim, source, 1)
        view = self.called(reader, _aten.unsqueeze.default, view, -1)
        order = inverse(channels_last(source.meta["val"].dim()))
        return self.called(reader, _aten.permute.default, view, list(order))


__all__ = [
    "INFERRED",
    "TRAINED",
    "Dimensions",
    "gains",
    "weights_laid_out",
    "with_channels_last",
]
