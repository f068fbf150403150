"""DIEN, an LSTM-based speech encoder and CRNN: many small dependent steps, unrolled."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from bench.case import Array, Case, Workload
from bench.lazy import jax, jnn, jnp
from bench.models.build import inference, meta, sub, training
from bench.models.layers import (
    Lstm,
    cross_entropy,
    cross_entropy_jax,
    linear_jax,
    lstm_jax,
    norm_jax,
)

# ---- speech ----------------------------------------------------------------------------------


class Speech(nn.Module):
    """LSTM layers over frames and a classifier of every frame; with labels, the loss."""

    def __init__(self, layers: int, frame: int, hidden: int, classes: int) -> None:
        super().__init__()
        sizes = [frame, *[hidden] * layers]
        self.layers = nn.ModuleList(Lstm(a, b) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(nn.LayerNorm(hidden) for _ in range(layers))
        self.head = nn.Linear(hidden, classes)

    def forward(self, frames: torch.Tensor, label: torch.Tensor | None = None) -> torch.Tensor:
        """Log-probabilities of every frame, or the loss."""
        for layer, norm in zip(self.layers, self.norms, strict=True):
            frames = norm(layer(frames))
        logits = self.head(frames)
        return F.log_softmax(logits, dim=-1) if label is None else cross_entropy(logits, label)


def speech(
    layers: int, frame: int, hidden: int, classes: int, batch: int, steps: int,
    dtype: str, train: bool = False,
) -> Workload:  # fmt: skip
    """The speech encoder, forward or one training step."""

    def in_jax(p: Any, frames: Any, label: Any = None) -> Any:
        for i in range(layers):
            frames = norm_jax(sub(p, f"norms.{i}"), lstm_jax(sub(p, f"layers.{i}"), frames))
        logits = linear_jax(sub(p, "head"), frames)
        if label is None:
            return jnn.log_softmax(logits, axis=-1)
        return cross_entropy_jax(logits, label)

    module = meta(lambda: Speech(layers, frame, hidden, classes))
    frames = Array((batch, steps, frame), dtype)
    if not train:
        return inference(module, in_jax, (frames,), dtype)
    label = Array((batch, steps), "int64", "index", high=classes)
    return training(module, in_jax, (frames, label), dtype)


# ---- DIEN ------------------------------------------------------------------------------------


class Gru(nn.Module):
    """A GRU, unrolled; given attention by step, it scales the update gate (AUGRU)."""

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.from_input = nn.Linear(inputs, 3 * hidden)
        self.from_state = nn.Linear(hidden, 3 * hidden)

    def forward(self, x: torch.Tensor, attention: torch.Tensor | None = None) -> list[torch.Tensor]:
        """The state after every step."""
        from_input = self.from_input(x)
        h = x.new_zeros(x.shape[0], self.hidden)
        states = []
        for t in range(x.shape[1]):
            reset_x, update_x, new_x = from_input[:, t].chunk(3, dim=-1)
            reset_h, update_h, new_h = self.from_state(h).chunk(3, dim=-1)
            update = torch.sigmoid(update_x + update_h)
            if attention is not None:
                update = update * attention[:, t, None]
            new = torch.tanh(new_x + torch.sigmoid(reset_x + reset_h) * new_h)
            h = h + update * (new - h)
            states.append(h)
        return states


def gru_jax(p: Any, x: Any, attention: Any = None) -> list[Any]:
    """Gru."""
    from_input = linear_jax(sub(p, "from_input"), x)
    h = jnp.zeros((x.shape[0], p["from_state.weight"].shape[1]), x.dtype)
    states = []
    for t in range(x.shape[1]):
        reset_x, update_x, new_x = jnp.split(from_input[:, t], 3, axis=-1)
        reset_h, update_h, new_h = jnp.split(linear_jax(sub(p, "from_state"), h), 3, axis=-1)
        update = jnn.sigmoid(update_x + update_h)
        if attention is not None:
            update = update * attention[:, t, None]
        new = jnp.tanh(new_x + jnn.sigmoid(reset_x + reset_h) * new_h)
        h = h + update * (new - h)
        states.append(h)
    return states


class Dien(nn.Module):
    """Interest evolution: a GRU over past items, attention to the candidate, an AUGRU, an MLP."""

    def __init__(self, items: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(items, width)
        self.interest, self.evolution = Gru(width, width), Gru(width, width)
        self.match = nn.Linear(width, width, bias=False)
        self.hidden1, self.hidden2 = nn.Linear(3 * width, 200), nn.Linear(200, 80)
        self.out = nn.Linear(80, 2)

    def forward(
        self, history: torch.Tensor, candidate: torch.Tensor, label: torch.Tensor | None = None
    ) -> torch.Tensor:
        """Probability of a click, or the loss."""
        past, wanted = self.embed(history), self.embed(candidate)
        states = torch.stack(self.interest(past), dim=1)
        attention = F.softmax((states * self.match(wanted)[:, None]).sum(-1), dim=-1)
        final = self.evolution(states, attention)[-1]
        h = torch.cat([final, wanted, past.sum(1)], dim=-1)
        logits = self.out(torch.sigmoid(self.hidden2(torch.sigmoid(self.hidden1(h)))))
        return F.softmax(logits, dim=-1) if label is None else cross_entropy(logits, label)


def dien(
    items: int, width: int, batch: int, steps: int, dtype: str, train: bool = False
) -> Workload:
    """DIEN, forward or one training step."""

    def in_jax(p: Any, history: Any, candidate: Any, label: Any = None) -> Any:
        past, wanted = p["embed.weight"][history], p["embed.weight"][candidate]
        states = jnp.stack(gru_jax(sub(p, "interest"), past), axis=1)
        matched = linear_jax(sub(p, "match"), wanted)[:, None]
        attention = jnn.softmax((states * matched).sum(-1), axis=-1)
        final = gru_jax(sub(p, "evolution"), states, attention)[-1]
        h = jnp.concatenate([final, wanted, past.sum(1)], axis=-1)
        h = jnn.sigmoid(linear_jax(sub(p, "hidden1"), h))
        logits = linear_jax(sub(p, "out"), jnn.sigmoid(linear_jax(sub(p, "hidden2"), h)))
        if label is None:
            return jnn.softmax(logits, axis=-1)
        return cross_entropy_jax(logits, label)

    module = meta(lambda: Dien(items, width))
    history = Array((batch, steps), "int64", "index", high=items)
    candidate = Array((batch,), "int64", "index", high=items)
    if not train:
        return inference(module, in_jax, (history, candidate), dtype)
    label = Array((batch,), "int64", "index", high=2)
    return training(module, in_jax, (history, candidate, label), dtype)


# ---- CRNN ------------------------------------------------------------------------------------

# Channels of each convolution and the pooling behind it (height, width).
CRNN_LAYERS = (
    (64, (2, 2)), (128, (2, 2)), (256, None), (256, (2, 1)), (512, None), (512, (2, 1)),
    (512, (2, 1)),
)  # fmt: skip


class Crnn(nn.Module):
    """Convolutions that fold an image of text into columns, two-way LSTMs, a class a column."""

    def __init__(self, layers: tuple[Any, ...], hidden: int, classes: int) -> None:
        super().__init__()
        sizes = [1, *[channels for channels, _ in layers]]
        self.pools = [pool for _, pool in layers]
        self.convolutions = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in pairwise(sizes))
        self.norms = nn.ModuleList(
            nn.BatchNorm2d(channels, track_running_stats=True) for channels in sizes[1:]
        )
        for norm in self.norms:
            # An integer counter, which an evaluation never reads.
            del norm.num_batches_tracked
        self.forward1, self.backward1 = Lstm(sizes[-1], hidden), Lstm(sizes[-1], hidden, True)
        self.forward2, self.backward2 = Lstm(2 * hidden, hidden), Lstm(2 * hidden, hidden, True)
        self.head = nn.Linear(2 * hidden, classes)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        """Log-probabilities of every column."""
        x = images
        for convolution, norm, pool in zip(self.convolutions, self.norms, self.pools, strict=True):
            x = F.relu(norm(convolution(x)))
            x = F.max_pool2d(x, pool) if pool else x
        x = x.squeeze(2).transpose(1, 2)
        x = torch.cat([self.forward1(x), self.backward1(x)], dim=-1)
        x = torch.cat([self.forward2(x), self.backward2(x)], dim=-1)
        return F.log_softmax(self.head(x), dim=-1)


def crnn(
    layers: tuple[Any, ...], hidden: int, classes: int, batch: int, height: int, width: int,
    dtype: str,
) -> Workload:  # fmt: skip
    """CRNN, forward."""

    def in_jax(p: Any, images: Any) -> Any:
        x = images
        for i, (_, pool) in enumerate(layers):
            x = conv_jax(sub(p, f"convolutions.{i}"), x)
            norm = sub(p, f"norms.{i}")
            scale = norm["weight"] / jnp.sqrt(norm["running_var"] + 1e-5)
            x = (x - norm["running_mean"][:, None, None]) * scale[:, None, None]
            x = jnn.relu(x + norm["bias"][:, None, None])
            if pool:
                window = (1, 1, *pool)
                x = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, window, window, "VALID")
        x = x[:, :, 0].swapaxes(1, 2)
        for n in (1, 2):
            ahead = lstm_jax(sub(p, f"forward{n}"), x)
            x = jnp.concatenate([ahead, lstm_jax(sub(p, f"backward{n}"), x, True)], axis=-1)
        return jnn.log_softmax(linear_jax(sub(p, "head"), x), axis=-1)

    module = meta(lambda: Crnn(layers, hidden, classes))
    return inference(module, in_jax, (Array((batch, 1, height, width), dtype),), dtype)


def conv_jax(p: Any, x: Any) -> Any:
    """nn.Conv2d, 3×3 or 1×1, size kept."""
    out = jax.lax.conv_general_dilated(x, p["weight"], (1, 1), "SAME")
    return out + p["bias"][:, None, None]


def cases() -> list[Case]:
    """Inference of all three, a training step of the speech encoder and of DIEN."""
    f32 = {"dtype": "float32"}
    talk = {"layers": 3, "frame": 80, "hidden": 512, "classes": 64, "batch": 32, "steps": 32}
    little = {"layers": 1, "frame": 4, "hidden": 6, "classes": 5, "batch": 2, "steps": 3, **f32}
    shop = {"items": 100000, "width": 64, "batch": 256, "steps": 32, **f32}
    corner = {"items": 10, "width": 4, "batch": 3, "steps": 3, **f32}

    def case(name, title, define, sizes, small) -> Case:
        return Case(name, title, "models", define, sizes, small)

    return [
        case("dien", "DIEN, 256×32 fp32", dien, shop, corner),
        case("dien-train", "DIEN, training step, 256×32 fp32", dien, {**shop, "train": True},
             {**corner, "train": True}),
        case("speech", "speech encoder (3 LSTMs of 512), 32×32 frames fp32", speech,
             {**talk, **f32}, little),
        case("speech-train", "speech encoder, training step, 32×32 frames fp32", speech,
             {**talk, **f32, "train": True}, {**little, "train": True}),
        case("crnn", "CRNN, 8 images of 32×100 fp32", crnn,
             {"layers": CRNN_LAYERS, "hidden": 256, "classes": 37, "batch": 8, "height": 32,
              "width": 100, **f32},
             {"layers": ((3, (2, 2)), (4, (2, 1))), "hidden": 5, "classes": 4, "batch": 2,
              "height": 4, "width": 6, **f32}),
    ]  # fmt: skip
