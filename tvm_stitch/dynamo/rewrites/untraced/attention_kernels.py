"""Which of PyTorch's fused kernels for attention AOTAutograd traces: cuDNN's before the others.

In: a graph as dynamo gives it, where attention is still one call, and its device. Out: an order of
PyTorch's, while the graph is traced; PyTorch says itself what cuDNN takes, and its order stands for
the rest. Must not know what becomes of the graph.

PyTorch 2.11 prefers its flash attention, which on an H200 takes 1.2 to 2.0 times as long for
bfloat16 of 64 to 8192 queries, and 1.6 to 2.0 times as long backward
(bench/results/h200/torch_models.md). Where there is a mask, it is its efficient attention: 1.2
times as long, and as long backward. That stays: it is 0 in rows that see no key, where PyTorch
gives cuDNN a finite number for what is hidden, and cuDNN's gradients of masked attention may be no
numbers (pytorch#196678).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import fx
from torch.nn.attention import SDPBackend

from tvm_stitch.dynamo.rewrites.untraced.attention import (
    ATTENTION,
    HALVES,
    tensors_given,
    traced,
)
from tvm_stitch.dynamo.settings import CUDA

_CUDNN = int(SDPBackend.CUDNN_ATTENTION)
_PYTORCHS_ORDER = [1, 2, 0, 3, 4]  # flash, efficient, math, cuDNN: a user's own order stands
_OLDEST = (9, 0)
# Of fewer, as where a word is added to a text, flash attention divides the keys among blocks.
FEWEST_QUERIES = 64


@contextmanager
def cudnn_attention_first(graph: fx.Graph, device: torch.device) -> Iterator[None]:
    """Have attention that is traced now be cuDNN's, if it is faster at all there is of a graph."""
    if _order() != _PYTORCHS_ORDER or not _is_faster(graph, device):
        yield
        return
    rest = [each for each in _PYTORCHS_ORDER if each != _CUDNN]
    torch._C._set_sdp_priority_order([_CUDNN, *rest])
    try:
        yield
    finally:
        torch._C._set_sdp_priority_order(_PYTORCHS_ORDER)


def attention_settings() -> str:
    """What PyTorch's choice depends on beside a graph."""
    allowed = (
        torch.backends.cuda.flash_sdp_enabled(),
        torch.backends.cuda.mem_efficient_sdp_enabled(),
        torch.backends.cuda.math_sdp_enabled(),
        torch.backends.cuda.cudnn_sdp_enabled(),
        torch.are_deterministic_algorithms_enabled(),
    )
    return f"{_order()} {allowed}"


def _order() -> list[int]:
    """The order in which PyTorch asks its kernels; none where it has no way to say it."""
    asked = getattr(torch._C, "_get_sdp_priority_order", list)
    found: list[int] = asked()
    return found


def _is_faster(graph: fx.Graph, device: torch.device) -> bool:
    """cuDNN makes a plan for every size, so that sizes that change are not for it."""
    calls = graph.find_nodes(op="call_function", target=ATTENTION)
    if not calls or device.type != CUDA or torch.cuda.get_device_capability(device) < _OLDEST:
        return False
    return all(map(_suits_cudnn, calls))


def _suits_cudnn(call: fx.Node) -> bool:
    *given, mask = tensors_given(call)
    tensors = [traced(each) for each in given if each is not None]
    if (
        mask is not None
        or len(tensors) < len(given)
        or any(tensor.dtype not in HALVES for tensor in tensors)
    ):
        return False
    is_known = all(isinstance(size, int) for tensor in tensors for size in tensor.shape)
    return is_known and bool(tensors[0].shape[-2] >= FEWEST_QUERIES)
