"""Core ATen operators that are left to PyTorch, with the reason."""

from __future__ import annotations

_LIBRARY = "a library's kernel is faster"
_RANDOM = "random numbers come from PyTorch's generator"
_COUNTED = "how many values make up an element depends on indices"
_BAGS = "it is of largest rows, sparse, scaled, or of a table without a kernel"
_DATA = "its result's size depends on values"
_GATHERED = "one of PyTorch's kernels gathers many tensors"
_MEMORY = "it is about memory, not values"

_LEFT_BY_REASON: dict[str, tuple[str, ...]] = {
    _LIBRARY: (
        "_scaled_dot_product_flash_attention",
        "_scaled_dot_product_efficient_attention", "_scaled_dot_product_cudnn_attention",
        "_scaled_dot_product_flash_attention_for_cpu",
        "_scaled_dot_product_flash_attention_backward",
        "_scaled_dot_product_efficient_attention_backward",
        "_scaled_dot_product_cudnn_attention_backward",
        "_scaled_dot_product_flash_attention_for_cpu_backward",
        "_cdist_forward", "_pdist_forward", "_fft_c2r", "_fft_r2c",
    ),
    _RANDOM: ("native_dropout", "rand", "randn", "randperm", "bernoulli.p"),
    _COUNTED: ("_embedding_bag", "_embedding_bag_forward_only"),
    _BAGS: (
        "_embedding_bag_backward", "_embedding_bag_dense_backward",
        "_embedding_bag_per_sample_weights_backward",
    ),
    _DATA: ("nonzero", "_local_scalar_dense", "masked_scatter"),
    _GATHERED: ("stack",),
    _MEMORY: ("empty.memory_format", "empty_permuted", "empty_strided"),
}  # fmt: skip

LEFT: dict[str, str] = {name: reason for reason, names in _LEFT_BY_REASON.items() for name in names}
"""By ATen's names; an overload called default is left out."""
