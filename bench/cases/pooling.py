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


def average_pool_last(shape: Shape, window: int, dtype: str) -> Workload:
    """The same with channels last."""

    def function(x):
        h = F.silu(wide(x)).permute(0, 3, 1, 2)
        return F.avg_pool2d(h, window).permute(0, 2, 3, 1).to(x.dtype)

    def in_jax(x):
        h = jnn.silu(x.astype(jnp.float32))
        sides = (1, window, window, 1)
        total = lax.reduce_window(h, 0.0, lax.add, sides, sides, "VALID")
        return (total / (window * window)).astype(x.dtype)

    return Workload(function, in_jax, (Array(shape, dtype),))


def max_pool_last(shape: Shape, dtype: str) -> Workload:
    """The largest of each 2x2 window, with channels last."""

    def function(x):
        return F.max_pool2d(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1).contiguous()

    def in_jax(x):
        sides = (1, 2, 2, 1)
        return lax.reduce_window(x, -jnp.inf, lax.max, sides, sides, "VALID")

    return Workload(function, in_jax, (Array(shape, dtype),))


def average_pool_backward(shape: Shape, window: int, dtype: str) -> Workload:
    """The gradient of ReLU and the mean of each window."""
    batch, channels, height, width = shape
    pooled = (batch, channels, height // window, 1, width // window, 1)
    apart = (batch, channels, height // window, window, width // window, window)
    share = 1 / (window * window)

    def function(x, dy):
        spread = (wide(dy).reshape(pooled) * share).expand(apart).reshape(shape)
        return torch.where(x > 0, spread, torch.zeros_like(spread)).to(x.dtype)

    def in_jax(x, dy):
        spread = jnp.broadcast_to(dy.astype(jnp.float32).reshape(pooled) * share, apart)
        return jnp.where(x > 0, spread.reshape(shape), 0.0).astype(x.dtype)

    gradient = Array((batch, channels, height // window, width // window), dtype)
    return Workload(function, in_jax, (Array(shape, dtype), gradient))


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


def running_product(rows: int, columns: int, dtype: str) -> Workload:
    """What is left along every row, of shares that are near to all."""

    def function(x):
        return torch.cumprod(1.0 - wide(x), -1).to(x.dtype)

    def in_jax(x):
        return jnp.cumprod(1.0 - x.astype(jnp.float32), -1).astype(x.dtype)

    shares = Array((rows, columns), dtype, "uniform", scale=1 / columns)
    return Workload(function, in_jax, (shares,))


def nucleus(rows: int, columns: int, share: float, dtype: str) -> Workload:
    """Softmax, its running sum, and what of it is within a share: as top-p sampling masks."""

    def function(x):
        weights = torch.softmax(wide(x), -1)
        inside = torch.cumsum(weights, -1) - weights < share
        return torch.where(inside, weights, torch.zeros_like(weights)).to(x.dtype)

    def in_jax(x):
        weights = jnn.softmax(x.astype(jnp.float32), axis=-1)
        inside = jnp.cumsum(weights, -1) - weights < share
        return jnp.where(inside, weights, 0.0).astype(x.dtype)

    return Workload(function, in_jax, (Array((rows, columns), dtype),))


def embedding_gradient(
    tokens: int, columns: int, words: int, dtype: str, fill: str = "index"
) -> Workload:
    """Sums of the gradients of all places where a word stands."""

    def function(index, dy):
        zeros = torch.zeros(words, columns, dtype=dy.dtype, device=dy.device)
        return zeros.index_add(0, index, dy)

    def in_jax(index, dy):
        return jnp.zeros((words, columns), dy.dtype).at[index].add(dy)

    indices = Array((tokens,), "int64", fill, high=words)
    return Workload(function, in_jax, (indices, Array((tokens, columns), dtype)))


def embedding_step(tokens: int, columns: int, words: int, dtype: str) -> Workload:
    """The same, and a step of SGD with momentum and weight decay."""

    def step(sums, weights, momenta):
        moved = 0.9 * momenta + sums + 1e-4 * weights
        return weights - 0.01 * moved, moved

    def function(index, dy, weights, momenta):
        zeros = torch.zeros(words, columns, dtype=dy.dtype, device=dy.device)
        return step(zeros.index_add(0, index, dy), weights, momenta)

    def in_jax(index, dy, weights, momenta):
        zeros = jnp.zeros((words, columns), dy.dtype)
        return step(zeros.at[index].add(dy), weights, momenta)

    indices = Array((tokens,), "int64", "index", high=words)
    table = Array((words, columns), dtype)
    return Workload(function, in_jax, (indices, Array((tokens, columns), dtype), table, table))


def running_sum_backward(rows: int, columns: int, dtype: str) -> Workload:
    """The gradient of exp and a running sum: one from the end of the row."""

    def function(x, dy):
        turned = torch.cumsum(torch.flip(wide(dy), [-1]), -1)
        return (torch.flip(turned, [-1]) * torch.exp(wide(x))).to(x.dtype)

    def in_jax(x, dy):
        turned = jnp.cumsum(jnp.flip(dy.astype(jnp.float32), -1), -1)
        return (jnp.flip(turned, -1) * jnp.exp(x.astype(jnp.float32))).astype(x.dtype)

    return Workload(
        function, in_jax, (Array((rows, columns), dtype), Array((rows, columns), dtype))
    )


def cases() -> list[Case]:
    """Windows of four, planes of 7x7 and 56x56, ResNet's first pooling, a running sum."""
    half, single, bf16 = {"dtype": "float16"}, {"dtype": "float32"}, {"dtype": "bfloat16"}

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
        case("average-pool-last", "SiLU + mean of 2×2, channels last, 32×112×112×128 fp16",
             average_pool_last, {"shape": (32, 112, 112, 128), "window": 2},
             {"shape": (2, 8, 6, 3), "window": 2}, half),
        case("max-pool-last", "max of 2×2, channels last, 32×112×112×64 fp32", max_pool_last,
             {"shape": (32, 112, 112, 64)}, {"shape": (2, 8, 6, 3)}, single),
        case("average-pool-large", "SiLU + mean of 8×8, 64×512×56×56 fp16", average_pool,
             {"shape": (64, 512, 56, 56), "window": 8}, {**plane, "window": 2}, half),
        case("average-pool-backward", "ReLU + mean of 2×2, backward, 32×128×112×112 fp16",
             average_pool_backward, {"shape": (32, 128, 112, 112), "window": 2},
             {**plane, "window": 2}, half),
        case("running-sum-half", "exp + running sum, 32768×1024 fp16", running_sum,
             {"rows": 32768, "columns": 1024}, {"rows": 3, "columns": 31}, half),
        case("running-product", "running product of 1 - x, 65536×256 fp32", running_product,
             {"rows": 65536, "columns": 256}, {"rows": 3, "columns": 31}, single),
        case("nucleus", "softmax, running sum and mask, 16384×2048 fp32", nucleus,
             {"rows": 16384, "columns": 2048, "share": 0.5},
             {"rows": 3, "columns": 31, "share": 0.5}, single),
        case("embedding-gradient", "gradients of 16384 tokens for 30522 words of 768 fp32",
             embedding_gradient, {"tokens": 16384, "columns": 768, "words": 30522},
             {"tokens": 31, "columns": 7, "words": 12}, single),
        case("embedding-gradient-skewed",
             "gradients of 32768 tokens, few words often, for 50257 words of 1024 bf16",
             embedding_gradient,
             {"tokens": 32768, "columns": 1024, "words": 50257, "fill": "skewed"},
             {"tokens": 90, "columns": 7, "words": 12, "fill": "skewed"}, bf16),
        case("embedding-gradient-few", "gradients of 512 tokens for 30522 words of 768 fp16",
             embedding_gradient, {"tokens": 512, "columns": 768, "words": 30522},
             {"tokens": 31, "columns": 7, "words": 12}, half),
        case("embedding-step", "gradients and SGD step, 16384 tokens of 30522 words of 768 fp32",
             embedding_step,
             {"tokens": 16384, "columns": 768, "words": 30522},
             {"tokens": 31, "columns": 7, "words": 12}, single),
        case("running-sum-backward", "exp + running sum, backward, 32768×1024 fp16",
             running_sum_backward, {"rows": 32768, "columns": 1024}, {"rows": 3, "columns": 31},
             half),
        case("running-sum", "exp + running sum, 4096×4096 fp32", running_sum,
             {"rows": 4096, "columns": 4096}, {"rows": 3, "columns": 31}, single),
    ]  # fmt: skip
