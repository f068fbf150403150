"""Backward passes, written out: inputs and the outgoing gradient in, every gradient out."""

from __future__ import annotations

import math

import torch

from bench.case import Array, Case, Workload, wide
from bench.cases.norms import gain
from bench.lazy import jnp, lax


def softmax_backward(rows: int, columns: int, dtype: str = "float32") -> Workload:
    """Gradient of softmax by row, from its output y and the gradient of that."""

    def function(y, grad):
        p, g = wide(y), wide(grad)
        return (p * (g - (p * g).sum(-1, keepdim=True))).to(y.dtype)

    def in_jax(y, grad):
        p, g = y.astype(jnp.float32), grad.astype(jnp.float32)
        return (p * (g - (p * g).sum(-1, keepdims=True))).astype(y.dtype)

    # Any y will do for the arithmetic; these are of the size of probabilities.
    y = Array((rows, columns), dtype, "uniform", scale=2.0 / columns)
    return Workload(function, in_jax, (y, Array((rows, columns), dtype)), rowwise=(0, 1))


def layer_norm_backward(rows: int, columns: int, dtype: str = "float32") -> Workload:
    """dx by row, dgamma and dbeta by column, from the input of the norm."""

    def function(x, grad, gamma):
        h, g = wide(x), wide(grad)
        centred = h - h.mean(-1, keepdim=True)
        inverse = torch.rsqrt((centred * centred).mean(-1, keepdim=True) + 1e-5)
        normal = centred * inverse
        inner = g * wide(gamma)
        mean = inner.mean(-1, keepdim=True)
        projection = (inner * normal).mean(-1, keepdim=True)
        dx = (inner - mean - normal * projection) * inverse
        return dx.to(x.dtype), (g * normal).sum(0), g.sum(0)

    def in_jax(x, grad, gamma):
        h, g = x.astype(jnp.float32), grad.astype(jnp.float32)
        centred = h - h.mean(-1, keepdims=True)
        inverse = lax.rsqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
        normal = centred * inverse
        inner = g * gamma.astype(jnp.float32)
        mean = inner.mean(-1, keepdims=True)
        projection = (inner * normal).mean(-1, keepdims=True)
        dx = (inner - mean - normal * projection) * inverse
        return dx.astype(x.dtype), (g * normal).sum(0), g.sum(0)

    x = Array((rows, columns), dtype)
    return Workload(function, in_jax, (x, x, gain(columns, dtype)))


def rms_norm_backward(rows: int, columns: int, dtype: str = "float32") -> Workload:
    """dx by row and dweight by column, from the input of the norm."""

    def function(x, grad, weight):
        h, g = wide(x), wide(grad)
        inverse = torch.rsqrt((h * h).mean(-1, keepdim=True) + 1e-6)
        normal = h * inverse
        inner = g * wide(weight)
        projection = (inner * normal).mean(-1, keepdim=True)
        return ((inner - normal * projection) * inverse).to(x.dtype), (g * normal).sum(0)

    def in_jax(x, grad, weight):
        h, g = x.astype(jnp.float32), grad.astype(jnp.float32)
        inverse = lax.rsqrt((h * h).mean(-1, keepdims=True) + 1e-6)
        normal = h * inverse
        inner = g * weight.astype(jnp.float32)
        projection = (inner * normal).mean(-1, keepdims=True)
        return ((inner - normal * projection) * inverse).astype(x.dtype), (g * normal).sum(0)

    x = Array((rows, columns), dtype)
    return Workload(function, in_jax, (x, x, gain(columns, dtype)))


def gelu_backward(rows: int, columns: int, dtype: str = "float16") -> Workload:
    """Gradient of gelu(x + bias): dx, and dbias by column."""

    def function(x, bias, grad):
        h, g = wide(x) + wide(bias), wide(grad)
        normal = 0.5 * (1.0 + torch.erf(h * math.sqrt(0.5)))
        density = torch.exp(-0.5 * h * h) * (1.0 / math.sqrt(2.0 * math.pi))
        dx = g * (normal + h * density)
        return dx.to(x.dtype), dx.sum(0)

    def in_jax(x, bias, grad):
        h, g = (x.astype(jnp.float32) + bias.astype(jnp.float32)), grad.astype(jnp.float32)
        normal = 0.5 * (1.0 + lax.erf(h * math.sqrt(0.5)))
        density = jnp.exp(-0.5 * h * h) * (1.0 / math.sqrt(2.0 * math.pi))
        dx = g * (normal + h * density)
        return dx.astype(x.dtype), dx.sum(0)

    x = Array((rows, columns), dtype)
    return Workload(function, in_jax, (x, Array((columns,), dtype), x))


def cases() -> list[Case]:
    """Softmax, RMS norm and GELU backward; layer norm's is among the peers' fifteen."""
    small = {"rows": 12, "columns": 40}

    def case(name, title, define, rows, columns, dtype):
        sizes = {"rows": rows, "columns": columns, "dtype": dtype}
        return Case(name, title, "backward", define, sizes, {**small, "dtype": dtype})

    return [
        case(
            "softmax-backward",
            "softmax backward, 49152×128 fp32",
            softmax_backward,
            49152,
            128,
            "float32",
        ),
        case(
            "softmax-backward-wide",
            "softmax backward, 8192×8192 bf16",
            softmax_backward,
            8192,
            8192,
            "bfloat16",
        ),
        case(
            "layer-norm-backward-bf16",
            "layer norm backward, 16384×4096 bf16",
            layer_norm_backward,
            16384,
            4096,
            "bfloat16",
        ),
        case(
            "rms-norm-backward",
            "RMS norm backward, 8192×4096 bf16",
            rms_norm_backward,
            8192,
            4096,
            "bfloat16",
        ),
        case(
            "gelu-backward",
            "gelu(x + bias) backward with dbias, 4096×3072 fp16",
            gelu_backward,
            4096,
            3072,
            "float16",
        ),
    ]
