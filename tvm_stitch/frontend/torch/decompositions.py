"""Which operators PyTorch writes out before we see the graph."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from itertools import chain
from typing import Any

import sympy
import torch
from torch._C import DispatchKey
from torch._decomp import core_aten_decompositions, get_decompositions
from torch._decomp.decompositions import upsample_compute_output_size
from torch._prims_common import suggest_memory_format
from torch.overrides import TorchFunctionMode

from tvm_stitch.frontend.torch.ops.images.interpolation import FORWARD
from tvm_stitch.frontend.torch.ops.images.padding import OPERATORS as PADDING
from tvm_stitch.frontend.torch.ops.images.products import gradients as gradients_of_product
from tvm_stitch.frontend.torch.ops.images.products import has_gradients

_aten = torch.ops.aten
# Core operators that are better as stages: norms, whose statistics then share a kernel with all
# that is around them.
WRITTEN_OUT = (
    _aten._native_batch_norm_legit,
    _aten._native_batch_norm_legit_functional,
    _aten._native_batch_norm_legit_no_training,
    _aten.native_batch_norm,
    _aten.native_group_norm,
    _aten.native_group_norm_backward,
    _aten.native_layer_norm,
    _aten.native_layer_norm_backward,
    _aten._fused_rms_norm,
    _aten._fused_rms_norm_backward,
    _aten.linalg_vector_norm,
)
# Left whole: PyTorch's own kernels are better, or draw the same random numbers as without us.
_KEPT = (
    _aten.native_dropout,
    _aten.bernoulli,
    _aten._scaled_dot_product_flash_attention_for_cpu,
)
# Left whole: one operation of ours, where PyTorch writes out several, adds at indices or fuses
# multiply-adds.
_CONVERTED = (
    _aten.addcdiv,
    _aten.addcmul,
    _aten.col2im,
    _aten.embedding_dense_backward,
    _aten.im2col,
    _aten.lerp,
    _aten.roll,
    _aten._safe_softmax,
    _aten.select_scatter,
    _aten.unfold_backward,
    *(getattr(_aten, name) for name in PADDING),
)
# Left whole where sizes are known, so that their gradients are operators too: written out, these
# add at indices.
_INTERPOLATIONS = tuple(getattr(_aten, name) for name in FORWARD)
_NEAREST = tuple(getattr(_aten, name) for name in FORWARD if "nearest" in name)
# PyTorch multiplies places by a factor's reciprocal, which float32 does not round down up to here.
_MOST_REPEATED = 8
_WRITTEN_BY = (DispatchKey.Autograd, DispatchKey.CompositeImplicitAutograd)


def _norms(
    tensors: list[torch.Tensor], ord: float = 2, dtype: torch.dtype | None = None
) -> list[torch.Tensor]:
    return [torch.linalg.vector_norm(each, ord, dtype=dtype) for each in tensors]


def _zeros(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    return [torch.zeros_like(each) for each in tensors]


# Calls of lists that are not one call for each tensor: `lists.py` has the others.
_OF_LISTS = {_aten._foreach_norm.Scalar: _norms, _aten._foreach_zero.default: _zeros}


@cache
def decompositions() -> dict[Any, Callable[..., Any]]:
    """The table for AOTAutograd and `run_decompositions`."""
    kept = {
        getattr(packet, name) for packet in (*_KEPT, *_CONVERTED) for name in packet.overloads()
    }
    table = {**core_aten_decompositions(), **get_decompositions(WRITTEN_OUT), **_OF_LISTS}
    table[_aten.native_group_norm.default] = _group_norm
    table[_aten.convolution_backward.default] = _convolution_backward
    table[_aten._weight_norm_interface_backward.default] = _weight_norm_backward
    table[_aten.eye.default] = table[_aten.eye.m] = _eye
    kept.update(packet.default for packet in _INTERPOLATIONS)
    written = {operator: write for operator, write in table.items() if operator not in kept}
    return {**written, **_at_sizes()}


@cache
def _at_sizes() -> dict[Any, Callable[..., Any]]:
    """Interpolations to a size or by a factor, as operators of both."""
    written = {packet: packet.vec.py_kernels[_WRITTEN_BY[0]] for packet in _INTERPOLATIONS}
    return {packet.vec: partial(_at_size, packet, by) for packet, by in written.items()}


def _at_size(
    packet: Any,
    written: Callable[..., torch.Tensor],
    input: torch.Tensor,
    output_size: Sequence[int] | None,
    *how: Any,
) -> torch.Tensor:
    """An interpolation of known sizes as one operator; others as PyTorch writes them out.

    That is by numbers of float64 that sizes which change give, and its gradient adds at indices:
    where elements are only repeated, views say so.
    """
    *settings, factors = how
    size = upsample_compute_output_size(input.shape, output_size, factors)
    if not all(isinstance(each, int) for each in (*input.shape[2:], *size)):
        times = _times_repeated(packet, input, size)
        return _repeated(input, times) if times else written(input, output_size, *how)
    result: torch.Tensor = packet.default(input, size, *settings, *(factors or [None] * len(size)))
    return result


def _times_repeated(
    packet: Any, input: torch.Tensor, size: Sequence[int | torch.SymInt]
) -> list[int]:
    """How often each element stands along each axis; nothing where not all are as often there."""
    if packet not in _NEAREST:
        return []
    found = [*map(_ratio, size, input.shape[2:])]
    return [times for times in found if times] if all(found) else []


def _ratio(after: int | torch.SymInt, before: int | torch.SymInt) -> int | None:
    whole, part = map(_as_expression, (after, before))
    factors = range(1, _MOST_REPEATED + 1)
    return next((times for times in factors if not sympy.expand(times * part - whole)), None)


def _as_expression(size: int | torch.SymInt) -> sympy.Expr:
    return sympy.Integer(size) if isinstance(size, int) else size.node.expr


def _repeated(input: torch.Tensor, times: Sequence[int]) -> torch.Tensor:
    """An image whose elements are repeated along each axis, in its own layout."""
    batch, channels, *extents = input.shape
    pairs = [*zip(extents, times, strict=True)]
    apart = input.reshape(batch, channels, *chain(*((extent, 1) for extent, _ in pairs)))
    spread = apart.expand(batch, channels, *chain(*pairs))
    whole = spread.reshape(batch, channels, *(extent * count for extent, count in pairs))
    return whole.contiguous(memory_format=suggest_memory_format(input))


@contextmanager
def interpolations_left_whole() -> Iterator[None]:
    """While graphs are traced: PyTorch writes interpolations out before it differentiates them."""
    with ExitStack() as stack:
        for operator, write in _at_sizes().items():
            packet = operator.overloadpacket
            gradient = getattr(_aten, f"{packet.__name__}_backward").default
            stack.enter_context(_dispatched(operator, dict.fromkeys(_WRITTEN_BY, write)))
            stack.enter_context(_dispatched(packet.default, {}))
            stack.enter_context(_dispatched(gradient, {DispatchKey.Meta: _gradient_traced}))
        yield


def _gradient_traced(
    gradient: torch.Tensor, output_size: Sequence[int], input_size: Sequence[int], *how: Any
) -> torch.Tensor:
    """What PyTorch says of a gradient, also of a batch that changes, which most do not know of."""
    layout = suggest_memory_format(gradient)
    return torch.empty(
        input_size, dtype=gradient.dtype, device=gradient.device, memory_format=layout
    )


@contextmanager
def _dispatched(
    operator: torch._ops.OpOverload, kernels: dict[DispatchKey, Callable[..., Any]]
) -> Iterator[None]:
    """An operator with other kernels in Python for what is written out."""
    usual = dict(operator.py_kernels)
    others = {key: each for key, each in usual.items() if key not in _WRITTEN_BY}
    try:
        _dispatch(operator, {**others, **kernels})
        yield
    finally:
        _dispatch(operator, usual)


def _dispatch(
    operator: torch._ops.OpOverload, kernels: dict[DispatchKey, Callable[..., Any]]
) -> None:
    operator.py_kernels.clear()
    operator.py_kernels.update(kernels)
    operator._dispatch_cache.clear()


@cache
def training_decompositions() -> dict[Any, Callable[..., Any]]:
    """The table for graphs that are differentiated.

    A loss by itself would keep its log_softmax for the backward pass: 206 MB of float32 for 1024
    tokens of GPT-2, beside logits of 103 MB that are there anyway. Written out, the maximum and the
    sum of each row are kept, of which the rest is computed again.
    """
    return {**decompositions(), **get_decompositions([_aten._log_softmax, _aten._safe_softmax])}


@cache
def exported_decompositions() -> dict[Any, Callable[..., Any]]:
    """The table for programs without PyTorch behind them: attention is written out as well."""
    return {**decompositions(), _aten.scaled_dot_product_attention.default: _attention}


class AttentionWrittenOut(TorchFunctionMode):
    """Attention is written out where Python calls it, before PyTorch picks a kernel for it."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Whatever else is called is PyTorch's."""
        is_attention = func is torch.nn.functional.scaled_dot_product_attention
        return (_attention if is_attention else func)(*args, **(kwargs or {}))


