"""Pieces of transformers and diffusion models beyond the fifteen."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from bench.case import Array, Case, Workload, wide
from bench.cases.norms import gain, layer_normalise_jax
from bench.lazy import jnn, jnp


def dropout_add_norm(rows: int, columns: int, dtype: str) -> Workload:
    """Dropout by a given mask, residual, layer norm: the end of a sub-layer in training."""

    def function(x, keep, residual, gamma, beta):
        total = x * keep * (1 / 0.9) + residual
        return total, F.layer_norm(total, (columns,), gamma, beta)

    def in_jax(x, keep, residual, gamma, beta):
        total = x * keep * (1 / 0.9) + residual
        return total, layer_normalise_jax(total, gamma, beta)

    x, vector = Array((rows, columns), dtype), Array((columns,), dtype)
    keep = Array((rows, columns), dtype, "keep", 0.9)
    return Workload(function, in_jax, (x, keep, x, gain(columns, dtype), vector))


def rotary(batch: int, length: int, heads: int, size: int, dtype: str) -> Workload:
    """Rotary embedding of queries and keys, halves rotated against each other."""
    half = size // 2

    def turn(x, cos, sin, join):
        low, high = x[..., :half], x[..., half:]
        return join([low * cos - high * sin, high * cos + low * sin])

    def function(q, k, cos, sin):
        c, s = cos[None, :, None, :], sin[None, :, None, :]
        return tuple(turn(x, c, s, lambda parts: torch.cat(parts, dim=-1)) for x in (q, k))

    def in_jax(q, k, cos, sin):
        c, s = cos[None, :, None, :], sin[None, :, None, :]
        return tuple(turn(x, c, s, lambda parts: jnp.concatenate(parts, -1)) for x in (q, k))

    x = Array((batch, length, heads, size), dtype)
    angle = Array((length, half), dtype, "uniform", scale=2.0, shift=-1.0)
    return Workload(function, in_jax, (x, x, angle, angle))


def swiglu_packed(rows: int, columns: int, dtype: str) -> Workload:
    """SwiGLU whose gate and value come from one matrix product, side by side."""

    def function(x):
        gate, value = x.chunk(2, dim=-1)
        return F.silu(gate) * value

    def in_jax(x):
        gate, value = jnp.split(x, 2, axis=-1)
        return jnn.silu(gate) * value

    return Workload(function, in_jax, (Array((rows, 2 * columns), dtype),))


def group_norm_last(batch: int, height: int, channels: int, groups: int, dtype: str) -> Workload:
    """Group norm and SiLU, channels last: a group is a comb through memory."""

    def function(x, gamma, beta):
        h = wide(x).reshape(x.shape[0], -1, groups, channels // groups)
        centred = h - h.mean((1, 3), keepdim=True)
        normal = centred * torch.rsqrt((centred * centred).mean((1, 3), keepdim=True) + 1e-5)
        normal = normal.reshape(x.shape) * wide(gamma) + wide(beta)
        return F.silu(normal).to(x.dtype)

    def in_jax(x, gamma, beta):
        h = x.astype(jnp.float32).reshape(batch, height * height, groups, channels // groups)
        centred = h - h.mean((1, 3), keepdims=True)
        normal = centred / jnp.sqrt((centred * centred).mean((1, 3), keepdims=True) + 1e-5)
        normal = normal.reshape(x.shape) * gamma.astype(jnp.float32) + beta.astype(jnp.float32)
        return jnn.silu(normal).astype(x.dtype)

    x = Array((batch, height, height, channels), dtype)
    return Workload(function, in_jax, (x, gain(channels, dtype), Array((channels,), dtype)))


def segment_softmax(batch: int, heads: int, length: int, dtype: str) -> Workload:
    """Softmax among the positions of one's own segment: several sequences packed into one row."""

    def function(x, segment):
        apart = (segment[:, None, :, None] != segment[:, None, None, :]).to(x.dtype)
        return F.softmax(x + apart * -30000.0, dim=-1)

    def in_jax(x, segment):
        apart = (segment[:, None, :, None] != segment[:, None, None, :]).astype(x.dtype)
        return jnn.softmax(x + apart * -30000.0, axis=-1)

    x = Array((batch, heads, length, length), dtype)
    return Workload(function, in_jax, (x, Array((batch, length), "int32", "index", high=4)))


def quantise_rows(rows: int, columns: int, dtype: str) -> Workload:
    """Symmetric 8-bit quantisation by row and back; the scales are returned too."""

    def function(x):
        h = wide(x)
        scale = h.abs().amax(-1, keepdim=True) * (1 / 127.0)
        level = torch.clamp(torch.round(h / scale), -127.0, 127.0)
        return (level * scale).to(x.dtype), scale[:, 0]

    def in_jax(x):
        h = x.astype(jnp.float32)
        scale = jnp.abs(h).max(-1, keepdims=True) * (1 / 127.0)
        level = jnp.clip(jnp.round(h / scale), -127.0, 127.0)
        return (level * scale).astype(x.dtype), scale[:, 0]

    # A value at a tie may fall to either level: one level is about 4 % of the RMS.
    return Workload(
        function, in_jax, (Array((rows, columns), dtype),), tolerance=8e-2, rowwise=(0,)
    )


def cases() -> list[Case]:
    """Dropout, rotary, SwiGLU, channels-last group norm, segment softmax, quantisation."""
    half, brain = {"dtype": "float16"}, {"dtype": "bfloat16"}

    def case(name, title, define, sizes, small, dtype):
        return Case(name, title, "blocks", define, {**sizes, **dtype}, {**small, **dtype})

    matrix = {"rows": 8, "columns": 48}
    return [
        case(
            "dropout-add-norm",
            "dropout (mask) + residual + layer norm, 8192×1024 fp16",
            dropout_add_norm,
            {"rows": 8192, "columns": 1024},
            matrix,
            half,
        ),
        case(
            "rotary",
            "rotary embedding of q and k, 4×2048×32×128 bf16",
            rotary,
            {"batch": 4, "length": 2048, "heads": 32, "size": 128},
            {"batch": 2, "length": 6, "heads": 3, "size": 8},
            brain,
        ),
        case(
            "swiglu-packed",
            "SwiGLU of one packed matrix, 8192×(2·11008) bf16",
            swiglu_packed,
            {"rows": 8192, "columns": 11008},
            matrix,
            brain,
        ),
        case(
            "group-norm-last",
            "group norm (32) + SiLU, channels last, 8×64×64×320 fp16",
            group_norm_last,
            {"batch": 8, "height": 64, "channels": 320, "groups": 32},
            {"batch": 2, "height": 4, "channels": 12, "groups": 3},
            half,
        ),
        case(
            "segment-softmax",
            "segment-wise softmax, 16×12×512×512 fp32",
            segment_softmax,
            {"batch": 16, "heads": 12, "length": 512},
            {"batch": 2, "heads": 2, "length": 16},
            {"dtype": "float32"},
        ),
        case(
            "quantise-rows",
            "quantise-dequantise by row, 8192×4096 bf16",
            quantise_rows,
            {"rows": 8192, "columns": 4096},
            matrix,
            brain,
        ),
    ]
