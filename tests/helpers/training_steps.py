"""A step of training through our backend beside eager PyTorch's, in its own type and in float64."""

from __future__ import annotations

import copy
from typing import Any

import torch

from tvm_stitch.dynamo.backend import GraphCompiler
from tvm_stitch.dynamo.settings import EXECUTOR, Settings


def layout(tensor: torch.Tensor, alike: bool = True) -> Any:
    """How a tensor lies; but for the strides of dimensions of 1, where they need not be `alike`."""
    strides = zip(tensor.shape, tensor.stride(), strict=True)
    return tensor.dtype, [stride for size, stride in strides if alike or size > 1]


def trained(
    model: torch.nn.Module, x: torch.Tensor, alike: bool = True, tolerance: float = 0.02
) -> Any:
    """The report of a step, whose gradients are right and lie as eager's do.

    They may be so much of a gradient's norm farther from float64 than eager's twice.
    """
    torch._dynamo.reset()
    models = copy.deepcopy(model).double(), copy.deepcopy(model), model
    ours = GraphCompiler(Settings(device=EXECUTOR, target="sm_90"))
    functions = models[0], models[1], torch.compile(model, backend=ours)
    inputs = [x.double(), x.clone(), x.clone()]
    for function, each in zip(functions, inputs, strict=True):
        function(each.requires_grad_()).square().mean().backward()
    pairs = zip(inputs, models, strict=True)
    lists = [[x.grad, *(parameter.grad for parameter in model.parameters())] for x, model in pairs]
    for exact, eager, found in zip(*lists, strict=True):
        assert layout(found, alike) == layout(eager, alike)
        norm = exact.norm() + 1e-6
        worst = (eager.double() - exact).norm() / norm
        assert (found.double() - exact).norm() / norm <= 2 * worst + tolerance
    return ours.log.report()
