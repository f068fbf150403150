"""Models that PyTorch has by itself: recurrent ones, its own Transformer, a block of a U-Net."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from bench.models.diffusion import UnetBlock
from bench.torch_models.model import GENTLE, Inputs, Model, Size, noise, without_dropout

CLASSES = 10


class Recurrent(nn.Module):
    """An LSTM or a GRU, of whose last state a class is guessed."""

    def __init__(self, kind: type[nn.Module], width: int) -> None:
        super().__init__()
        self.cells = kind(width, width, num_layers=2, batch_first=True)  # type: ignore[call-arg]
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x: torch.Tensor, labels: torch.Tensor | None = None) -> torch.Tensor:
        """Logits; a loss where labels are given."""
        states, _ = self.cells(x)
        logits = self.head(states[:, -1])
        return logits if labels is None else F.cross_entropy(logits.float(), labels)


def _recurrent(name: str, kind: type[nn.Module]) -> Model:
    def make(size: Size) -> nn.Module:
        return Recurrent(kind, 16 if size.small else 512)

    def inputs(size: Size) -> Inputs:
        return noise("x", size.batch, size.length, 16 if size.small else 512)

    def labelled(size: Size) -> Inputs:
        return {**inputs(size), "labels": torch.arange(size.batch) % CLASSES}

    sizes = Size(32, 64), Size(2, 5, True)
    return Model(name, make, inputs, *sizes, None, make, labelled, rate=GENTLE)


def _transformer(size: Size) -> nn.Module:
    width = 32 if size.small else 512
    # With ReLU or GELU, PyTorch would call one operator for the whole layer.
    layer = nn.TransformerEncoderLayer(
        width, 4, 4 * width, activation=F.silu, batch_first=True, norm_first=True
    )
    return without_dropout(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))


def _unet(size: Size) -> nn.Module:
    return UnetBlock(32 if size.small else 320, 8 if size.small else 32, 4, 64)


def _noisy(size: Size) -> Inputs:
    channels = 32 if size.small else 320
    image = noise("x", size.batch, channels, size.length, size.length)
    return {**image, **noise("time", size.batch, 64)}


def models() -> list[Model]:
    """All of them."""
    return [
        _recurrent("lstm", nn.LSTM),
        _recurrent("gru", nn.GRU),
        Model(
            "transformer-encoder",
            _transformer,
            lambda size: noise("src", size.batch, size.length, 32 if size.small else 512),
            Size(8, 256),
            Size(2, 8, True),
            dynamic={"src": {0: "batch", 1: "length"}},
        ),
        Model("unet-block", _unet, _noisy, Size(2, 64), Size(1, 8, True)),
    ]
