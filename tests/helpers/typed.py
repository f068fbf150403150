"""Modules of parameters of given shapes and dtypes, and random arrays for them."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax


def module(build, *parameters) -> tvm.IRModule:
    """A module whose main applies `build` to parameters of these (shape, dtype)."""
    builder = relax.BlockBuilder()
    variables = [
        relax.Var(f"p{i}", relax.TensorType(shape, dtype))
        for i, (shape, dtype) in enumerate(parameters)
    ]
    with builder.function("main", variables):
        with builder.dataflow():
            output = builder.emit_output(build(*variables))
        builder.emit_func_output(output)
    return builder.get()


def normal(shape, dtype="float64", seed=0):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
