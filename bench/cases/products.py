"""Small matrix products and what stands around them: attention over short sequences, cells of few
units."""

from __future__ import annotations

import torch

from bench.case import Array, Case, Workload
from bench.lazy import jnn, jnp


def short_attention(
    batch: int, heads: int, length: int, size: int, dtype: str = "float32"
) -> Workload:
    """Attention over a short sequence: scores, mask, softmax, weighted sum of the values."""
    scale = size**-0.5

    def function(query, key, value, mask):
        scores = torch.matmul(query, key.transpose(-1, -2)) * scale + mask
        return torch.matmul(torch.softmax(scores, dim=-1), value)

    def in_jax(query, key, value, mask):
        scores = jnp.matmul(query, jnp.swapaxes(key, -1, -2)) * scale + mask
        return jnp.matmul(jnn.softmax(scores, axis=-1), value)

    x = Array((batch, heads, length, size), dtype)
    return Workload(function, in_jax, (x, x, x, Array((batch, 1, 1, length), dtype, "mask", 0.1)))


def interest_attention(batch: int, length: int, size: int, dtype: str = "float32") -> Workload:
    """DIEN's attention: how much of a user's history concerns one item, and the sum of that."""

    def function(item, history, weight, mask):
        query = torch.matmul(item, weight)
        scores = torch.matmul(history, query[:, :, None])[:, :, 0] + mask
        return torch.matmul(torch.softmax(scores, dim=-1)[:, None, :], history)[:, 0, :]

    def in_jax(item, history, weight, mask):
        query = jnp.matmul(item, weight)
        scores = jnp.matmul(history, query[:, :, None])[:, :, 0] + mask
        return jnp.matmul(jnn.softmax(scores, axis=-1)[:, None, :], history)[:, 0, :]

    return Workload(
        function,
        in_jax,
        (
            Array((batch, size), dtype),
            Array((batch, length, size), dtype),
            Array((size, size), dtype, scale=size**-0.5),
            Array((batch, length), dtype, "mask", 0.1),
        ),
    )


def whole_lstm_cell(batch: int, inputs: int, hidden: int, dtype: str = "float32") -> Workload:
    """An LSTM cell of few units, its two matrix products included."""

    def function(x, state, cell, from_input, from_state, bias):
        gates = torch.matmul(x, from_input) + torch.matmul(state, from_state) + bias
        i, f, g, o = gates.chunk(4, dim=-1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(cell), cell

    def in_jax(x, state, cell, from_input, from_state, bias):
        gates = jnp.matmul(x, from_input) + jnp.matmul(state, from_state) + bias
        i, f, g, o = jnp.split(gates, 4, axis=-1)
        cell = jnn.sigmoid(f) * cell + jnn.sigmoid(i) * jnp.tanh(g)
        return jnn.sigmoid(o) * jnp.tanh(cell), cell

    state = Array((batch, hidden), dtype)
    return Workload(
        function,
        in_jax,
        (
            Array((batch, inputs), dtype),
            state,
            state,
            Array((inputs, 4 * hidden), dtype, scale=inputs**-0.5),
            Array((hidden, 4 * hidden), dtype, scale=hidden**-0.5),
            Array((4 * hidden,), dtype),
        ),
    )


def cases() -> list[Case]:
    """Attention over short sequences, DIEN's attention, LSTM cells of 32 and 64 units."""
    lstm = {"batch": 5, "inputs": 7, "hidden": 8}
    attention = {"batch": 2, "heads": 3, "length": 9, "size": 8}
    return [
        Case(
            "short-attention",
            "attention, 512×8 heads of 32×32 fp32",
            "products",
            short_attention,
            {"batch": 512, "heads": 8, "length": 32, "size": 32},
            attention,
        ),
        Case(
            "short-attention-50",
            "attention, 256×8 heads of 50×64 fp32",
            "products",
            short_attention,
            {"batch": 256, "heads": 8, "length": 50, "size": 64},
            attention,
        ),
        Case(
            "short-attention-half",
            "attention, 512×8 heads of 32×32 fp16",
            "products",
            short_attention,
            {"batch": 512, "heads": 8, "length": 32, "size": 32, "dtype": "float16"},
            attention | {"dtype": "float16"},
        ),
        Case(
            "dien-attention",
            "DIEN's attention, 4096×50×36 fp32",
            "products",
            interest_attention,
            {"batch": 4096, "length": 50, "size": 36},
            {"batch": 5, "length": 7, "size": 6},
        ),
        Case(
            "dien-attention-small",
            "DIEN's attention, 256×50×36 fp32",
            "products",
            interest_attention,
            {"batch": 256, "length": 50, "size": 36},
            {"batch": 5, "length": 7, "size": 6},
        ),
        Case(
            "whole-lstm-cell",
            "LSTM cell with its products, 512×64 fp32",
            "products",
            whole_lstm_cell,
            {"batch": 512, "inputs": 64, "hidden": 64},
            lstm,
        ),
        Case(
            "whole-lstm-cell-32",
            "LSTM cell with its products, 4096×32 fp32",
            "products",
            whole_lstm_cell,
            {"batch": 4096, "inputs": 32, "hidden": 32},
            lstm,
        ),
    ]
