"""Reductions that are not along the row: middle axes, batch axes, columns, and rows that meet."""

from __future__ import annotations

import torch

from bench.case import Array, Case, Workload, wide
from bench.lazy import jnn, jnp

Shape = tuple[int, ...]


def softmax_over(shape: Shape, axis: int, dtype: str) -> Workload:
    """Softmax over any axis."""

    def function(x):
        return torch.softmax(wide(x), axis).to(x.dtype)

    def in_jax(x):
        return jnn.softmax(x.astype(jnp.float32), axis=axis).astype(x.dtype)

    return Workload(function, in_jax, (Array(shape, dtype),))


def softmax_backward_over(shape: Shape, axis: int, dtype: str) -> Workload:
    """The gradient of softmax over any axis, from its result."""

    def function(y, dy):
        product = wide(y) * wide(dy)
        return (product - wide(y) * product.sum(axis, keepdim=True)).to(y.dtype)

    def in_jax(y, dy):
        h = y.astype(jnp.float32)
        product = h * dy.astype(jnp.float32)
        return (product - h * product.sum(axis, keepdims=True)).astype(y.dtype)

    positive = Array(shape, dtype, "uniform", scale=2 / shape[axis])
    return Workload(function, in_jax, (positive, Array(shape, dtype)))


def standardise(shape: Shape, axes: Shape, dtype: str) -> Workload:
    """Mean 0 and variance 1 over the axes: columns of features, volumes of an instance."""

    def function(x):
        h = wide(x)
        centred = h - h.mean(axes, keepdim=True)
        variance = (centred * centred).mean(axes, keepdim=True)
        return (centred * torch.rsqrt(variance + 1e-5)).to(x.dtype)

    def in_jax(x):
        h = x.astype(jnp.float32)
        centred = h - h.mean(axes, keepdims=True)
        variance = (centred * centred).mean(axes, keepdims=True)
        return (centred / jnp.sqrt(variance + 1e-5)).astype(x.dtype)

    return Workload(function, in_jax, (Array(shape, dtype),))


def weight_norm(shape: Shape, axis: int, dtype: str) -> Workload:
    """Weights over their norm along an axis, times a gain."""
    gains = tuple(1 if n == axis % len(shape) else extent for n, extent in enumerate(shape))

    def function(v, gain):
        h = wide(v)
        return (h * (wide(gain) / torch.sqrt((h * h).sum(axis, keepdim=True)))).to(v.dtype)

    def in_jax(v, gain):
        h = v.astype(jnp.float32)
        norm = jnp.sqrt((h * h).sum(axis, keepdims=True))
        return (h * (gain.astype(jnp.float32) / norm)).astype(v.dtype)

    return Workload(function, in_jax, (Array(shape, dtype), Array(gains, dtype)))


def statistics_over(shape: Shape, axes: Shape, dtype: str) -> Workload:
    """Mean, maximum and variance over the axes, as tokens are pooled."""

    def function(x):
        h = wide(x)
        mean = h.mean(axes, keepdim=True)
        variance = ((h - mean) * (h - mean)).mean(axes)
        return mean.to(x.dtype), h.amax(axes).to(x.dtype), variance.to(x.dtype)

    def in_jax(x):
        h = x.astype(jnp.float32)
        mean = h.mean(axes, keepdims=True)
        variance = ((h - mean) * (h - mean)).mean(axes)
        return mean.astype(x.dtype), h.max(axes).astype(x.dtype), variance.astype(x.dtype)

    return Workload(function, in_jax, (Array(shape, dtype),))


def argmax_over(shape: Shape, axis: int, dtype: str) -> Workload:
    """The index of the largest along an axis, as segmentation ends."""

    def function(x):
        return x.argmax(axis)

    def in_jax(x):
        return jnp.argmax(x, axis)

    return Workload(function, in_jax, (Array(shape, dtype),))


def extremes_over(shape: Shape, axis: int, dtype: str) -> Workload:
    """The largest along an axis, and where it stands."""

    def function(x):
        return tuple(x.max(axis))

    def in_jax(x):
        return jnp.max(x, axis), jnp.argmax(x, axis)

    return Workload(function, in_jax, (Array(shape, dtype),))


def means_over(shape: Shape, axes: Shape, dtype: str) -> Workload:
    """Means and nothing else: what is read is all that moves."""

    def function(x):
        return wide(x).mean(axes).to(x.dtype)

    def in_jax(x):
        return jnp.mean(x.astype(jnp.float32), axes).astype(x.dtype)

    return Workload(function, in_jax, (Array(shape, dtype),))


