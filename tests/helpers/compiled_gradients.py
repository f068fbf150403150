"""A function and its gradients through our backend, beside eager PyTorch's and float64's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from tvm_stitch.dynamo.backend import GraphCompiler
from tvm_stitch.dynamo.settings import LLVM, Settings


def judged(
    function: Callable[..., torch.Tensor], *inputs: torch.Tensor, device: str = LLVM
) -> list[str]:
    """The operators that are ours, which are all; what they compute is as exact as eager's is.

    Results have memory of their own, and lie in it as eager's do.
    """
    torch._dynamo.reset()
    compiler = GraphCompiler(Settings(device=device, target="sm_90", smallest_part=1))
    compiled = torch.compile(function, backend=compiler)
    wide = tuple(each.double() if each.is_floating_point() else each for each in inputs)
    found = [
        _with_gradients(run, of)
        for run, of in ((compiled, inputs), (function, inputs), (function, wide))
    ]
    for ours, eager, exact in zip(*found, strict=True):
        lie = [(each.shape, each.stride(), each.dtype) for each in (ours, eager)]
        assert lie[0] == lie[1]
        norm = exact.norm() + 1e-6
        worst = (eager.double() - exact).norm() / norm
        assert (ours.double() - exact).norm() / norm <= 2 * worst + 1e-6
    report = compiler.log.report()
    assert not report.left
    assert not [part.failure for part in report.parts if part.failure]
    return [name for part in report.parts for name in part.operators]


def _with_gradients(
    run: Callable[..., Any], inputs: tuple[torch.Tensor, ...]
) -> list[torch.Tensor]:
    given = [each.clone().requires_grad_(each.is_floating_point()) for each in inputs]
    result = run(*given)
    assert all(result.untyped_storage() is not each.untyped_storage() for each in given)
    (result * (result.detach() + 1)).sum().backward()
    return [result.detach(), *(each.grad for each in given if each.grad is not None)]