def _group_norm(
    input: torch.Tensor,
    weight: torch.Tensor | None,
    bias: torch.Tensor | None,
    N: int,
    C: int,
    HxW: int,
    group: int,
    eps: float,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """As PyTorch writes it, but that planes stay what they are: they may lie inside of channels.

    PyTorch makes rows of the planes, of which images with channels last would be copied.
    """
    planes = input.shape[2:]
    channels = [group, C // group, *[1] * len(planes)]
    dtype = torch.float32 if input.dtype in (torch.float16, torch.bfloat16) else input.dtype
    x = input.to(dtype).reshape(input.shape[0], group, C // group, *planes)
    row = list(range(2, x.dim()))
    variance, mean = torch.var_mean(x, row, correction=0, keepdim=True)
    inverse = torch.rsqrt(variance + eps)
    out = (x - mean) * inverse
    if weight is not None:
        out = out * weight.reshape(channels)
    if bias is not None:
        out = out + bias.reshape(channels)
    out = out.reshape(input.shape).to(input.dtype)
    return out, mean.squeeze(row).to(input.dtype), inverse.squeeze(row).to(input.dtype)


def _eye(
    n: int,
    m: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
    **_of_memory: Any,
) -> torch.Tensor:
    """PyTorch counts to more than 255 in uint16, which its own kernels do not know."""
    rows, columns = (torch.arange(size, device=device) for size in (n, n if m is None else m))
    return (rows[:, None] == columns).to(dtype or torch.get_default_dtype())


def _convolution_backward(
    grad_output: torch.Tensor,
    input: torch.Tensor,
    weight: torch.Tensor,
    bias_sizes: Sequence[int] | None,
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    transposed: bool,
    output_padding: Sequence[int],
    groups: int,
    output_mask: Sequence[bool],
) -> Any:
    """Of those that become products, products; of others the bias's apart, a sum, which is ours."""
    of_input, of_weight, of_bias = output_mask
    how = (stride, padding, dilation, transposed, output_padding, groups)
    images = weights = None
    if has_gradients(input, weight, stride, padding, dilation, transposed, groups):
        images, weights = gradients_of_product(
            grad_output, input, weight, stride, padding, groups, output_mask
        )
    elif not of_bias:
        return NotImplemented
    elif of_input or of_weight:
        images, weights, _ = _aten.convolution_backward(
            grad_output, input, weight, bias_sizes, *how, [of_input, of_weight, False]
        )
    of_channels = grad_output.sum([0, *range(2, grad_output.dim())]) if of_bias else None
    return images, weights, of_channels


def _weight_norm_backward(
    grad_w: torch.Tensor,
    saved_v: torch.Tensor,
    saved_g: torch.Tensor,
    saved_norms: torch.Tensor,
    dim: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Of g * v / |v|, a norm for each slice along a dimension, for v and g.

    PyTorch's kernel for the last dimension takes an H200 403 us for 48 x 768 x 128.
    """
    wide = saved_norms.dtype
    of_weight, v, g = (each.to(wide) for each in (grad_w, saved_v, saved_g))
    apart = [1] * v.dim()
    apart[dim] = v.shape[dim]
    g, norms = g.reshape(apart), saved_norms.reshape(apart)
    others = [axis for axis in range(v.dim()) if axis != dim % v.dim()]
    along = (of_weight * v).sum(others, keepdim=True) / norms
    of_v = g / norms * (of_weight - v * (along / norms))
    return of_v.to(saved_v.dtype), along.reshape(saved_g.shape).to(saved_g.dtype)


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> torch.Tensor:
    """softmax(query . keys * scale + mask) . values, as PyTorch's documentation writes it."""
    if enable_gqa:
        key = key.repeat_interleave(query.size(-3) // key.size(-3), -3)
        value = value.repeat_interleave(query.size(-3) // value.size(-3), -3)
    factor = query.size(-1) ** -0.5 if scale is None else scale
    scores = query @ key.transpose(-2, -1) * factor
    if is_causal:
        attn_mask = scores.new_ones(scores.shape[-2:], dtype=torch.bool).tril()
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = scores.masked_fill(attn_mask.logical_not(), float("-inf"))
    elif attn_mask is not None:
        scores = scores + attn_mask
    # A causal mask alone hides no whole row.
    softmax = torch.softmax if attn_mask is None or is_causal else torch._safe_softmax
    return torch.dropout(softmax(scores, -1), dropout_p, dropout_p > 0) @ value
