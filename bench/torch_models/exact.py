"""A model in float64, and how far a result is from it.

In: modules and their results. Out: two numbers. A model that asks for float32 gets float64.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map

from bench.check import largest_error

# As an error: what is missing, or no number. JSON has no infinity.
NO_NUMBER = 1e300
# Of the largest gradient: what float64 leaves of sums that are 0, as a key's bias has.
CANCELLED = 1e-9
_NARROW = (torch.float16, torch.bfloat16, torch.float32)
_TO_NARROW = (torch.Tensor.float, torch.Tensor.half, torch.Tensor.bfloat16)


class Exact(TorchFunctionMode):
    """Whatever asks for a narrower floating type gets float64."""

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Called for every function of PyTorch's."""
        if function in _TO_NARROW:
            return args[0].double()
        if getattr(function, "__name__", "").lstrip("_") == "grouped_mm":
            return _grouped(*args, **(kwargs or {}))
        args, named = tree_map(_widened, (args, kwargs or {}))
        return function(*args, **named)


def _grouped(
    rows: torch.Tensor, matrices: torch.Tensor, *, offs: torch.Tensor, **_plain: Any
) -> torch.Tensor:
    """Rows up to each offset times a matrix of their own, which PyTorch has of narrow types."""
    result = rows.new_zeros(rows.shape[0], matrices.shape[-1])
    start = 0
    for matrix, end in zip(matrices, offs.tolist(), strict=True):
        result[start:end] = rows[start:end] @ matrix
        start = end
    return result


def _widened(value: Any) -> Any:
    return torch.float64 if isinstance(value, torch.dtype) and value in _NARROW else value


def in_float64(module: nn.Module) -> nn.Module:
    """The same weights in float64; call it under Exact()."""
    return copy.deepcopy(module).double()


def errors(references: list[torch.Tensor], results: list[torch.Tensor]) -> tuple[float, float]:
    """The largest error of an element, and that of all of them together."""
    if len(references) != len(results):
        return NO_NUMBER, NO_NUMBER
    largest = largest_error([each.double() for each in references], results)
    pairs = zip(references, results, strict=True)
    together = [_rms_error(*pair) for pair in pairs]
    return _finite(largest), _finite(max(together, default=0.0))


def gradients_error(references: list[torch.Tensor], results: list[torch.Tensor]) -> float:
    """The mean over tensors of how far they are off; those that cancel to nothing say nothing."""
    if len(references) != len(results):
        return NO_NUMBER
    sizes = [each.norm().item() / max(each.numel(), 1) ** 0.5 for each in references]
    pairs = zip(references, results, sizes, strict=True)
    least = CANCELLED * max(sizes, default=0.0)
    off = [_rms_error(exact, found) for exact, found, size in pairs if size > least]
    return _finite(sum(off) / max(len(off), 1))


def _rms_error(reference: torch.Tensor, result: torch.Tensor) -> float:
    if reference.shape != result.shape:
        return math.inf
    exact = reference.double()
    norm = exact.norm().item()
    error = (result.double() - exact).norm().item() / max(norm, 1e-30)
    # max() of several would pass over what is not a number.
    return error if math.isfinite(error) else math.inf


def _finite(value: float) -> float:
    return value if math.isfinite(value) else NO_NUMBER