def norms_over(shape: Shape, axis: int, dtype: str) -> Workload:
    """Euclidean norms along an axis."""

    def function(x):
        h = wide(x)
        return torch.sqrt((h * h).sum(axis))

    def in_jax(x):
        h = x.astype(jnp.float32)
        return jnp.sqrt((h * h).sum(axis))

    return Workload(function, in_jax, (Array(shape, dtype),))


def row_loss(rows: int, columns: int, dtype: str) -> Workload:
    """The logarithm of every row's sum of exponentials, and the mean of all rows."""

    def function(x):
        each = torch.logsumexp(wide(x), -1)
        return each, each.mean()

    def in_jax(x):
        each = jnp.log(jnp.exp(x.astype(jnp.float32)).sum(-1))
        return each, each.mean()

    return Workload(function, in_jax, (Array((rows, columns), dtype),))


def softmax_over_column_sums(rows: int, columns: int, dtype: str) -> Workload:
    """Softmax along rows, then divided by its column sums: slot attention."""

    def function(x):
        attention = torch.softmax(wide(x), -1)
        return (attention / (attention.sum(0, keepdim=True) + 1e-8)).to(x.dtype)

    def in_jax(x):
        attention = jnn.softmax(x.astype(jnp.float32), axis=-1)
        return (attention / (attention.sum(0, keepdims=True) + 1e-8)).astype(x.dtype)

    return Workload(function, in_jax, (Array((rows, columns), dtype),))


def router(rows: int, columns: int, dtype: str) -> Workload:
    """Softmax along rows and its column means: a router and what its load is balanced by."""

    def function(x):
        gates = torch.softmax(wide(x), -1)
        return gates.to(x.dtype), gates.mean(0)

    def in_jax(x):
        gates = jnn.softmax(x.astype(jnp.float32), axis=-1)
        return gates.astype(x.dtype), gates.mean(0)

    return Workload(function, in_jax, (Array((rows, columns), dtype),))


def batch_norm_backward(shape: Shape, dtype: str) -> Workload:
    """Gradients of batch norm over (N, H, W): of the input, the gain and the bias."""
    axes = (0, 2, 3)

    def function(x, dy, mean, rstd, gamma):
        normal = (wide(x) - mean) * rstd
        dgamma = (wide(dy) * normal).sum(axes, keepdim=True)
        dbeta = wide(dy).sum(axes, keepdim=True)
        count = x.numel() // x.shape[1]
        dx = gamma * rstd * (wide(dy) - (dbeta + normal * dgamma) / count)
        return dx.to(x.dtype), dgamma, dbeta

    def in_jax(x, dy, mean, rstd, gamma):
        wide_dy = dy.astype(jnp.float32)
        normal = (x.astype(jnp.float32) - mean) * rstd
        dgamma = (wide_dy * normal).sum(axes, keepdims=True)
        dbeta = wide_dy.sum(axes, keepdims=True)
        count = x.size // x.shape[1]
        dx = gamma * rstd * (wide_dy - (dbeta + normal * dgamma) / count)
        return dx.astype(x.dtype), dgamma, dbeta

    channel = (1, shape[1], 1, 1)
    positive = Array(channel, "float32", "uniform", scale=1.0, shift=0.5)
    arrays = (Array(shape, dtype), Array(shape, dtype), Array(channel), positive, positive)
    return Workload(function, in_jax, arrays)


def _case(name, title, define, full, small) -> Case:
    return Case(name, title, "across", define, full, small)


