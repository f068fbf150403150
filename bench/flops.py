"""How much arithmetic a case is, for the roofline: counted over the operators PyTorch runs.

Products and convolutions by PyTorch's own counter, every other operator one operation an element
of its larger side, composed ones a few. Good to a factor of two, which is what a roofline needs.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from bench.case import Workload, as_list

# Operations an element of composed operators.
COMPOSED = {
    "native_layer_norm": 8,
    "_fused_rms_norm": 6,
    "native_group_norm": 8,
    "native_batch_norm": 8,
    "_softmax": 5,
    "_log_softmax": 5,
    "gelu": 8,
    "silu": 5,
}
# Moving or making data is no arithmetic; products are counted by FlopCounterMode.
NONE = {
    "mm", "bmm", "addmm", "baddbmm", "convolution", "cudnn_convolution",
    "_to_copy", "copy_", "clone", "cat", "stack", "gather", "index", "index_select", "embedding",
    "empty", "zeros", "ones", "full", "arange", "zeros_like", "ones_like", "empty_like", "scatter",
    "view", "_unsafe_view", "reshape", "transpose", "t", "permute", "expand", "slice", "select",
    "split", "split_with_sizes", "chunk", "unsqueeze", "squeeze", "alias", "detach", "unbind",
}  # fmt: skip


class _Counter(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.total = 0.0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name not in NONE:
            tensors = [x for x in as_list((args, result)) if isinstance(x, torch.Tensor)]
            elements = max((math.prod(x.shape) for x in tensors), default=0)
            self.total += elements * COMPOSED.get(name, 1)
        return result


def count(workload: Workload, inputs: tuple[torch.Tensor, ...]) -> float:
    """Floating-point operations of one call, approximately."""
    with torch.no_grad(), FlopCounterMode(display=False) as products, _Counter() as others:
        workload.function(*inputs)
    return others.total + products.get_total_flops()
