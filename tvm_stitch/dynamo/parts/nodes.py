"""What nodes of a traced graph are: work or views, where they compute, whose memory they have.

In: nodes of a functional graph. Out: facts about them. Must not know parts.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable

import torch
from torch import fx

from tvm_stitch.dynamo.support import tensors_of
from tvm_stitch.frontend.torch import operator_name
from tvm_stitch.frontend.torch.ops import LIBRARYS, VIEWS

_INPUTS_OF_FORWARD = "primals_"  # as AOTAutograd names them, in the backward graph, too


def device_of(node: fx.Node) -> torch.device:
    """Where a node of ours computes."""
    device: torch.device = next(tensors_of(node.meta["val"])).device
    return device


def is_view(node: fx.Node) -> bool:
    """Whether a node computes nothing and moves nothing in PyTorch."""
    if node.target is operator.getitem:
        whole = node.args[0]
        return isinstance(whole, fx.Node) and is_view(whole)
    return node.op == "call_function" and operator_name(node.target) in VIEWS


def computes(node: fx.Node) -> bool:
    """Whether a node is work."""
    return node.target is not operator.getitem and not is_view(node)


def is_librarys(node: fx.Node) -> bool:
    """Whether libraries have kernels for what a node computes, which ours have no lead over."""
    return node.op == "call_function" and operator_name(node.target) in LIBRARYS


def bytes_of(node: fx.Node) -> int:
    """Those of the tensor that a node makes, at the sizes that it was traced with."""
    value = node.meta.get("val")
    if not isinstance(value, torch.Tensor):
        return 0  # of several results, each is taken by a node of its own
    extents: Iterable[int | torch.SymInt] = value.shape
    known = [each if isinstance(each, int) else int(each.node.hint or 1) for each in extents]
    return math.prod(known) * value.element_size()


def memory_of(node: fx.Node) -> fx.Node:
    """The node whose memory a view is of; a node itself if it has its own."""
    while is_view(node) and node.all_input_nodes:
        node = node.all_input_nodes[0]
    return node


def is_forwards(placeholder: fx.Node) -> bool:
    """Whether an input of a backward graph is one of the forward graph's: a parameter, a batch.

    The others are what forward kept, and gradients: memory that is free once it has been read.
    """
    return placeholder.name.startswith(_INPUTS_OF_FORWARD)
