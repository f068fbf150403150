"""Norms by row as plain functions, for PyTorch and for JAX; cases and models build on them."""

from __future__ import annotations

import torch

from bench.case import Array, wide
from bench.lazy import jnp, lax


def rms_normalise(x: torch.Tensor, weight: torch.Tensor, epsilon: float = 1e-6) -> torch.Tensor:
    """RMS norm over the last dimension, in float32, stored as x was."""
    h = wide(x)
    scale = torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + epsilon)
    return (h * scale * wide(weight)).to(x.dtype)


def rms_normalise_jax(x, weight, epsilon: float = 1e-6):
    """RMS norm over the last dimension, in float32, stored as x was."""
    h = x.astype(jnp.float32)
    scale = lax.rsqrt(jnp.mean(h * h, axis=-1, keepdims=True) + epsilon)
    return (h * scale * weight.astype(jnp.float32)).astype(x.dtype)


def layer_normalise_jax(x, gamma, beta, epsilon: float = 1e-5):
    """Layer norm over the last dimension, in float32, stored as x was."""
    h = x.astype(jnp.float32)
    centred = h - h.mean(-1, keepdims=True)
    normal = centred * lax.rsqrt(jnp.mean(centred * centred, axis=-1, keepdims=True) + epsilon)
    return (normal * gamma.astype(jnp.float32) + beta.astype(jnp.float32)).astype(x.dtype)


def gain(columns: int, dtype: str) -> Array:
    """A norm's weight: close to one."""
    return Array((columns,), dtype, scale=0.1, shift=1.0)
