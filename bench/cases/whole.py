"""Reductions that cross the rows and are then used by all of them, or go over everything."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from bench.case import Array, Case, Workload, wide
from bench.cases.norms import gain
from bench.cases.optimizer import BERT_TENSORS, Shapes
from bench.lazy import jnn, jnp


def batch_norm_rows(shape: tuple[int, ...], dtype: str) -> Workload:
    """Batch norm with the statistics of this batch, then ReLU; the channels come last."""
    over = tuple(range(len(shape) - 1))

    def function(x, gamma, beta):
        h = wide(x)
        centred = h - h.mean(over, keepdim=True)
        variance = (centred * centred).mean(over, keepdim=True)
        normal = centred * torch.rsqrt(variance + 1e-5)
        return F.relu(normal * wide(gamma) + wide(beta)).to(x.dtype)

    def in_jax(x, gamma, beta):
        h = x.astype(jnp.float32)
        centred = h - h.mean(over, keepdims=True)
        variance = (centred * centred).mean(over, keepdims=True)
        normal = centred / jnp.sqrt(variance + 1e-5)
        scaled = normal * gamma.astype(jnp.float32) + beta.astype(jnp.float32)
        return jnn.relu(scaled).astype(x.dtype)

    arrays = (Array(shape, dtype), gain(shape[-1], dtype), Array((shape[-1],), dtype))
    return Workload(function, in_jax, arrays)


def softmax_over_rows(rows: int, columns: int, dtype: str) -> Workload:
    """Softmax over the first axis, as attention over slots and routing by capacity take it."""

    def function(x):
        return torch.softmax(wide(x), 0).to(x.dtype)

    def in_jax(x):
        return jnn.softmax(x.astype(jnp.float32), axis=0).astype(x.dtype)

    return Workload(function, in_jax, (Array((rows, columns), dtype),))


def mean_loss(rows: int, columns: int, dtype: str) -> Workload:
    """Cross entropy of every row with its label, averaged over all rows."""

    def function(x, label):
        picked = torch.log_softmax(wide(x), -1).gather(1, label[:, None])
        return -picked.mean()

    def in_jax(x, label):
        logits = jnn.log_softmax(x.astype(jnp.float32), axis=-1)
        return -jnp.take_along_axis(logits, label[:, None], axis=1).mean()

    label = Array((rows,), "int64", "index", high=columns)
    return Workload(function, in_jax, (Array((rows, columns), dtype), label))


def clipped_step(shapes: Shapes, limit: float = 1.0, rate: float = 1e-2) -> Workload:
    """Gradients clipped by their global norm, then a step of SGD with momentum."""
    count = len(shapes)

    def step(arrays, root, least):
        parameters, gradients, kept = (arrays[n * count : (n + 1) * count] for n in range(3))
        norm = root(sum((g * g).sum() for g in gradients))
        scale = least(limit / (norm + 1e-6))
        moved = [0.9 * b + g * scale for g, b in zip(gradients, kept, strict=True)]
        return (norm, *(p - rate * m for p, m in zip(parameters, moved, strict=True)), *moved)

    def function(*arrays):
        return step(arrays, torch.sqrt, lambda x: torch.clamp(x, max=1.0))

    def in_jax(*arrays):
        return step(arrays, jnp.sqrt, lambda x: jnp.minimum(x, 1.0))

    return Workload(function, in_jax, tuple(Array(shape, scale=0.02) for shape in shapes) * 3)


def cases() -> list[Case]:
    """Batch norm of rows and of channels last, softmax over rows, a mean loss, a clipped step."""
    single, brain = {"dtype": "float32"}, {"dtype": "bfloat16"}

    def case(name, title, define, sizes, small, dtype):
        return Case(name, title, "whole", define, {**sizes, **dtype}, {**small, **dtype})

    matrix = {"rows": 24, "columns": 40}
    return [
        case(
            "batch-norm-rows",
            "batch norm (training) + ReLU, 8192×1024 fp32",
            batch_norm_rows,
            {"shape": (8192, 1024)},
            {"shape": (24, 10)},
            single,
        ),
        case(
            "batch-norm-last",
            "batch norm (training) + ReLU, channels last, 64×56×56×128 fp32",
            batch_norm_rows,
            {"shape": (64, 56, 56, 128)},
            {"shape": (4, 5, 5, 6)},
            single,
        ),
        case(
            "softmax-over-rows",
            "softmax over the first axis, 8192×4096 bf16",
            softmax_over_rows,
            {"rows": 8192, "columns": 4096},
            matrix,
            brain,
        ),
        case(
            "mean-loss",
            "mean cross entropy, 8192×8192 bf16",
            mean_loss,
            {"rows": 8192, "columns": 8192},
            matrix,
            brain,
        ),
        Case(
            "clipped-step",
            "global-norm clipping and momentum, 40 tensors of 768 to 2.4 M",
            "whole",
            clipped_step,
            {"shapes": BERT_TENSORS},
            {"shapes": ((7,), (3, 5), (16,))},
        ),
    ]
