"""BERT-base, an encoder-decoder Transformer, ViT-B and a Llama-style decoder block."""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from bench.case import Array, Case, Workload
from bench.cases.norms import rms_normalise, rms_normalise_jax
from bench.lazy import jnn, jnp
from bench.models.build import inference, meta, sub, training
from bench.models.layers import (
    Attention,
    FeedForward,
    attention_jax,
    cross_entropy,
    cross_entropy_jax,
    feed_forward_jax,
    linear_jax,
    norm_jax,
)

# ---- BERT ------------------------------------------------------------------------------------


class EncoderLayer(nn.Module):
    """Attention and feed-forward, each with a residual and a norm behind it."""

    def __init__(self, width: int, heads: int, activation: str = "gelu") -> None:
        super().__init__()
        self.attention = Attention(width, heads)
        self.feed = FeedForward(width, 4 * width, activation)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
        """One layer."""
        x = self.norm1(x + self.attention(x, x, mask))
        return self.norm2(x + self.feed(x))


def encoder_layer_jax(p: Any, heads: int, x: Any, mask: Any, activation: str = "gelu") -> Any:
    """EncoderLayer."""
    attended = attention_jax(sub(p, "attention"), heads, x, x, mask)
    x = norm_jax(sub(p, "norm1"), x + attended)
    return norm_jax(sub(p, "norm2"), x + feed_forward_jax(sub(p, "feed"), x, activation))


class Bert(nn.Module):
    """BERT's encoder with a pooler and a two-class head; with labels it returns the loss."""

    def __init__(self, layers: int, width: int, heads: int, length: int, words: int) -> None:
        super().__init__()
        self.embed_word, self.embed_place = nn.Embedding(words, width), nn.Embedding(length, width)
        self.norm = nn.LayerNorm(width)
        self.layers = nn.ModuleList(EncoderLayer(width, heads) for _ in range(layers))
        self.pool, self.head = nn.Linear(width, width), nn.Linear(width, 2)

    def forward(
        self, tokens: torch.Tensor, mask: torch.Tensor, label: torch.Tensor | None = None
    ) -> Any:
        """Hidden states and logits, or the loss."""
        x = self.norm(self.embed_word(tokens) + self.embed_place.weight[: tokens.shape[1]])
        for layer in self.layers:
            x = layer(x, mask)
        logits = self.head(torch.tanh(self.pool(x[:, 0])))
        return (x, logits) if label is None else cross_entropy(logits, label)


def bert(
    layers: int, width: int, heads: int, batch: int, length: int, words: int,
    dtype: str, train: bool = False,
) -> Workload:  # fmt: skip
    """BERT, forward or one training step."""

    def in_jax(p: Any, tokens: Any, mask: Any, label: Any = None) -> Any:
        x = p["embed_word.weight"][tokens] + p["embed_place.weight"][:length]
        x = norm_jax(sub(p, "norm"), x)
        for i in range(layers):
            x = encoder_layer_jax(sub(p, f"layers.{i}"), heads, x, mask)
        pooled = jnp.tanh(linear_jax(sub(p, "pool"), x[:, 0]))
        logits = linear_jax(sub(p, "head"), pooled)
        return (x, logits) if label is None else cross_entropy_jax(logits, label)

    module = meta(lambda: Bert(layers, width, heads, length, words))
    tokens = Array((batch, length), "int64", "index", high=words)
    inputs = (tokens, Array((batch, 1, 1, length), dtype, "mask", 0.1))
    if not train:
        return inference(module, in_jax, inputs, dtype)
    return training(module, in_jax, (*inputs, Array((batch,), "int64", "index", high=2)), dtype)


# ---- Transformer -----------------------------------------------------------------------------


class DecoderLayer(nn.Module):
    """Causal attention, attention to the encoder, feed-forward; norms behind."""

    def __init__(self, width: int, heads: int, activation: str) -> None:
        super().__init__()
        self.own, self.other = Attention(width, heads), Attention(width, heads)
        self.feed = FeedForward(width, 4 * width, activation)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.norm3 = nn.LayerNorm(width)

    def forward(self, x: torch.Tensor, memory: torch.Tensor, causal: torch.Tensor) -> torch.Tensor:
        """One layer."""
        x = self.norm1(x + self.own(x, x, causal))
        x = self.norm2(x + self.other(x, memory))
        return self.norm3(x + self.feed(x))


def decoder_layer_jax(p: Any, heads: int, x: Any, memory: Any, causal: Any, activation: str) -> Any:
    """DecoderLayer."""
    x = norm_jax(sub(p, "norm1"), x + attention_jax(sub(p, "own"), heads, x, x, causal))
    x = norm_jax(sub(p, "norm2"), x + attention_jax(sub(p, "other"), heads, x, memory))
    return norm_jax(sub(p, "norm3"), x + feed_forward_jax(sub(p, "feed"), x, activation))


