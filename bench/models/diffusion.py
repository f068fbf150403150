"""A block of a diffusion U-Net: a residual convolution block and self-attention."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from bench.case import Array, Case, Workload
from bench.lazy import jnn, jnp
from bench.models.build import inference, meta, sub
from bench.models.layers import Attention, attention_jax, linear_jax, norm_jax
from bench.models.recurrent import conv_jax


class UnetBlock(nn.Module):
    """Group norm, SiLU, convolution, time embedding, the same again; then attention."""

    def __init__(self, channels: int, groups: int, heads: int, time: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, channels), nn.GroupNorm(groups, channels)
        self.conv1 = nn.Conv2d(channels, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(time, channels)
        self.norm3, self.attention = nn.LayerNorm(channels), Attention(channels, heads)

    def forward(self, x: torch.Tensor, time: torch.Tensor) -> torch.Tensor:
        """An image of features and the embedding of its time step."""
        h = self.conv1(F.silu(self.norm1(x)))
        h = h + self.time(F.silu(time))[:, :, None, None]
        x = x + self.conv2(F.silu(self.norm2(h)))
        tokens = x.flatten(2).transpose(1, 2)
        h = self.norm3(tokens)
        return (tokens + self.attention(h, h)).transpose(1, 2).reshape(x.shape)


def unet_block(
    channels: int, groups: int, heads: int, time: int, batch: int, side: int, dtype: str
) -> Workload:
    """The block, forward."""

    def group_norm(p: Any, x: Any) -> Any:
        h = x.astype(jnp.float32).reshape(batch, groups, -1)
        h = (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)
        h = h.reshape(x.shape) * p["weight"][:, None, None] + p["bias"][:, None, None]
        return h.astype(x.dtype)

    def in_jax(p: Any, x: Any, moment: Any) -> Any:
        h = conv_jax(sub(p, "conv1"), jnn.silu(group_norm(sub(p, "norm1"), x)))
        h = h + linear_jax(sub(p, "time"), jnn.silu(moment))[:, :, None, None]
        x = x + conv_jax(sub(p, "conv2"), jnn.silu(group_norm(sub(p, "norm2"), h)))
        tokens = x.reshape(batch, channels, -1).swapaxes(1, 2)
        h = norm_jax(sub(p, "norm3"), tokens)
        tokens = tokens + attention_jax(sub(p, "attention"), heads, h, h)
        return tokens.swapaxes(1, 2).reshape(x.shape)

    module = meta(lambda: UnetBlock(channels, groups, heads, time))
    inputs = (Array((batch, channels, side, side), dtype), Array((batch, time), dtype))
    return inference(module, in_jax, inputs, dtype)


def cases() -> list[Case]:
    """One block at the widest resolution that has attention."""
    return [
        Case(
            "unet-block",
            "diffusion U-Net block, 4×320×32×32 fp16",
            "models",
            unet_block,
            {"channels": 320, "groups": 32, "heads": 8, "time": 1280, "batch": 4, "side": 32,
             "dtype": "float16"},
            {"channels": 8, "groups": 4, "heads": 2, "time": 6, "batch": 2, "side": 4,
             "dtype": "float16"},
        )
    ]  # fmt: skip