def cases() -> list[Case]:
    """Softmax, norms and statistics over every axis but the last; rows and columns in one."""
    over = {"axis": 1}
    half, single, brain = {"dtype": "float16"}, {"dtype": "float32"}, {"dtype": "bfloat16"}

    def softmax(name, title, shape, small, dtype, define=softmax_over):
        return _case(
            name,
            title,
            define,
            {"shape": shape, **over, **dtype},
            {"shape": small, **over, **dtype},
        )

    def norm(name, title, shape, axes, small, dtype, define=standardise):
        sizes = {"axes": axes, **dtype}
        return _case(name, title, define, {"shape": shape, **sizes}, {"shape": small, **sizes})

    def matrix(name, title, define, rows, columns, dtype):
        small = {"rows": 24, "columns": 10, **dtype}
        return _case(name, title, define, {"rows": rows, "columns": columns, **dtype}, small)

    return [
        softmax(
            "softmax-middle", "softmax over the middle of 16×1500×512 fp16",
            (16, 1500, 512), (2, 31, 12), half,
        ),
        softmax(
            "softmax-heads", "softmax over axis 1 of 8×12×64×64 fp32",
            (8, 12, 64, 64), (2, 5, 3, 6), single,
        ),
        softmax(
            "softmax-classes", "softmax over axis 1 of 2×21×512×512 fp32",
            (2, 21, 512, 512), (2, 5, 3, 6), single,
        ),
        softmax(
            "softmax-middle-backward", "softmax backward over the middle of 16×1500×512 fp16",
            (16, 1500, 512), (2, 31, 12), half, softmax_backward_over,
        ),
        softmax(
            "argmax-classes", "argmax over axis 1 of 2×21×512×512 fp32",
            (2, 21, 512, 512), (2, 5, 3, 6), single, argmax_over,
        ),
        norm(
            "standardise-small", "columns standardised, 777×300 fp32",
            (777, 300), (0,), (31, 7), single,
        ),
        norm(
            "standardise-large", "columns standardised, 65536×512 fp32",
            (65536, 512), (0,), (31, 7), single,
        ),
        norm(
            "instance-norm-volumes", "instance norm of volumes, 1×4×192×192×192 fp32",
            (1, 4, 192, 192, 192), (2, 3, 4), (1, 3, 5, 4, 3), single,
        ),
        norm(
            "layer-norm-channels", "norm over axis 1 of 32×192×56×56 fp16",
            (32, 192, 56, 56), (1,), (2, 7, 3, 4), half,
        ),
        norm(
            "token-statistics", "mean, max, variance over the middle of 64×512×768 fp16",
            (64, 512, 768), (1,), (2, 31, 12), half, statistics_over,
        ),
        norm(
            "volume-statistics", "mean, max, variance over (1, 2) of 32×56×56×256 bf16",
            (32, 56, 56, 256), (1, 2), (2, 5, 3, 12), brain, statistics_over,
        ),
        _case(
            "weight-norm", "weight norm over axis 0, 4096×4096 fp32", weight_norm,
            {"shape": (4096, 4096), "axis": 0, **single}, {"shape": (31, 12), "axis": 0, **single},
        ),
        _case(
            "batch-norm-backward", "batch norm backward, 64×128×56×56 fp32", batch_norm_backward,
            {"shape": (64, 128, 56, 56), **single}, {"shape": (4, 3, 5, 5), **single},
        ),
        softmax(
            "softmax-columns-small", "softmax over axis 1 of 1×512×640 fp32",
            (1, 512, 640), (1, 31, 12), single,
        ),
        softmax(
            "softmax-vocabulary", "softmax over axis 1 of 4×8000×128 fp16",
            (4, 8000, 128), (2, 31, 12), half,
        ),
        softmax(
            "extremes-middle", "maximum and its index over the middle of 64×512×768 fp16",
            (64, 512, 768), (2, 31, 12), half, extremes_over,
        ),
        softmax(
            "column-norms", "norms over axis 1 of 1×65536×256 fp32",
            (1, 65536, 256), (1, 31, 12), single, norms_over,
        ),
        norm(
            "standardise-half", "columns standardised, 32768×1024 fp16",
            (32768, 1024), (0,), (31, 12), half,
        ),
        norm(
            "instance-norm-last", "instance norm, channels last, 16×128×128×64 fp16",
            (16, 128, 128, 64), (1, 2), (2, 5, 3, 12), half,
        ),
        norm(
            "token-means", "mean over the middle of 32×1024×1024 bf16",
            (32, 1024, 1024), (1,), (2, 31, 12), brain, means_over,
        ),
        _case(
            "weight-norm-half", "weight norm over axis 0, 2048×8192 fp16", weight_norm,
            {"shape": (2048, 8192), "axis": 0, **half}, {"shape": (31, 12), "axis": 0, **half},
        ),
        matrix("row-loss", "log of summed exponentials and its mean, 32768×1024 fp16",
               row_loss, 32768, 1024, half),
        matrix("slots-small", "softmax over its column sums, 1024×256 fp32",
               softmax_over_column_sums, 1024, 256, single),
        matrix("slots", "softmax over its column sums, 16384×2048 bf16",
               softmax_over_column_sums, 16384, 2048, brain),
        matrix("router", "softmax of 64 columns and its column means, 32768×64 fp32",
               router, 32768, 64, single),
    ]  # fmt: skip
