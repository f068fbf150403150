"""Optimizer steps over many tensors at once: independent work that wants few launches."""

from __future__ import annotations

import math

import torch

from bench.case import Array, Case, Workload
from bench.lazy import jnp

Shapes = tuple[tuple[int, ...], ...]

# Two layers of BERT-base and eight more vectors: 40 tensors of 768 to 2.4 M elements.
_LAYER: Shapes = (
    *[(768, 768), (768,)] * 4,
    *[(3072, 768), (3072,), (768, 3072), (768,)],
    *[(768,)] * 4,
)
BERT_TENSORS: Shapes = _LAYER * 2 + ((768,),) * 8


def adam(shapes: Shapes, rate: float = 1e-3, step: int = 10) -> Workload:
    """One Adam step: parameters, gradients and both moments in, parameters and moments out."""
    b1, b2, epsilon = 0.9, 0.999, 1e-8
    first, second = 1 - b1**step, 1 - b2**step
    count = len(shapes)

    def update(p, g, m, v, sqrt):
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        return p - rate * (m / first) / (sqrt(v / second) + epsilon), m, v

    def over_all(arrays, sqrt):
        groups = [arrays[i * count : (i + 1) * count] for i in range(4)]
        updated = [update(p, g, m, v, sqrt) for p, g, m, v in zip(*groups, strict=True)]
        return tuple(part for each in zip(*updated, strict=True) for part in each)

    def function(*arrays):
        return over_all(arrays, torch.sqrt)

    def in_jax(*arrays):
        return over_all(arrays, jnp.sqrt)

    normal = tuple(Array(shape, scale=0.02) for shape in shapes)
    positive = tuple(Array(shape, fill="uniform", scale=1e-3) for shape in shapes)
    return Workload(function, in_jax, normal * 3 + positive)


def momentum(shapes: Shapes, rate: float = 1e-2, decay: float = 0.9) -> Workload:
    """One step of SGD with momentum and weight decay."""
    count = len(shapes)

    def step(*arrays):
        kept, moved = [], []
        for p, g, b in zip(*(arrays[i * count : (i + 1) * count] for i in range(3)), strict=True):
            moved.append(decay * b + g + 1e-4 * p)
            kept.append(p - rate * moved[-1])
        return (*kept, *moved)

    return Workload(step, step, tuple(Array(shape, scale=0.02) for shape in shapes) * 3)


def clip(shapes: Shapes, limit: float = 1.0) -> Workload:
    """Gradients scaled so that their global norm is at most limit; the norm is returned too."""

    def function(*gradients):
        norm = torch.sqrt(sum((g * g).sum() for g in gradients))
        scale = torch.clamp(limit / (norm + 1e-6), max=1.0)
        return (norm, *[g * scale for g in gradients])

    def in_jax(*gradients):
        norm = jnp.sqrt(sum((g * g).sum() for g in gradients))
        scale = jnp.minimum(limit / (norm + 1e-6), 1.0)
        return (norm, *[g * scale for g in gradients])

    return Workload(function, in_jax, tuple(Array(shape, scale=0.02) for shape in shapes))


def cases() -> list[Case]:
    """Momentum and clipping over the forty tensors; Adam is among the peers' fifteen."""
    elements = sum(math.prod(shape) for shape in BERT_TENSORS) / 1e6
    small = {"shapes": ((7,), (3, 5), (16,))}
    full = {"shapes": BERT_TENSORS}
    about = f"40 tensors, {elements:.1f} M elements"
    return [
        Case("sgd-momentum", f"SGD with momentum, {about}", "optimizer", momentum, full, small),
        Case("global-norm-clip", f"global-norm clipping, {about}", "optimizer", clip, full, small),
    ]
