"""Layers that several models share: a PyTorch module and, beside it, the same in JAX.

JAX functions take a module's parameters by name (see bench.models.build.sub).
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from bench.cases.norms import layer_normalise_jax
from bench.lazy import jnn, jnp
from bench.models.build import sub


def linear_jax(p: dict[str, Any], x: Any) -> Any:
    """nn.Linear."""
    out = x @ p["weight"].T
    return out + p["bias"] if "bias" in p else out


def norm_jax(p: dict[str, Any], x: Any) -> Any:
    """nn.LayerNorm over the last dimension."""
    return layer_normalise_jax(x, p["weight"], p["bias"])


class Attention(nn.Module):
    """Multi-head attention in plain operators: products, scale, mask, softmax."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.key = nn.Linear(width, width), nn.Linear(width, width)
        self.value, self.out = nn.Linear(width, width), nn.Linear(width, width)

    def forward(
        self, x: torch.Tensor, memory: torch.Tensor, mask: torch.Tensor | None = None
    ) -> torch.Tensor:
        """x attends to memory; the mask is added to the scores."""
        batch, length, width = x.shape
        q = self.query(x).view(batch, length, self.heads, -1).transpose(1, 2)
        k = self.key(memory).view(batch, memory.shape[1], self.heads, -1).transpose(1, 2)
        v = self.value(memory).view(batch, memory.shape[1], self.heads, -1).transpose(1, 2)
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads)
        if mask is not None:
            scores = scores + mask
        mixed = F.softmax(scores, dim=-1) @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


def attention_jax(p: dict[str, Any], heads: int, x: Any, memory: Any, mask: Any = None) -> Any:
    """Attention."""
    batch, length, width = x.shape

    def split(name: str, tokens: Any) -> Any:
        projected = linear_jax(sub(p, name), tokens)
        return projected.reshape(batch, tokens.shape[1], heads, -1).transpose(0, 2, 1, 3)

    q, k, v = split("query", x), split("key", memory), split("value", memory)
    scores = q @ k.swapaxes(-1, -2) / math.sqrt(width // heads)
    if mask is not None:
        scores = scores + mask
    mixed = (jnn.softmax(scores, axis=-1) @ v).transpose(0, 2, 1, 3)
    return linear_jax(sub(p, "out"), mixed.reshape(batch, length, width))


class FeedForward(nn.Module):
    """Linear, GELU or ReLU, linear."""

    def __init__(self, width: int, inner: int, activation: str = "gelu") -> None:
        super().__init__()
        self.up, self.down = nn.Linear(width, inner), nn.Linear(inner, width)
        self.activation = activation

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Token by token."""
        h = self.up(x)
        return self.down(F.gelu(h) if self.activation == "gelu" else F.relu(h))


def feed_forward_jax(p: dict[str, Any], x: Any, activation: str = "gelu") -> Any:
    """FeedForward."""
    h = linear_jax(sub(p, "up"), x)
    h = jnn.gelu(h, approximate=False) if activation == "gelu" else jnn.relu(h)
    return linear_jax(sub(p, "down"), h)


class Lstm(nn.Module):
    """One LSTM layer, unrolled: the input's product at once, the state's step by step."""

    def __init__(self, inputs: int, hidden: int, reverse: bool = False) -> None:
        super().__init__()
        self.hidden, self.reverse = hidden, reverse
        self.from_input = nn.Linear(inputs, 4 * hidden)
        self.from_state = nn.Linear(hidden, 4 * hidden, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, time, inputs) to (batch, time, hidden)."""
        batch, steps, _ = x.shape
        gates = self.from_input(x)
        h = x.new_zeros(batch, self.hidden)
        c = x.new_zeros(batch, self.hidden)
        states = []
        for t in reversed(range(steps)) if self.reverse else range(steps):
            i, f, g, o = (gates[:, t] + self.from_state(h)).chunk(4, dim=-1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
            states.append(h)
        return torch.stack(states[::-1] if self.reverse else states, dim=1)


def lstm_jax(p: dict[str, Any], x: Any, reverse: bool = False) -> Any:
    """Lstm."""
    gates = linear_jax(sub(p, "from_input"), x)
    weight = p["from_state.weight"].T
    h = c = jnp.zeros((x.shape[0], weight.shape[0]), x.dtype)
    states = []
    for t in reversed(range(x.shape[1])) if reverse else range(x.shape[1]):
        i, f, g, o = jnp.split(gates[:, t] + h @ weight, 4, axis=-1)
        c = jnn.sigmoid(f) * c + jnn.sigmoid(i) * jnp.tanh(g)
        h = jnn.sigmoid(o) * jnp.tanh(c)
        states.append(h)
    return jnp.stack(states[::-1] if reverse else states, axis=1)


def cross_entropy(logits: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
    """Mean cross entropy, in a form that every compiler takes.

    The label is compared, not gathered, and nothing follows the last sum: TVM's reader has no
    gradient of gather, its default schedules none for a scalar that goes on.
    """
    classes = torch.arange(logits.shape[-1], device=logits.device)
    share = (label[..., None] == classes).to(logits.dtype) * (-1.0 / label.numel())
    return (F.log_softmax(logits, dim=-1) * share).sum()


def cross_entropy_jax(logits: Any, label: Any) -> Any:
    """cross_entropy."""
    picked = (label[..., None] == jnp.arange(logits.shape[-1])).astype(logits.dtype)
    return -(jnn.log_softmax(logits, axis=-1) * picked).sum(-1).mean()
