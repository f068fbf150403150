"""Graphs on which the best plan is not what a simple rule would find.

Either a cheap value is wanted by kernels that cannot be one, for they reduce different rows: it is
computed twice rather than stored. Or operators behind a matrix product are better left to its own
kernel than put into the next one.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F

from bench.case import Array, Case, Workload
from bench.cases.norms import gain
from bench.lazy import jax, jnn, jnp

GROUP = 64  # columns of a group that has a scale of its own


def two_softmaxes(rows: int, columns: int) -> Workload:
    """Masked scores, normalised over whole rows and over groups of columns."""

    def function(x, mask):
        scores = x * 0.125 + mask
        groups = scores.reshape(rows, columns // GROUP, GROUP)
        return F.softmax(scores, -1), F.softmax(groups, -1)

    def in_jax(x, mask):
        scores = x * 0.125 + mask
        groups = scores.reshape(rows, columns // GROUP, GROUP)
        return jnn.softmax(scores, axis=-1), jnn.softmax(groups, axis=-1)

    x = Array((rows, columns))
    return Workload(function, in_jax, (x, Array((columns,), fill="mask", scale=0.1)))


def norm_and_quantise(rows: int, columns: int) -> Workload:
    """A smoothed value, divided by its row's root mean square and by every group's maximum."""

    def function(x, smooth):
        y = x * smooth
        groups = y.reshape(rows, columns // GROUP, GROUP)
        normal = y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-5)
        return normal, groups / (groups.abs().amax(-1, keepdim=True) + 1e-5)

    def in_jax(x, smooth):
        y = x * smooth
        groups = y.reshape(rows, columns // GROUP, GROUP)
        normal = y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5)
        return normal, groups / (jnp.abs(groups).max(-1, keepdims=True) + 1e-5)

    return Workload(function, in_jax, (Array((rows, columns)), gain(columns, "float32")))


def row_and_group_statistics(rows: int, columns: int) -> Workload:
    """Of a rectified value: the mean square of every row, the maximum of every group."""

    def function(x, bias):
        y = torch.relu(x + bias)
        return (y * y).mean(-1), y.reshape(rows, columns // GROUP, GROUP).amax(-1)

    def in_jax(x, bias):
        y = jnn.relu(x + bias)
        return (y * y).mean(-1), y.reshape(rows, columns // GROUP, GROUP).max(-1)

    return Workload(function, in_jax, (Array((rows, columns)), Array((columns,))))


def silu_two_norms(rows: int, columns: int) -> Workload:
    """SiLU, divided by its row's root mean square, and centred in every group."""

    def function(x):
        y = F.silu(x)
        groups = y.reshape(rows, columns // GROUP, GROUP)
        normal = y * torch.rsqrt((y * y).mean(-1, keepdim=True) + 1e-5)
        return normal, groups - groups.mean(-1, keepdim=True)

    def in_jax(x):
        y = jnn.silu(x)
        groups = y.reshape(rows, columns // GROUP, GROUP)
        normal = y * jax.lax.rsqrt((y * y).mean(-1, keepdims=True) + 1e-5)
        return normal, groups - groups.mean(-1, keepdims=True)

    return Workload(function, in_jax, (Array((rows, columns)),))


def sample_and_channel_moments(batch: int, channels: int, size: int) -> Workload:
    """A rectified image, centred over each channel and over each sample."""

    def function(x, bias):
        y = torch.relu(x + bias[:, None, None])
        return y - y.mean((0, 2, 3), keepdim=True), y - y.mean((1, 2, 3), keepdim=True)

    def in_jax(x, bias):
        y = jnn.relu(x + bias[:, None, None])
        return (
            y - y.mean((0, 2, 3), keepdims=True),
            y - y.mean((1, 2, 3), keepdims=True),
        )

    return Workload(function, in_jax, (Array((batch, channels, size, size)), Array((channels,))))


def projection_gelu(rows: int, inner: int, columns: int, dtype: str) -> Workload:
    """A product of small depth, its bias and GELU."""

    def function(x, w, b):
        return F.gelu(x @ w + b)

    def in_jax(x, w, b):
        return jnn.gelu(x @ w + b, approximate=False)

    arrays = (Array((rows, inner), dtype), Array((inner, columns), dtype, scale=inner**-0.5))
    return Workload(function, in_jax, (*arrays, Array((columns,), dtype)))


def attention_scores(heads: int, length: int, inner: int, dtype: str) -> Workload:
    """Scores of attention and their softmax: the product is summed in float32 and rounded."""

    def function(q, k):
        return F.softmax(q @ k * 0.125, -1)

    def in_jax(q, k):
        return jnn.softmax(q @ k * 0.125, axis=-1)

    arrays = (Array((heads, length, inner), dtype), Array((heads, inner, length), dtype))
    return Workload(function, in_jax, arrays)


def _case(name, title, define, sizes, small) -> Case:
    return Case(name, title, "plans", define, sizes, small)


def cases() -> list[Case]:
    """The graphs at sizes that take some ten microseconds and more."""
    matrix, tiny = {"rows": 8192, "columns": 2048}, {"rows": 5, "columns": 2 * GROUP}
    product = {"rows": 8192, "inner": 64, "columns": 4096, "dtype": "bfloat16"}
    scores = {"heads": 96, "length": 512, "inner": 64, "dtype": "bfloat16"}
    return [
        _case("two-softmaxes", "softmax by rows and by groups", two_softmaxes, matrix, tiny),
        _case("norm-and-quantise", "RMS norm, and groups scaled", norm_and_quantise, matrix, tiny),
        _case(
            "row-and-group-statistics", "statistics of rows and of groups",
            row_and_group_statistics, matrix, tiny,
        ),
        _case("silu-two-norms", "SiLU, RMS norm and groups centred", silu_two_norms, matrix, tiny),
        _case(
            "sample-and-channel", "centred by sample and by channel", sample_and_channel_moments,
            {"batch": 64, "channels": 128, "size": 56}, {"batch": 3, "channels": 4, "size": 5},
        ),
        _case(
            "projection-gelu", "product of depth 64, bias, GELU", projection_gelu,
            product, {**product, "rows": 9, "inner": 8, "columns": 24},
        ),
        _case(
            "attention-scores", "product of depth 64, softmax", attention_scores,
            scores, {**scores, "heads": 2, "length": 24, "inner": 8},
        ),
    ]  # fmt: skip