class Transformer(nn.Module):
    """Encoder and decoder over one vocabulary; with labels it returns the loss."""

    def __init__(self, layers: int, width: int, heads: int, words: int, activation: str) -> None:
        super().__init__()
        self.scale = math.sqrt(width)
        self.embed = nn.Embedding(words, width)
        sizes = width, heads, activation
        self.encoder = nn.ModuleList(EncoderLayer(*sizes) for _ in range(layers))
        self.decoder = nn.ModuleList(DecoderLayer(*sizes) for _ in range(layers))
        self.head = nn.Linear(width, words, bias=False)

    def forward(
        self, source: torch.Tensor, target: torch.Tensor, places: torch.Tensor,
        causal: torch.Tensor, label: torch.Tensor | None = None,
    ) -> torch.Tensor:  # fmt: skip
        """Logits, or the loss."""
        memory = self.embed(source) * self.scale + places
        for layer in self.encoder:
            memory = layer(memory, None)
        x = self.embed(target) * self.scale + places
        for layer in self.decoder:
            x = layer(x, memory, causal)
        logits = self.head(x)
        return logits if label is None else cross_entropy(logits, label)


def transformer(
    layers: int, width: int, heads: int, batch: int, length: int, words: int,
    dtype: str, train: bool = False,
) -> Workload:  # fmt: skip
    """The Transformer, forward or one training step.

    A ReLU's gradient jumps at zero: an activation that is 1e-9 in float64 and -1e-9 in float32
    makes gradients that differ by what it contributes. The training step takes a GELU, so that its
    error can be judged.
    """
    activation = "gelu" if train else "relu"

    def in_jax(
        p: Any, source: Any, target: Any, places: Any, causal: Any, label: Any = None
    ) -> Any:
        memory = p["embed.weight"][source] * math.sqrt(width) + places
        for i in range(layers):
            memory = encoder_layer_jax(sub(p, f"encoder.{i}"), heads, memory, None, activation)
        x = p["embed.weight"][target] * math.sqrt(width) + places
        for i in range(layers):
            x = decoder_layer_jax(sub(p, f"decoder.{i}"), heads, x, memory, causal, activation)
        logits = linear_jax(sub(p, "head"), x)
        return logits if label is None else cross_entropy_jax(logits, label)

    module = meta(lambda: Transformer(layers, width, heads, words, activation))
    tokens = Array((batch, length), "int64", "index", high=words)
    inputs = (
        tokens,
        tokens,
        Array((length, width), dtype),
        Array((length, length), dtype, "causal"),
    )
    if not train:
        return inference(module, in_jax, inputs, dtype)
    return training(module, in_jax, (*inputs, tokens), dtype)


# ---- ViT -------------------------------------------------------------------------------------


class VitLayer(nn.Module):
    """A layer with its norms in front."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention, self.feed = Attention(width, heads), FeedForward(width, 4 * width)
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One layer."""
        h = self.norm1(x)
        x = x + self.attention(h, h)
        return x + self.feed(self.norm2(x))


