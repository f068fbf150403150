"""Recurrent cells between the matrix products: gates in, states out."""

from __future__ import annotations

import torch

from bench.case import Array, Case, Workload
from bench.lazy import jnn, jnp


def lstm_cell(batch: int, hidden: int, dtype: str = "float32") -> Workload:
    """An LSTM cell after its two matrix products."""

    def function(from_input, from_state, bias, cell):
        i, f, g, o = (from_input + from_state + bias).chunk(4, dim=-1)
        cell = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(cell), cell

    def in_jax(from_input, from_state, bias, cell):
        i, f, g, o = jnp.split(from_input + from_state + bias, 4, axis=-1)
        cell = jnn.sigmoid(f) * cell + jnn.sigmoid(i) * jnp.tanh(g)
        return jnn.sigmoid(o) * jnp.tanh(cell), cell

    gates = Array((batch, 4 * hidden), dtype)
    bias, cell = Array((4 * hidden,), dtype), Array((batch, hidden), dtype)
    return Workload(function, in_jax, (gates, gates, bias, cell))


def gru_cell(batch: int, hidden: int, dtype: str = "float32") -> Workload:
    """A GRU cell after its two matrix products."""

    def function(from_input, from_state, state):
        reset_x, update_x, new_x = from_input.chunk(3, dim=-1)
        reset_h, update_h, new_h = from_state.chunk(3, dim=-1)
        update = torch.sigmoid(update_x + update_h)
        new = torch.tanh(new_x + torch.sigmoid(reset_x + reset_h) * new_h)
        return new + update * (state - new)

    def in_jax(from_input, from_state, state):
        reset_x, update_x, new_x = jnp.split(from_input, 3, axis=-1)
        reset_h, update_h, new_h = jnp.split(from_state, 3, axis=-1)
        update = jnn.sigmoid(update_x + update_h)
        new = jnp.tanh(new_x + jnn.sigmoid(reset_x + reset_h) * new_h)
        return new + update * (state - new)

    gates = Array((batch, 3 * hidden), dtype)
    return Workload(function, in_jax, (gates, gates, Array((batch, hidden), dtype)))


def cases() -> list[Case]:
    """A large LSTM cell and a GRU cell; the small LSTM cell is among the peers' fifteen."""
    small = {"batch": 4, "hidden": 8}
    return [
        Case(
            "lstm-cell-large",
            "LSTM cell, 4096×1024 fp32",
            "cells",
            lstm_cell,
            {"batch": 4096, "hidden": 1024},
            small,
        ),
        Case(
            "gru-cell",
            "GRU cell, 64×512 fp32",
            "cells",
            gru_cell,
            {"batch": 64, "hidden": 512},
            small,
        ),
        Case(
            "gru-cell-large",
            "GRU cell, 4096×1024 fp32",
            "cells",
            gru_cell,
            {"batch": 4096, "hidden": 1024},
            small,
        ),
    ]
