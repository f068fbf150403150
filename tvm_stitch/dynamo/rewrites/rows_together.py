"""Sums of tensors that lie in different orders lie row by row, as most of their readers want it.

In: a functional graph with FakeTensors. Out: the same graph. PyTorch's operators give a result the
order of their first operand: where the output of a convolution of signals, its channels outermost,
becomes the residual of a transformer, all sums with it lie across the rows from then on. Each
kernel would read them and write them transposed. Must not know parts.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import fx

from tvm_stitch.dynamo.rewrites.strides import Strides, laid_out
from tvm_stitch.frontend.torch.layout import has_channels_last, is_laid, order_of


def with_rows_together(graph: fx.Graph, is_ours: Callable[[fx.Node], bool]) -> fx.Graph:
    """The graph with such sums of ours so; as it is where that cannot be done."""
    if not any(map(_lies_across, graph.nodes)):
        return graph
    return laid_out(graph, partial(_RowsTogether, is_ours=is_ours))


def _lies_across(node: fx.Node) -> bool:
    """Whether a node combines dense tensors, its rows in pieces, of which one has its own whole."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor) or value.dim() < 2:
        return False
    if torch.Tag.pointwise not in getattr(node.target, "tags", ()):
        return False
    order = order_of(value)
    if order[-1] == value.dim() - 1 or has_channels_last(order) or not is_laid(value, order):
        return False
    return any(_is_plain(source.meta.get("val"), value) for source in node.all_input_nodes)


def _is_plain(operand: object, result: torch.Tensor) -> bool:
    """Whether a tensor as large as a result lies as its dimensions do."""
    return (
        isinstance(operand, torch.Tensor)
        and operand.dim() == result.dim()
        and all(map(_is_known_equal, operand.shape, result.shape))
        and is_laid(operand, tuple(range(operand.dim())))
    )


def _is_known_equal(left: int | torch.SymInt, right: int | torch.SymInt) -> bool:
    return str(left) == str(right)


class _RowsTogether(Strides):
    def __init__(self, graph: fx.Graph, is_ours: Callable[[fx.Node], bool]) -> None:
        super().__init__(graph)
        self._is_ours = is_ours

    def change(self, node: fx.Node) -> None:
        """What a node computes, and its readers then read."""
        if not _lies_across(node) or not self._is_ours(node):
            return
        dense = self.copied(node, torch.contiguous_format, node.next)
        node.replace_all_uses_with(dense, lambda user: user is not dense)
        self.stands_for(dense, node)
