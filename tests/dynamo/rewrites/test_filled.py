"""Numbers beside tensors: filled in a kernel, not in memory that is allocated for nothing."""

import pytest

torch = pytest.importorskip("torch")

from torch.nn import functional  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402


def hinge(x, labels):
    return functional.hinge_embedding_loss(x, labels, margin=0.75)


def quotients(x, y):
    return torch.addcdiv(x, x, y.exp())


def judged(function, *inputs, device=LLVM, dynamic=None):
    """What is left to PyTorch; results and gradients are eager's."""
    torch._dynamo.reset()
    compiler = GraphCompiler(Settings(device=device, target="sm_90", smallest_part=1))
    compiled = torch.compile(function, backend=compiler, dynamic=dynamic)
    found = []
    for run in (compiled, function):
        given = [each.clone().requires_grad_(each.is_floating_point()) for each in inputs]
        result = run(*given)
        result.sum().backward()
        found.append([result.detach(), *(each.grad for each in given if each.requires_grad)])
    torch.testing.assert_close(*found)
    report = compiler.log.report()
    assert not [part.failure for part in report.parts if part.failure]
    return {each.operator for each in report.left}


@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
def test_a_margin_is_no_memory(device):
    x, labels = torch.randn(6, 35), torch.randint(0, 2, (6, 35)) * 2 - 1
    assert not judged(hinge, x, labels, device=device)


def test_a_gradient_of_one_is_no_memory():
    assert not judged(quotients, torch.randn(5, 7), torch.randn(5, 7))


def test_of_sizes_that_change():
    x, labels = torch.randn(6, 35), torch.randint(0, 2, (6, 35)) * 2 - 1
    assert not judged(hinge, x, labels, dynamic=True)


def test_memory_that_lies_in_another_order_stays_pytorchs():
    x, y = torch.randn(2, 5, 7).transpose(1, 2)
    assert judged(quotients, x, y) == {"empty_permuted"}
