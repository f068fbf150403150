"""Gradients of what is normalised along any axis but the last, and sums of gradients over rows."""

from __future__ import annotations

import math

import torch

from bench.case import Array, Case, Workload, wide
from bench.cases.across import softmax_backward_over
from bench.lazy import jnp

Shape = tuple[int, ...]


def normalised_backward(shape: Shape, axes: Shape, dtype: str) -> Workload:
    """The gradient of mean 0 and variance 1 over the axes, from what was normalised."""
    kept = tuple(1 if axis in axes else extent for axis, extent in enumerate(shape))

    def function(normal, dy, rstd):
        n, g = wide(normal), wide(dy)
        mean = g.mean(axes, keepdim=True)
        along = (g * n).mean(axes, keepdim=True)
        return (rstd * (g - mean - n * along)).to(dy.dtype)

    def in_jax(normal, dy, rstd):
        n, g = normal.astype(jnp.float32), dy.astype(jnp.float32)
        mean = g.mean(axes, keepdims=True)
        along = (g * n).mean(axes, keepdims=True)
        return (rstd * (g - mean - n * along)).astype(dy.dtype)

    scale = Array(kept, "float32", "uniform", scale=1.0, shift=0.5)
    return Workload(function, in_jax, (Array(shape, dtype), Array(shape, dtype), scale))


def weight_norm_backward(shape: Shape, dtype: str) -> Workload:
    """Gradients of weights over their norm along axis 0, times a gain: of weights and gain."""

    def function(v, gain, dy):
        h, g = wide(v), wide(dy)
        norm = torch.sqrt((h * h).sum(0, keepdim=True))
        dgain = (g * h).sum(0, keepdim=True) / norm
        dv = wide(gain) / norm * (g - h * dgain / norm)
        return dv.to(v.dtype), dgain.to(v.dtype)

    def in_jax(v, gain, dy):
        h, g = v.astype(jnp.float32), dy.astype(jnp.float32)
        norm = jnp.sqrt((h * h).sum(0, keepdims=True))
        dgain = (g * h).sum(0, keepdims=True) / norm
        dv = gain.astype(jnp.float32) / norm * (g - h * dgain / norm)
        return dv.astype(v.dtype), dgain.astype(v.dtype)

    gain = Array((1, *shape[1:]), dtype)
    return Workload(function, in_jax, (Array(shape, dtype), gain, Array(shape, dtype)))


def bias_gradient(shape: Shape, dtype: str) -> Workload:
    """Sums of a gradient over all axes but the last, scaled by their number."""
    axes = tuple(range(len(shape) - 1))
    scale = 1 / math.sqrt(math.prod(shape[:-1]))

    def function(dy):
        return wide(dy).sum(axes) * scale

    def in_jax(dy):
        return dy.astype(jnp.float32).sum(axes) * scale

    return Workload(function, in_jax, (Array(shape, dtype),))


def cases() -> list[Case]:
    """Softmax, norms, weights and a bias, backward."""
    half, single, brain = {"dtype": "float16"}, {"dtype": "float32"}, {"dtype": "bfloat16"}

    def norm(name, title, shape, axes, small, dtype):
        sizes = {"axes": axes, **dtype}
        return _case(name, title, normalised_backward, shape, small, sizes)

    return [
        _case(
            "softmax-over-rows-backward", "softmax backward over axis 1 of 1×8192×4096 bf16",
            softmax_backward_over, (1, 8192, 4096), (1, 31, 12), {"axis": 1, **brain},
        ),
        norm(
            "standardise-backward", "columns standardised, backward, 32768×512 fp32",
            (32768, 512), (0,), (31, 12), single,
        ),
        norm(
            "batch-norm-last-backward", "batch norm backward, channels last, 64×56×56×128 bf16",
            (64, 56, 56, 128), (0, 1, 2), (2, 5, 3, 12), brain,
        ),
        norm(
            "layer-norm-channels-backward", "norm over axis 1 of 32×192×56×56 fp16, backward",
            (32, 192, 56, 56), (1,), (2, 7, 3, 4), half,
        ),
        norm(
            "instance-norm-volumes-backward", "instance norm of 2×4×96×96×96 fp32, backward",
            (2, 4, 96, 96, 96), (2, 3, 4), (1, 3, 5, 4, 3), single,
        ),
        _case(
            "weight-norm-backward", "weight norm over axis 0, 4096×4096 fp32, backward",
            weight_norm_backward, (4096, 4096), (31, 12), single,
        ),
        _case(
            "bias-gradient", "sums over (0, 1) of 16×512×3072 fp16", bias_gradient,
            (16, 512, 3072), (3, 5, 12), half,
        ),
    ]  # fmt: skip


def _case(name, title, define, shape, small, sizes) -> Case:
    full, few = {"shape": shape, **sizes}, {"shape": small, **sizes}
    return Case(name, title, "across", define, full, few)
