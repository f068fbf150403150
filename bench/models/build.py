"""From a PyTorch model to a workload: its parameters become inputs, filled from a seed.

In: a module built on the meta device, its JAX function of (parameters by name, inputs…). Out: a
Workload of one forward pass, or of one training step (loss, gradients, update).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.func import functional_call, grad_and_value

from bench.case import Array, Workload
from bench.lazy import jax

RATE, DECAY = 1e-2, 0.9
# Errors grow with depth; these are a few times what the eager models themselves show.
TOLERANCE = {"float32": 2e-3, "float16": 8e-2, "bfloat16": 2e-1}
# Gradients lose more: eager float32 shows 2.8e-3 for the Transformer's.
TRAINING_TOLERANCE = {"float32": 1e-2, "float16": 2e-1, "bfloat16": 4e-1}


def meta(make: Callable[[], nn.Module]) -> nn.Module:
    """The module without storage: only names and shapes of its parameters are wanted."""
    with torch.device("meta"):
        return make().eval()


def parameters(module: nn.Module, dtype: str) -> dict[str, Array]:
    """Parameters and buffers by name, each filled so that activations keep their size."""
    named = [*module.named_parameters(), *module.named_buffers()]
    return {name: _parameter(name, tuple(tensor.shape), dtype) for name, tensor in named}


def _parameter(name: str, shape: tuple[int, ...], dtype: str) -> Array:
    kind = name.rsplit(".", 1)[-1]
    if kind == "running_var":
        return Array(shape, dtype, "uniform", scale=0.5, shift=0.75)
    if len(shape) > 1:
        fan_in = 1.0 if "embed" in name else math.prod(shape[1:])
        return Array(shape, dtype, scale=1 / math.sqrt(fan_in))
    if kind == "weight":
        return Array(shape, dtype, scale=0.1, shift=1.0)
    return Array(shape, dtype, scale=0.1)


def inference(
    module: nn.Module, in_jax: Callable[..., Any], inputs: tuple[Array, ...], dtype: str
) -> Workload:
    """One forward pass."""
    named = parameters(module, dtype)
    names, count = list(named), len(named)

    def function(*arrays: torch.Tensor) -> Any:
        values = dict(zip(names, arrays[:count], strict=True))
        return functional_call(module, values, arrays[count:])

    def forward(*arrays: Any) -> Any:
        return in_jax(dict(zip(names, arrays[:count], strict=True)), *arrays[count:])

    arrays = (*named.values(), *inputs)
    return Workload(function, forward, arrays, tolerance=TOLERANCE[dtype])


def training(
    module: nn.Module, in_jax: Callable[..., Any], inputs: tuple[Array, ...], dtype: str
) -> Workload:
    """One step of SGD with momentum: the module returns a loss; loss, parameters, momenta come out.

    The momenta go in close to zero: an error in a gradient then shows in what comes out, where a
    parameter would hide it.
    """
    named = parameters(module, dtype)
    names, count = list(named), len(named)

    def split(arrays: Any) -> tuple[dict[str, Any], Any, Any]:
        values = dict(zip(names, arrays[:count], strict=True))
        return values, arrays[count : 2 * count], arrays[2 * count :]

    def update(values: Any, gradients: Any, momenta: Any) -> tuple[Any, ...]:
        moved = [DECAY * m + gradients[n] for n, m in zip(names, momenta, strict=True)]
        kept = [values[n] - RATE * m for n, m in zip(names, moved, strict=True)]
        return (*kept, *moved)

    def function(*arrays: torch.Tensor) -> Any:
        values, momenta, given = split(arrays)
        gradients, loss = grad_and_value(lambda v: functional_call(module, v, given))(values)
        return (loss, *update(values, gradients, momenta))

    def step(*arrays: Any) -> Any:
        values, momenta, given = split(arrays)
        loss, gradients = jax.value_and_grad(in_jax)(values, *given)
        return (loss, *update(values, gradients, momenta))

    momenta = tuple(Array(a.shape, dtype, scale=1e-4) for a in named.values())
    arrays = (*named.values(), *momenta, *inputs)
    allowed = TRAINING_TOLERANCE[dtype]
    return Workload(function, step, arrays, tolerance=allowed, differentiates=True)


def sub(values: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The parameters of one child module, under the names they have there."""
    start = prefix + "."
    return {k[len(start) :]: v for k, v in values.items() if k.startswith(start)}
