"""The fifteen cases every system is compared on: sub-graphs of common models at common sizes."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from bench.case import Array, Case, Workload, wide
from bench.cases.backward import layer_norm_backward
from bench.cases.cells import lstm_cell
from bench.cases.norms import gain, layer_normalise_jax, rms_normalise, rms_normalise_jax
from bench.cases.optimizer import BERT_TENSORS, adam
from bench.cases.rows import layer_norm, log_softmax, softmax
from bench.lazy import jnn, jnp


def softmax_mask(batch: int, heads: int, length: int, dtype: str = "float32") -> Workload:
    """Attention's softmax(x / 8 + mask), the mask one row a sequence."""

    def function(x, mask):
        return F.softmax(x / 8 + mask, dim=-1)

    def in_jax(x, mask):
        return jnn.softmax(x / 8 + mask, axis=-1)

    x = Array((batch, heads, length, length), dtype)
    return Workload(function, in_jax, (x, Array((batch, 1, 1, length), dtype, "mask", 0.1)))


def add_layer_norm(rows: int, columns: int, dtype: str = "float32") -> Workload:
    """x + bias + residual, layer norm."""

    def function(x, bias, residual, gamma, beta):
        return F.layer_norm(x + bias + residual, (columns,), gamma, beta)

    def in_jax(x, bias, residual, gamma, beta):
        return layer_normalise_jax(x + bias + residual, gamma, beta)

    return Workload(function, in_jax, _norm_arrays(rows, columns, dtype))


def _norm_arrays(rows: int, columns: int, dtype: str) -> tuple[Array, ...]:
    x = Array((rows, columns), dtype)
    vector = Array((columns,), dtype)
    return (x, vector, x, gain(columns, dtype), vector)


def bias_gelu(rows: int, columns: int, dtype: str) -> Workload:
    """gelu(x + bias), the exact one."""

    def function(x, bias):
        return F.gelu(x + bias)

    def in_jax(x, bias):
        return jnn.gelu(x + bias, approximate=False)

    return Workload(function, in_jax, (Array((rows, columns), dtype), Array((columns,), dtype)))


def residual_rms_norm(rows: int, columns: int, dtype: str) -> Workload:
    """residual + x and its RMS norm, both stored, as between two layers of a Llama."""

    def function(x, residual, weight):
        total = x + residual
        return total, rms_normalise(total, weight)

    def in_jax(x, residual, weight):
        total = x + residual
        return total, rms_normalise_jax(total, weight)

    x = Array((rows, columns), dtype)
    return Workload(function, in_jax, (x, x, gain(columns, dtype)))


def log_softmax_gather(rows: int, columns: int, dtype: str) -> Workload:
    """Cross entropy by row, and the probabilities: what a training step keeps of the logits."""

    def function(x, label):
        log_p = F.log_softmax(wide(x), dim=-1)
        return -log_p.gather(-1, label[:, None])[:, 0], log_p.exp().to(x.dtype)

    def in_jax(x, label):
        log_p = jnn.log_softmax(x.astype(jnp.float32), axis=-1)
        picked = jnp.take_along_axis(log_p, label[:, None], axis=-1)[:, 0]
        return -picked, jnp.exp(log_p).astype(x.dtype)

    arrays = (Array((rows, columns), dtype), Array((rows,), "int64", "index", high=columns))
    return Workload(function, in_jax, arrays, rowwise=(0, 1))


def batch_norm_relu(batch: int, channels: int, height: int) -> Workload:
    """Batch norm with the statistics of this batch, then ReLU."""

    def function(x, gamma, beta):
        centred = x - x.mean((0, 2, 3), keepdim=True)
        variance = (centred * centred).mean((0, 2, 3), keepdim=True)
        normal = centred * torch.rsqrt(variance + 1e-5)
        return F.relu(normal * gamma[:, None, None] + beta[:, None, None])

    def in_jax(x, gamma, beta):
        centred = x - x.mean((0, 2, 3), keepdims=True)
        variance = (centred * centred).mean((0, 2, 3), keepdims=True)
        normal = centred / jnp.sqrt(variance + 1e-5)
        return jnn.relu(normal * gamma[:, None, None] + beta[:, None, None])

    vector = gain(channels, "float32")
    return Workload(function, in_jax, (Array((batch, channels, height, height)), vector, vector))


def group_norm_silu(batch: int, channels: int, height: int, groups: int, dtype: str) -> Workload:
    """Group norm and SiLU, as everywhere in a diffusion U-Net."""

    def function(x, gamma, beta):
        return F.silu(F.group_norm(x, groups, gamma, beta))

    def in_jax(x, gamma, beta):
        h = x.astype(jnp.float32).reshape(batch, groups, -1)
        h = (h - h.mean(-1, keepdims=True)) / jnp.sqrt(h.var(-1, keepdims=True) + 1e-5)
        h = h.reshape(x.shape) * gamma[:, None, None] + beta[:, None, None]
        return jnn.silu(h).astype(x.dtype)

    vector = gain(channels, dtype)
    x = Array((batch, channels, height, height), dtype)
    return Workload(function, in_jax, (x, vector, vector))


