"""Transposes that frameworks leave between operators: weights, keys, channels first and last."""

from __future__ import annotations

import torch.nn.functional as F

from bench.case import Array, Case, Workload
from bench.lazy import jnn


def matrix(rows: int, columns: int, dtype: str) -> Workload:
    """A weight, scaled, the other way round."""

    def function(x):
        return (x * 0.125).T.contiguous()

    return Workload(function, lambda x: (x * 0.125).T, (Array((rows, columns), dtype),))


def keys(batch: int, length: int, heads: int, size: int, dtype: str) -> Workload:
    """Keys of an attention, scaled, with heads outermost and the length innermost."""

    def function(k, bias):
        return ((k + bias) * size**-0.5).permute(0, 2, 3, 1).contiguous()

    def in_jax(k, bias):
        return ((k + bias) * size**-0.5).transpose(0, 2, 3, 1)

    k = Array((batch, length, heads, size), dtype)
    return Workload(function, in_jax, (k, Array((heads, size), dtype)))


def channels_first(batch: int, height: int, width: int, channels: int, dtype: str) -> Workload:
    """Bias and SiLU of images whose channels come last, written with channels first."""

    def function(x, bias):
        return F.silu(x + bias).permute(0, 3, 1, 2).contiguous()

    def in_jax(x, bias):
        return jnn.silu(x + bias).transpose(0, 3, 1, 2)

    x = Array((batch, height, width, channels), dtype)
    return Workload(function, in_jax, (x, Array((channels,), dtype)))


def channels_last(batch: int, channels: int, height: int, width: int, dtype: str) -> Workload:
    """Images with channels first, normalised by channel, written with channels last."""

    def function(x, scale, shift):
        return (x.permute(0, 2, 3, 1) * scale + shift).contiguous()

    def in_jax(x, scale, shift):
        return x.transpose(0, 2, 3, 1) * scale + shift

    x, vector = Array((batch, channels, height, width), dtype), Array((channels,), dtype)
    return Workload(function, in_jax, (x, vector, vector))


def cases() -> list[Case]:
    """One of each, of the sizes of BERT, a diffusion U-Net and a ResNet."""
    half, single = {"dtype": "float16"}, {"dtype": "float32"}
    images = {"batch": 8, "channels": 320, "height": 64, "width": 64}
    few = {"batch": 2, "channels": 9, "height": 5, "width": 7}
    long = {"batch": 32, "length": 128, "heads": 12, "size": 64}
    short = {"batch": 2, "length": 9, "heads": 3, "size": 8}
    return [
        Case(
            "transpose-3072x768",
            "transpose of x·scale, 3072×768 fp16",
            "transposes",
            matrix,
            {"rows": 3072, "columns": 768, **half},
            {"rows": 33, "columns": 20, **half},
        ),
        Case(
            "keys-transposed",
            "(k + bias)·scale, length innermost, 32×128×12×64 fp16",
            "transposes",
            keys,
            {**long, **half},
            {**short, **half},
        ),
        Case(
            "channels-first",
            "silu(x + bias), channels last to first, 8×64×64×320 fp16",
            "transposes",
            channels_first,
            {**images, **half},
            {**few, **half},
        ),
        Case(
            "channels-last",
            "x·scale + shift, channels first to last, 8×320×64×64 fp32",
            "transposes",
            channels_last,
            {**images, **single},
            {**few, **single},
        ),
    ]
