"""Pooling and sums along a row: windows, whole planes, and running totals."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from bench.case import Array, Case, Workload, wide
from bench.lazy import jnn, jnp, lax

Shape = tuple[int, ...]


def average_pool(shape: Shape, window: int, dtype: str) -> Workload:
    """SiLU, then the mean of each window, which do not overlap."""

    def function(x):
        return F.avg_pool2d(F.silu(wide(x)), window).to(x.dtype)

    def in_jax(x):
        h = jnn.silu(x.astype(jnp.float32))
        sides = (1, 1, window, window)
        total = lax.reduce_window(h, 0.0, lax.add, sides, sides, "VALID")
        return (total / (window * window)).astype(x.dtype)

    return Workload(function, in_jax, (Array(shape, dtype),))


def global_pool(shape: Shape, dtype: str) -> Workload:
    """ReLU, then the mean of every plane."""

    def function(x):
        return F.relu(wide(x)).mean((2, 3)).to(x.dtype)

    def in_jax(x):
        return jnn.relu(x.astype(jnp.float32)).mean((2, 3)).astype(x.dtype)

    return Workload(function, in_jax, (Array(shape, dtype),))


def max_pool(shape: Shape, dtype: str) -> Workload:
    """The largest of each 3x3 window, two apart, as ResNet begins."""

    def function(x):
        return F.max_pool2d(x, 3, 2, 1)

    def in_jax(x):
        pads = ((0, 0), (0, 0), (1, 1), (1, 1))
        return lax.reduce_window(x, -jnp.inf, lax.max, (1, 1, 3, 3), (1, 1, 2, 2), pads)

    return Workload(function, in_jax, (Array(shape, dtype),))


def running_sum(rows: int, columns: int, dtype: str) -> Workload:
    """exp, then the running sum along every row."""

    def function(x):
        return torch.cumsum(torch.exp(wide(x)), -1).to(x.dtype)

    def in_jax(x):
        return jnp.cumsum(jnp.exp(x.astype(jnp.float32)), -1).astype(x.dtype)

    return Workload(function, in_jax, (Array((rows, columns), dtype),))


def cases() -> list[Case]:
    """Windows of four, planes of 7x7 and 56x56, ResNet's first pooling, a running sum."""
    half, single = {"dtype": "float16"}, {"dtype": "float32"}

    def case(name, title, define, full, small, dtype):
        return Case(name, title, "pooling", define, {**full, **dtype}, {**small, **dtype})

    plane = {"shape": (2, 3, 8, 6)}
    return [
        case("average-pool", "SiLU + mean of 2×2, 32×128×112×112 fp16", average_pool,
             {"shape": (32, 128, 112, 112), "window": 2}, {**plane, "window": 2}, half),
        case("global-pool", "ReLU + mean of planes, 64×2048×7×7 fp16", global_pool,
             {"shape": (64, 2048, 7, 7)}, plane, half),
        case("global-pool-large", "ReLU + mean of planes, 64×256×56×56 fp16", global_pool,
             {"shape": (64, 256, 56, 56)}, plane, half),
        case("max-pool", "max of 3×3, stride 2, 32×64×112×112 fp32", max_pool,
             {"shape": (32, 64, 112, 112)}, plane, single),
        case("running-sum", "exp + running sum, 4096×4096 fp32", running_sum,
             {"rows": 4096, "columns": 4096}, {"rows": 3, "columns": 31}, single),
    ]  # fmt: skip
