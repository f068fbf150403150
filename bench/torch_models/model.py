"""What a model of this program is: how it is made, with what it is called, what is tried of it.

In: sizes. Out: modules with random weights and inputs that fit them. Knows no compiler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

Inputs = dict[str, torch.Tensor]
# What may change from call to call: by input, the dimensions, and the name of each.
Dims = Mapping[str, Mapping[int, str]]


@dataclass(frozen=True)
class Size:
    """How large a model's inputs are."""

    batch: int
    length: int = 0  # tokens, frames, or pixels along an edge
    small: bool = False


# A rate of steps. By 1e-3 a ViT leaps about from its random weights, and a ResNet and an LSTM know
# their one batch by heart before the last step, when gradients are differences of rounded logits:
# float64 itself goes other ways from weights that differ in a last bit.
GENTLE = 1e-4


@dataclass(frozen=True)
class Model:
    """A model, made at its real size or at a small one of the same kind."""

    name: str
    make: Callable[[Size], nn.Module]
    inputs: Callable[[Size], Inputs]
    real: Size
    small: Size
    needs: str | None = None  # a package beside PyTorch
    # A module of the same kind that returns a loss, where training is tried.
    trained: Callable[[Size], nn.Module] | None = None
    trained_on: Callable[[Size], Inputs] | None = None
    dynamic: Dims | None = None
    rate: float = 1e-3  # of AdamW's steps

    def size(self, small: bool) -> Size:
        """The size asked for."""
        return self.small if small else self.real


def with_channels_last(model: Model) -> Model:
    """The same, whose convolutions' weights lie with channels last."""

    def laid(make: Callable[[Size], nn.Module]) -> Callable[[Size], nn.Module]:
        return lambda size: make(size).to(memory_format=torch.channels_last)

    return replace(model, make=laid(model.make), trained=model.trained and laid(model.trained))


def tokens(
    batch: int, length: int, vocabulary: int = 1000, name: str = "input_ids", seed: int = 0
) -> Inputs:
    """Random tokens."""
    generator = torch.Generator().manual_seed(seed)
    return {name: torch.randint(0, vocabulary, (batch, length), generator=generator)}


def noise(name: str, *shape: int, seed: int = 1) -> Inputs:
    """A tensor of normally distributed numbers."""
    return {name: torch.randn(shape, generator=torch.Generator().manual_seed(seed))}


def padding(batch: int, length: int) -> Inputs:
    """A mask of which the rows end at different places."""
    ends = torch.tensor([length - (i * length) // (2 * batch) for i in range(batch)])
    return {"attention_mask": (torch.arange(length)[None] < ends[:, None]).long()}


def without_dropout(module: nn.Module) -> nn.Module:
    """Random numbers differ between float64 and float32, so that losses could not be compared."""
    for child in module.modules():
        if isinstance(child, nn.Dropout):
            child.p = 0.0
    return module


def placed(inputs: Inputs, device: Any, dtype: torch.dtype) -> Inputs:
    """Inputs on a device, floating ones in this element type."""
    return {
        name: value.to(device, dtype if value.is_floating_point() else value.dtype)
        for name, value in inputs.items()
    }


def leaves(value: Any) -> list[torch.Tensor]:
    """The floating tensors of a result, in order; caches and the like are looked into."""
    if isinstance(value, torch.Tensor):
        return [value] if value.is_floating_point() else []
    if isinstance(value, Mapping):
        return [leaf for each in value.values() for leaf in leaves(each)]
    if isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in leaves(each)]
    return []
