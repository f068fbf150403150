"""What a case is: its arrays, a PyTorch function, the same in JAX, and how wrong a result may be.

In: sizes. Out: a Workload, data and two functions, from which every system prepares its own call.
Nothing here knows of systems, of measuring or of a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

ITEM_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "int64": 8,
    "int32": 4,
    "int8": 1,
    "bool": 1,
}

# Largest elementwise error, relative to |reference| + RMS(reference): a few roundings of the
# widest format that the case stores, since eager pipelines round after every operator.
TOLERANCE = {"float64": 1e-6, "float32": 2e-4, "float16": 1e-2, "bfloat16": 4e-2}


@dataclass(frozen=True)
class Array:
    """One input: shape, dtype and how it is filled.

    fill is "normal" (shift + scale · N(0, 1)), "uniform" (shift + scale · U[0, 1)), "index"
    (integers below high), "skewed" (such, the larger the rarer, as words are), "keep" (1 with
    probability scale, else 0), "mask" (-10000 with probability scale, else 0: an additive
    attention mask) or "causal" (-10000 above the diagonal).
    """

    shape: tuple[int, ...]
    dtype: str = "float32"
    fill: str = "normal"
    scale: float = 1.0
    shift: float = 0.0
    high: int = 0

    @property
    def bytes(self) -> int:
        """Size in memory."""
        return math.prod(self.shape) * ITEM_BYTES[self.dtype]

    def make(self, generator: torch.Generator) -> torch.Tensor:
        """The array, filled on the generator's device."""
        device, dtype = generator.device, getattr(torch, self.dtype)
        if self.fill == "index":
            return torch.randint(
                self.high, self.shape, generator=generator, device=device, dtype=dtype
            )
        if self.fill == "skewed":
            share = torch.rand(self.shape, generator=generator, device=device)
            return (self.high**share).to(dtype) - 1
        if self.fill == "causal":
            return torch.full(self.shape, -10000.0, dtype=dtype, device=device).triu(1)
        # Half formats are drawn as float32 so that the values do not depend on the format.
        draw = torch.randn if self.fill == "normal" else torch.rand
        drawn = draw(self.shape, generator=generator, device=device, dtype=torch.float32)
        if self.fill == "keep":
            drawn = (drawn < self.scale).float()
        elif self.fill == "mask":
            drawn = (drawn < self.scale).float() * -10000.0
        else:
            drawn.mul_(self.scale).add_(self.shift)
        return drawn.to(dtype)


def make_inputs(
    arrays: tuple[Array, ...], device: str | torch.device, seed: int = 0
) -> tuple[torch.Tensor, ...]:
    """Every array of a workload on the device, the same for the same seed and device type."""
    generator = torch.Generator(device=device).manual_seed(seed)
    return tuple(array.make(generator) for array in arrays)


@dataclass(frozen=True)
class Workload:
    """What is computed: two functions of the same arrays, one for PyTorch, one for JAX.

    Both take the arrays as separate arguments and return one array or a tuple. Run on float64
    arrays, the PyTorch function is the reference, so it may not name a float format itself.
    """

    function: Callable[..., Any]
    jax: Callable[..., Any]
    arrays: tuple[Array, ...]
    tolerance: float | None = None
    bytes: int | None = None
    # Arguments whose first dimension is the rows of every output: the reference is then computed
    # some rows at a time, so that large grids fit a small GPU.
    rowwise: tuple[int, ...] = ()
    # The function takes gradients (torch.func.grad), which torch.export cannot read directly.
    differentiates: bool = False
    # For libraries of ready kernels: which of theirs this is ("softmax", "rms_norm", …).
    kernel: str | None = None

    @property
    def allowed(self) -> float:
        """The error above which a result is wrong."""
        if self.tolerance is not None:
            return self.tolerance
        return max(TOLERANCE[a.dtype] for a in self.arrays if a.dtype in TOLERANCE)

    def module(self) -> torch.nn.Module:
        """The PyTorch function as a module without parameters."""
        return _Function(self.function)

    def state_bytes(self, outputs: list[torch.Tensor]) -> int:
        """Bytes that must move: each input read once, each output written once."""
        if self.bytes is not None:
            return self.bytes
        written = sum(o.numel() * o.element_size() for o in outputs)
        return sum(a.bytes for a in self.arrays) + written


class _Function(torch.nn.Module):
    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: torch.Tensor) -> Any:
        return self.function(*arguments)


@dataclass(frozen=True)
class Case:
    """A workload at the size that is measured, and at a small one for tests on a CPU."""

    name: str
    title: str
    group: str
    define: Callable[..., Workload]
    sizes: dict[str, Any]
    small: dict[str, Any]
    # Where the case stands in a bandwidth plot: (curve, rows, columns).
    grid: tuple[str, int, int] | None = None

    def workload(self, small: bool = False) -> Workload:
        """The workload at full or at test size."""
        return self.define(**(self.small if small else self.sizes))


def as_list(outputs: Any) -> list[Any]:
    """One output or a (nested) tuple of them as a flat list."""
    if isinstance(outputs, (tuple, list)):
        return [leaf for output in outputs for leaf in as_list(output)]
    return [outputs]


def wide(x: torch.Tensor) -> torch.Tensor:
    """At least float32: what a careful kernel computes in; float64 stays as it is."""
    return x if x.dtype == torch.float64 else x.float()
