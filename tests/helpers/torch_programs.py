"""The helper that most tests of PyTorch's front door are made of.

`check(function, *inputs)` says: the function becomes Relax, and computes what PyTorch computes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import tvm
from torch.fx.experimental.proxy_tensor import make_fx
from tvm import relax

from tvm_stitch.checked_index import on_host
from tvm_stitch.frontend.torch import Converted, convert
from tvm_stitch.frontend.torch.decompositions import decompositions
from tvm_stitch.frontend.torch.layout import inverse

# Shares of the largest element: what one rounding, and the order of a sum, may change.
TOLERANCE = {torch.float32: 2e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3, torch.float64: 1e-12}


def traced(function: Callable[..., Any], *inputs: torch.Tensor) -> torch.fx.GraphModule:
    """The function as a graph of core operators."""
    plain = torch.func.functionalize(function, remove="mutations")
    trace = make_fx(plain, decomposition_table=decompositions(), tracing_mode="fake")
    graph = trace(*inputs)
    graph.graph.eliminate_dead_code()
    return graph


def run(converted: Converted, inputs: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """The results of a converted graph, by TVM's LLVM target."""
    machine = relax.VirtualMachine(tvm.compile(on_host(converted.module), "llvm"), tvm.cpu())
    arguments = [inputs[n].permute(order).contiguous() for n, order in converted.inputs]
    results = machine["main"](*arguments)
    return [
        torch.from_dlpack(result).permute(inverse(order))
        for result, order in zip(results, converted.outputs, strict=True)
    ]


def check(function: Callable[..., Any], *inputs: torch.Tensor) -> Converted:
    """The whole function becomes Relax, and its results are PyTorch's.

    Elements that are not exact are compared with float64, to which they may be no farther than
    rounding takes them.
    """
    converted = convert(traced(function, *inputs).graph)
    expected = flat(function(*inputs))
    exact = flat(function(*(x.double() if x.is_floating_point() else x for x in inputs)))
    found = run(converted, inputs)
    assert len(found) == len(expected)
    for got, want, truth in zip(found, expected, exact, strict=True):
        agree(got, want, truth)
    return converted


def agree(got: torch.Tensor, want: torch.Tensor, truth: torch.Tensor) -> None:
    """A result has PyTorch's type, shape and, but for rounding, elements."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape)
    if not want.is_floating_point():
        torch.testing.assert_close(got, want, rtol=0, atol=0)
        return
    finite = truth[truth.isfinite()]
    limit = TOLERANCE[want.dtype] * max(1.0, float(finite.abs().max()) if len(finite) else 1.0)
    eager = (want.double() - truth).abs()
    worst = float(eager[eager.isfinite()].max()) if eager.isfinite().any() else 0.0
    torch.testing.assert_close(
        got.double(), want.double(), rtol=0, atol=max(limit, 2 * worst), equal_nan=True
    )


def flat(value: Any) -> list[torch.Tensor]:
    """Results as a list."""
    return [value] if isinstance(value, torch.Tensor) else list(value)
