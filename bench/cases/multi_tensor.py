"""Norms of many tensors and their update: LAMB, and averages that follow the weights."""

from __future__ import annotations

import torch

from bench.case import Array, Case, Workload
from bench.cases.optimizer import BERT_TENSORS, Shapes
from bench.lazy import jnp


def lamb(shapes: Shapes, rate: float = 1e-3, decay: float = 0.01) -> Workload:
    """One LAMB step: Adam's direction, scaled for every tensor by its norm over the direction's."""
    count, b1, b2 = len(shapes), 0.9, 0.999

    def step(arrays, sqrt):
        groups = [arrays[n * count : (n + 1) * count] for n in range(4)]
        updated = [update(p, g, m, v, sqrt) for p, g, m, v in zip(*groups, strict=True)]
        return tuple(part for each in zip(*updated, strict=True) for part in each)

    def update(p, g, m, v, sqrt):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        direction = m / (sqrt(v) + 1e-6) + decay * p
        trust = sqrt((p * p).sum()) / (sqrt((direction * direction).sum()) + 1e-6)
        return p - rate * trust * direction, m, v

    def function(*arrays):
        return step(arrays, torch.sqrt)

    def in_jax(*arrays):
        return step(arrays, jnp.sqrt)

    normal = tuple(Array(shape, scale=0.02) for shape in shapes)
    positive = tuple(Array(shape, fill="uniform", scale=1e-3) for shape in shapes)
    return Workload(function, in_jax, normal * 3 + positive)


def moving_average(shapes: Shapes, decay: float = 0.999) -> Workload:
    """Averages that follow the weights, and the norm of what is between them, tensor by tensor."""
    count = len(shapes)

    def step(arrays, sqrt):
        pairs = list(zip(arrays[:count], arrays[count:], strict=True))
        kept = [decay * a + (1 - decay) * p for a, p in pairs]
        return (*kept, *[sqrt(((p - a) * (p - a)).sum()) for a, p in pairs])

    def function(*arrays):
        return step(arrays, torch.sqrt)

    def in_jax(*arrays):
        return step(arrays, jnp.sqrt)

    return Workload(function, in_jax, tuple(Array(shape, scale=0.02) for shape in shapes) * 2)


def lars(shapes: Shapes, rate: float = 1e-2, decay: float = 1e-4) -> Workload:
    """One LARS step: momentum over gradients scaled, for every tensor, by the ratio of norms."""
    count = len(shapes)

    def step(arrays, sqrt):
        groups = [arrays[n * count : (n + 1) * count] for n in range(3)]
        updated = [update(p, g, b, sqrt) for p, g, b in zip(*groups, strict=True)]
        return tuple(part for each in zip(*updated, strict=True) for part in each)

    def update(p, g, b, sqrt):
        norm, other = sqrt((p * p).sum()), sqrt((g * g).sum())
        trust = norm / (other + decay * norm + 1e-9)
        b = 0.9 * b + trust * (g + decay * p)
        return p - rate * b, b

    def function(*arrays):
        return step(arrays, torch.sqrt)

    def in_jax(*arrays):
        return step(arrays, jnp.sqrt)

    return Workload(function, in_jax, tuple(Array(shape, scale=0.02) for shape in shapes) * 3)


def norms(shapes: Shapes) -> Workload:
    """The norm of every tensor, and of all together."""

    def step(arrays, sqrt):
        squares = [(g * g).sum() for g in arrays]
        return (*map(sqrt, squares), sqrt(sum(squares)))

    def function(*arrays):
        return step(arrays, torch.sqrt)

    def in_jax(*arrays):
        return step(arrays, jnp.sqrt)

    return Workload(function, in_jax, tuple(Array(shape, scale=0.02) for shape in shapes))


def cases() -> list[Case]:
    """LAMB over 24 tensors and the moving average of 40, both of BERT's sizes."""
    small = {"shapes": ((7,), (3, 5), (16,))}
    return [
        Case("lamb", "LAMB step, 24 tensors of 768 to 2.4 M", "multi-tensor", lamb,
             {"shapes": BERT_TENSORS[:24]}, small),
        Case("lars", "LARS step, 24 tensors of 768 to 2.4 M", "multi-tensor", lars,
             {"shapes": BERT_TENSORS[:24]}, small),
        Case("tensor-norms", "norms of 40 tensors and of all, 768 to 2.4 M", "multi-tensor", norms,
             {"shapes": BERT_TENSORS}, small),
        Case("moving-average", "moving average and distances, 40 tensors of 768 to 2.4 M",
             "multi-tensor", moving_average, {"shapes": BERT_TENSORS}, small),
    ]  # fmt: skip