class Vit(nn.Module):
    """A vision Transformer; patches are cut by reshaping and projected by a product."""

    def __init__(self, layers: int, width: int, heads: int, image: int, patch: int) -> None:
        super().__init__()
        self.patch, count = patch, (image // patch) ** 2
        self.project = nn.Linear(3 * patch * patch, width)
        self.embed_class = nn.Parameter(torch.empty(1, 1, width))
        self.embed_place = nn.Parameter(torch.empty(1, count + 1, width))
        self.layers = nn.ModuleList(VitLayer(width, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Logits of a thousand classes."""
        batch, _, side, _ = images.shape
        n, k = side // self.patch, self.patch
        cut = images.view(batch, 3, n, k, n, k).permute(0, 2, 4, 1, 3, 5)
        x = self.project(cut.reshape(batch, n * n, 3 * k * k))
        x = torch.cat([self.embed_class.expand(batch, -1, -1), x], dim=1) + self.embed_place
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x)[:, 0])


def vit(
    layers: int, width: int, heads: int, image: int, patch: int, batch: int, dtype: str
) -> Workload:
    """ViT, forward."""

    def in_jax(p: Any, images: Any) -> Any:
        n, k = image // patch, patch
        cut = images.reshape(batch, 3, n, k, n, k).transpose(0, 2, 4, 1, 3, 5)
        x = linear_jax(sub(p, "project"), cut.reshape(batch, n * n, 3 * k * k))
        first = jnp.broadcast_to(p["embed_class"], (batch, 1, width))
        x = jnp.concatenate([first, x], axis=1) + p["embed_place"]
        for i in range(layers):
            q = sub(p, f"layers.{i}")
            h = norm_jax(sub(q, "norm1"), x)
            x = x + attention_jax(sub(q, "attention"), heads, h, h)
            x = x + feed_forward_jax(sub(q, "feed"), norm_jax(sub(q, "norm2"), x))
        return linear_jax(sub(p, "head"), norm_jax(sub(p, "norm"), x)[:, 0])

    module = meta(lambda: Vit(layers, width, heads, image, patch))
    return inference(module, in_jax, (Array((batch, 3, image, image), dtype),), dtype)


# ---- Llama -----------------------------------------------------------------------------------


class LlamaBlock(nn.Module):
    """RMS norm, rotary causal attention, RMS norm, SwiGLU."""

    def __init__(self, width: int, heads: int, inner: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1_weight = nn.Parameter(torch.empty(width))
        self.norm2_weight = nn.Parameter(torch.empty(width))
        for name in ("query", "key", "value", "out"):
            setattr(self, name, nn.Linear(width, width, bias=False))
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(
        self, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, causal: torch.Tensor
    ) -> torch.Tensor:
        """One block."""
        batch, length, width = x.shape
        h = rms_normalise(x, self.norm1_weight)
        q, k, v = (
            f(h).view(batch, length, self.heads, -1).transpose(1, 2)
            for f in (self.query, self.key, self.value)
        )
        q, k = (self._turn(part, cos, sin) for part in (q, k))
        scores = q @ k.transpose(-1, -2) / math.sqrt(width // self.heads) + causal
        mixed = (F.softmax(scores, dim=-1) @ v).transpose(1, 2).reshape(batch, length, width)
        x = x + self.out(mixed)
        h = rms_normalise(x, self.norm2_weight)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))

    @staticmethod
    def _turn(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
        low, high = x.chunk(2, dim=-1)
        return torch.cat([low * cos - high * sin, high * cos + low * sin], dim=-1)


def llama_block(
    width: int, heads: int, inner: int, batch: int, length: int, dtype: str
) -> Workload:
    """One block over a whole prompt."""

    def turn(x: Any, cos: Any, sin: Any) -> Any:
        low, high = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([low * cos - high * sin, high * cos + low * sin], axis=-1)

    def in_jax(p: Any, x: Any, cos: Any, sin: Any, causal: Any) -> Any:
        h = rms_normalise_jax(x, p["norm1_weight"])
        q, k, v = (
            (h @ p[f"{name}.weight"].T).reshape(batch, length, heads, -1).transpose(0, 2, 1, 3)
            for name in ("query", "key", "value")
        )
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        scores = q @ k.swapaxes(-1, -2) / math.sqrt(width // heads) + causal
        mixed = (jnn.softmax(scores, axis=-1) @ v).transpose(0, 2, 1, 3)
        x = x + mixed.reshape(batch, length, width) @ p["out.weight"].T
        h = rms_normalise_jax(x, p["norm2_weight"])
        gated = jnn.silu(h @ p["gate.weight"].T) * (h @ p["up.weight"].T)
        return x + gated @ p["down.weight"].T

    module = meta(lambda: LlamaBlock(width, heads, inner))
    angle = Array((length, width // heads // 2), dtype, "uniform", scale=2.0, shift=-1.0)
    causal = Array((length, length), dtype, "causal")
    inputs = (Array((batch, length, width), dtype), angle, angle, causal)
    return inference(module, in_jax, inputs, dtype)


# ---- cases -----------------------------------------------------------------------------------


def cases() -> list[Case]:
    """Inference of all four, a training step of BERT and of the Transformer."""
    f16, f32 = {"dtype": "float16"}, {"dtype": "float32"}
    base = {"layers": 12, "width": 768, "heads": 12, "batch": 32, "length": 128, "words": 30522}
    six = {"layers": 6, "width": 512, "heads": 8, "batch": 16, "length": 64, "words": 32000}
    tiny = {"layers": 1, "width": 16, "heads": 2, "batch": 2, "length": 6, "words": 20, **f32}

    def case(name, title, define, sizes, small) -> Case:
        return Case(name, title, "models", define, sizes, small)

    return [
        case("bert", "BERT-base, 32×128 fp16", bert, {**base, **f16}, {**tiny, **f16}),
        case("bert-train", "BERT-base, training step, 16×128 fp32", bert,
             {**base, **f32, "batch": 16, "train": True}, {**tiny, "train": True}),
        case("transformer", "Transformer base, 16×64 fp32", transformer, {**six, **f32}, tiny),
        case("transformer-train", "Transformer base, training step, 16×64 fp32", transformer,
             {**six, **f32, "train": True}, {**tiny, "train": True}),
        case("vit", "ViT-B/16, 16 images fp16", vit,
             {"layers": 12, "width": 768, "heads": 12, "image": 224, "patch": 16, "batch": 16,
              **f16},
             {"layers": 1, "width": 16, "heads": 2, "image": 8, "patch": 4, "batch": 2, **f16}),
        case("llama-block", "Llama 7B decoder block, 1×2048 bf16", llama_block,
             {"width": 4096, "heads": 32, "inner": 11008, "batch": 1, "length": 2048,
              "dtype": "bfloat16"},
             {"width": 16, "heads": 2, "inner": 24, "batch": 2, "length": 6,
              "dtype": "bfloat16"}),
    ]  # fmt: skip
