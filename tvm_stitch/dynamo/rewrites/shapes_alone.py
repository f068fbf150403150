"""Gradients that ask no more of an image than its shape: it is not kept for them.

In: the functional graph of a forward and a backward pass, before it is parted. Out: the same graph,
in which such a gradient is given an image of zeros that nobody computes. PyTorch's operators take
the image itself, and so it is in memory until backward, and written where a kernel would have kept
it in registers. Must not know how gradients are converted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from tvm_stitch.frontend.torch.offsets import BACKWARD
from tvm_stitch.frontend.torch.ops.images.padding import OPERATORS as PADDING

_aten = torch.ops.aten
GRADIENTS = (
    *BACKWARD.values(),
    _aten._adaptive_avg_pool2d_backward.default,
    _aten._adaptive_avg_pool3d_backward.default,
    _aten.avg_pool2d_backward.default,
    _aten.avg_pool3d_backward.default,
    *(getattr(_aten, name).default for name in PADDING if name.endswith("_backward")),
)
"""Their second argument is the image."""


def with_shapes_alone(graph: fx.Graph, is_ours: Callable[[fx.Node], bool]) -> None:
    """Let go of images that are computed, where the gradient is ours."""
    for target in GRADIENTS:
        for node in graph.find_nodes(op="call_function", target=target):
            gradient, image, *others = node.args
            if not _is_kept_for(node, image) or not is_ours(node):
                continue
            with graph.inserting_before(node):
                zeros = graph.call_function(_aten.full.default, *_filled(image.meta["val"]))
            zeros.meta["val"] = image.meta["val"]
            node.args = (gradient, zeros, *others)


def _is_kept_for(node: fx.Node, image: fx.Node) -> bool:
    """Whether an image of a known shape is kept for one gradient.

    That of a relu is kept for its own: without the other, PyTorch's partitioner has the whole of it
    computed again in backward, where it takes longer than to read it.
    """
    others = [user for user in image.users if user is not node]
    is_fixed = all(isinstance(extent, int) for extent in image.meta["val"].shape)
    return is_fixed and image.op != "placeholder" and len(others) == 1


def _filled(image: torch.Tensor) -> tuple[tuple[Any, ...], dict[str, Any]]:
    how = {"dtype": image.dtype, "device": image.device, "pin_memory": False}
    return (list(image.shape), 0.0), how
