"""Tensors without elements are made, not passed: what is computed of them is PyTorch's result."""

import pytest

torch = pytest.importorskip("torch")

from torch_programs import traced  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402
from tvm_stitch.frontend.torch import convert  # noqa: E402


def compiled(device, function, *inputs):
    """Results and gradients, and the report."""
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=device, target="sm_90", smallest_part=1))
    results = torch.compile(function, backend=ours)(*inputs)
    return results, ours.log.report()


def sums(x, y):
    """Elements, sums over nothing, products of nothing, and what is there beside them."""
    return (
        x.exp() * 2,
        x.sum(1),
        x.mean(1),
        x.prod(1),
        (x != 0).any(1),
        x @ x.mT + y,
        x.var(1, correction=0),
    )


@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
def test_of_nothing(device):
    inputs = torch.empty(3, 0), torch.ones(3, 3)
    results, report = compiled(device, sums, *inputs)
    torch.testing.assert_close(results, sums(*inputs), equal_nan=True)
    assert not report.left and not [part.failure for part in report.parts if part.failure]


def test_nothing_at_all():
    results, report = compiled(LLVM, lambda x: x.exp() + 1, torch.empty(2, 0, 3))
    assert results.shape == (2, 0, 3) and results.stride() == (3, 3, 1)
    assert report.parts and not report.parts[0].failure


def test_gradients_of_nothing():
    x = torch.empty(0, 3, requires_grad=True)
    w = torch.ones(3, 2, requires_grad=True)
    result, _report = compiled(LLVM, lambda x, w: (x @ w).sigmoid(), x, w)
    result.sum().backward()
    assert x.grad.shape == (0, 3)
    torch.testing.assert_close(w.grad, torch.zeros(3, 2))


def test_they_are_no_arguments():
    graph = traced(lambda x, y: (x + 1, y + 1), torch.empty(0), torch.ones(2)).graph
    converted = convert(graph)
    assert converted.inputs == ((1, (0,)),) and converted.outputs == (None, (0,))
    assert len(converted.module["main"].params) == 1


def test_with_a_size_that_changes_they_are_pytorchs():
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=LLVM, smallest_part=1))
    run = torch.compile(lambda x: x.exp() + 1, backend=ours, dynamic=True)
    for rows in (5, 6, 0):
        x = torch.randn(rows, 2)
        torch.testing.assert_close(run(x), x.exp() + 1)