def silu_multiply(rows: int, columns: int, dtype: str) -> Workload:
    """silu(a) · b: the gate of SwiGLU."""

    def function(a, b):
        return F.silu(a) * b

    def in_jax(a, b):
        return jnn.silu(a) * b

    x = Array((rows, columns), dtype)
    return Workload(function, in_jax, (x, x))


def bert_glue(batch: int, heads: int, length: int, columns: int, dtype: str) -> Workload:
    """What lies between the matrix products of a BERT layer, three unrelated sub-graphs."""

    def function(scores, mask, x, bias, residual, gamma, beta, wide_x, wide_bias):
        total = x + bias + residual
        return (
            F.softmax(scores / 8 + mask, dim=-1),
            total,
            F.layer_norm(total, (columns,), gamma, beta),
            F.gelu(wide_x + wide_bias),
        )

    def in_jax(scores, mask, x, bias, residual, gamma, beta, wide_x, wide_bias):
        total = x + bias + residual
        return (
            jnn.softmax(scores / 8 + mask, axis=-1),
            total,
            layer_normalise_jax(total, gamma, beta),
            jnn.gelu(wide_x + wide_bias, approximate=False),
        )

    arrays = (
        *softmax_mask(batch, heads, length, dtype).arrays,
        *_norm_arrays(batch * length, columns, dtype),
        *bias_gelu(batch * length, 4 * columns, dtype).arrays,
    )
    return Workload(function, in_jax, arrays)


def _case(name, title, define, sizes, small, **more) -> Case:
    return Case(name, title, "peers", define, sizes, small, **more)


def cases() -> list[Case]:
    """The fifteen, in the order of the published table."""
    matrix = {"rows": 8, "columns": 48}
    bert = {"batch": 32, "heads": 12, "length": 128}
    small_bert = {"batch": 2, "heads": 3, "length": 16}
    half, brain = {"dtype": "float16"}, {"dtype": "bfloat16"}
    return [
        _case(
            "softmax-mask",
            "softmax(x/8 + mask), 32×12×128×128 fp32",
            softmax_mask,
            bert,
            small_bert,
        ),
        _case(
            "add-layer-norm",
            "x + bias + residual, layer norm, 4096×768 fp32",
            add_layer_norm,
            {"rows": 4096, "columns": 768},
            matrix,
        ),
        _case(
            "bias-gelu",
            "gelu(x + bias), 4096×3072 fp16",
            bias_gelu,
            {"rows": 4096, "columns": 3072, **half},
            {**matrix, **half},
        ),
        _case(
            "layer-norm",
            "layer norm, 16384×4096 bf16",
            layer_norm,
            {"rows": 16384, "columns": 4096, **brain},
            {**matrix, **brain},
        ),
        _case(
            "residual-rms-norm",
            "residual + RMS norm, both outputs, 8192×8192 bf16",
            residual_rms_norm,
            {"rows": 8192, "columns": 8192, **brain},
            {**matrix, **brain},
        ),
        _case(
            "layer-norm-backward",
            "layer norm backward, 8192×1024 fp32",
            layer_norm_backward,
            {"rows": 8192, "columns": 1024},
            matrix,
        ),
        _case(
            "softmax-tall",
            "softmax, 750000×32 fp32",
            softmax,
            {"rows": 750000, "columns": 32, "dtype": "float32"},
            {**matrix, "dtype": "float32"},
        ),
        _case(
            "log-softmax-wide",
            "log-softmax, 64×30000 fp32",
            log_softmax,
            {"rows": 64, "columns": 30000},
            matrix,
        ),
        _case(
            "log-softmax-gather",
            "log-softmax + gather + probabilities, 4096×50304 bf16",
            log_softmax_gather,
            {"rows": 4096, "columns": 50304, **brain},
            {**matrix, **brain},
        ),
        _case(
            "batch-norm-relu",
            "batch norm (training) + ReLU, 64×128×56×56 fp32",
            batch_norm_relu,
            {"batch": 64, "channels": 128, "height": 56},
            {"batch": 4, "channels": 6, "height": 5},
        ),
        _case(
            "group-norm-silu",
            "group norm (32) + SiLU, 8×320×64×64 fp16",
            group_norm_silu,
            {"batch": 8, "channels": 320, "height": 64, "groups": 32, **half},
            {"batch": 2, "channels": 8, "height": 6, "groups": 4, **half},
        ),
        _case(
            "silu-multiply",
            "silu(a)·b, 8192×11008 bf16",
            silu_multiply,
            {"rows": 8192, "columns": 11008, **brain},
            {**matrix, **brain},
        ),
        _case(
            "lstm-cell",
            "LSTM cell, 64×512 fp32",
            lstm_cell,
            {"batch": 64, "hidden": 512},
            {"batch": 4, "hidden": 8},
        ),
        _case(
            "adam-step",
            "Adam step, 40 tensors of 768 to 2.4 M",
            adam,
            {"shapes": BERT_TENSORS},
            {"shapes": ((7,), (3, 5), (16,))},
        ),
        _case(
            "bert-glue",
            "glue of a BERT layer: softmax; add + layer norm; gelu",
            bert_glue,
            {**bert, "columns": 768, **half},
            {**small_bert, "columns": 24, **half},
        ),
    ]
