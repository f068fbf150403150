"""Kernels by row, and the grid of widths the published row kernels are measured on."""

from __future__ import annotations

import torch.nn.functional as F

from bench.case import Array, Case, Workload, wide
from bench.cases.norms import gain, layer_normalise_jax, rms_normalise_jax
from bench.lazy import jnn, jnp

# Rows × columns: 32768 rows, fewer where a matrix would outgrow 2 GiB.
GRID = [
    (32768, 256),
    (32768, 1024),
    (32768, 4096),
    (32768, 16384),
    (32768, 32768),
    (16384, 65536),
    (8192, 131072),
    (4096, 262144),
]


def softmax(rows: int, columns: int, dtype: str = "bfloat16") -> Workload:
    """Softmax by row."""

    def function(x):
        return F.softmax(x, dim=-1)

    def in_jax(x):
        return jnn.softmax(x.astype(jnp.float32), axis=-1).astype(x.dtype)

    return Workload(
        function, in_jax, (Array((rows, columns), dtype),), rowwise=(0,), kernel="softmax"
    )


def log_softmax(rows: int, columns: int, dtype: str = "float32") -> Workload:
    """Log-softmax by row."""

    def function(x):
        return F.log_softmax(x, dim=-1)

    def in_jax(x):
        return jnn.log_softmax(x.astype(jnp.float32), axis=-1).astype(x.dtype)

    return Workload(function, in_jax, (Array((rows, columns), dtype),), rowwise=(0,))


def layer_norm(rows: int, columns: int, dtype: str = "bfloat16") -> Workload:
    """Layer norm by row, through PyTorch's own operator."""

    def function(x, gamma, beta):
        return F.layer_norm(x, (columns,), gamma, beta)

    arrays = (Array((rows, columns), dtype), gain(columns, dtype), Array((columns,), dtype))
    return Workload(function, layer_normalise_jax, arrays, rowwise=(0,), kernel="layer_norm")


def rms_norm(rows: int, columns: int, dtype: str = "bfloat16") -> Workload:
    """RMS norm by row, through PyTorch's own operator."""

    def function(x, weight):
        return F.rms_norm(x, (columns,), weight, 1e-6)

    arrays = (Array((rows, columns), dtype), gain(columns, dtype))
    return Workload(function, rms_normalise_jax, arrays, rowwise=(0,), kernel="rms_norm")


def cross_entropy(rows: int, columns: int, dtype: str = "bfloat16") -> Workload:
    """Cross entropy of every row against its label, in float32."""

    def function(x, label):
        log_p = F.log_softmax(wide(x), dim=-1)
        return -log_p.gather(-1, label[:, None])[:, 0]

    def in_jax(x, label):
        log_p = jnn.log_softmax(x.astype(jnp.float32), axis=-1)
        return -jnp.take_along_axis(log_p, label[:, None], axis=-1)[:, 0]

    arrays = (Array((rows, columns), dtype), Array((rows,), "int64", "index", high=columns))
    return Workload(function, in_jax, arrays, rowwise=(0, 1), kernel="cross_entropy")


KERNELS = {
    "softmax": softmax,
    "rms_norm": rms_norm,
    "layer_norm": layer_norm,
    "cross_entropy": cross_entropy,
}


def cases() -> list[Case]:
    """Every kernel at every width, narrow first, so that an interruption keeps whole rows."""
    found = []
    for rows, columns in GRID:
        for kernel, define in KERNELS.items():
            title = f"{kernel.replace('_', ' ')}, {rows}×{columns} bf16"
            name = f"{kernel.replace('_', '-')}-{rows}x{columns}"
            found.append(
                Case(
                    name,
                    title,
                    "grid",
                    define,
                    {"rows": rows, "columns": columns},
                    {"rows": 6, "columns": min(columns // 8, 200)},
                    grid=(kernel, rows, columns),
                )
            )
    return found
