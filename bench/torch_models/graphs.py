"""Networks over graphs: what indices send along edges is added up, or compared, where they end."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from bench.torch_models.model import GENTLE, Inputs, Model, Size, noise, tokens

CLASSES = 10
FEATURES = 128
SMALL = 16


class Attention(nn.Module):
    """Edges are weighed against those that end in the same node, by a softmax for each head."""

    def __init__(self, width: int, out: int, heads: int) -> None:
        super().__init__()
        self.project, self.heads = nn.Linear(width, heads * out, bias=False), heads
        self.source = nn.Parameter(torch.randn(heads, out) * 0.3)
        self.target = nn.Parameter(torch.randn(heads, out) * 0.3)

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """What comes to each node."""
        h = self.project(x).view(len(x), self.heads, -1)
        sent, received = (h * self.source).sum(-1), (h * self.target).sum(-1)
        score = F.leaky_relu(sent[source] + received[target], 0.2).float()
        index = target[:, None].expand_as(score)
        nothing = score.new_zeros(len(x), self.heads)
        most = nothing.scatter_reduce(0, index, score.detach(), "amax", include_self=False)
        weight = torch.exp(score - most[target])
        total = nothing.scatter_add(0, index, weight)
        weight = (weight / (total[target] + 1e-9)).to(x.dtype)
        return torch.zeros_like(h).index_add(0, target, weight[..., None] * h[source]).flatten(1)


class Mean(nn.Module):
    """The mean of a node's neighbours, beside what it has itself."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.own, self.others = nn.Linear(width, out), nn.Linear(width, out, bias=False)

    def forward(self, x: torch.Tensor, source: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        """What comes to each node."""
        sent, ones = x[source], x.new_ones(len(source), 1)
        total = torch.zeros_like(x).index_add(0, target, sent)
        number = x.new_zeros(len(x), 1).index_add(0, target, ones)
        return self.own(x) + self.others(total / number.clamp(min=1))


class Network(nn.Module):
    """Layers over one graph, whose nodes' classes are guessed."""

    def __init__(self, *layers: nn.Module) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)

    def forward(
        self,
        x: torch.Tensor,
        source: torch.Tensor,
        target: torch.Tensor,
        labels: torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Logits; a loss where labels are given."""
        for number, layer in enumerate(self.layers):
            x = layer(F.elu(x) if number else x, source, target)
        return x if labels is None else F.cross_entropy(x.float(), labels)


def _attention(size: Size) -> nn.Module:
    if size.small:
        return Network(Attention(SMALL, 8, 2), Attention(16, CLASSES, 1))
    return Network(Attention(FEATURES, 32, 4), Attention(128, CLASSES, 1))


def _mean(size: Size) -> nn.Module:
    if size.small:
        return Network(Mean(SMALL, SMALL), Mean(SMALL, CLASSES))
    return Network(Mean(FEATURES, 256), Mean(256, 256), Mean(256, CLASSES))


def _graph(size: Size) -> Inputs:
    """Features of so many nodes, and so many edges between them."""
    ends = {
        name: tokens(1, size.length, size.batch, name, seed)[name][0]
        for seed, name in enumerate(("source", "target"))
    }
    return {**noise("x", size.batch, SMALL if size.small else FEATURES), **ends}


def _labelled(size: Size) -> Inputs:
    return {**_graph(size), "labels": torch.arange(size.batch) % CLASSES}


def models() -> list[Model]:
    """All of them."""
    sizes = Size(5600, 40000), Size(33, 150, True)
    return [
        Model(name, make, _graph, *sizes, None, make, _labelled, rate=GENTLE)
        for name, make in (("graph-attention", _attention), ("graph-mean", _mean))
    ]
