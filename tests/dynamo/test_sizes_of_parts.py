"""Sizes that change, where a part's inputs have sizes that follow from others."""

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402

functional = torch.nn.functional


def check(function, inputs, device=LLVM, smallest_part=1):
    """One compilation serves all inputs, and no part of it fails."""
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=device, target="sm_90", smallest_part=smallest_part))
    compiled = torch.compile(function, backend=ours, dynamic=True)
    for given in inputs:
        expected = torch.utils._pytree.tree_leaves(function(*given))
        found = torch.utils._pytree.tree_leaves(compiled(*given))
        for got, want in zip(found, expected, strict=True):
            torch.testing.assert_close(got, want)
    report = ours.log.report()
    assert len(report.graphs) == 1
    assert not [part.failure for part in report.parts if part.failure]
    return report


def images(channels, *sizes):
    return [(torch.randn(2, channels, *size),) for size in sizes]


@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
@pytest.mark.slow
def test_what_a_convolution_with_steps_leaves(device):
    torch.manual_seed(0)
    weight = torch.randn(4, 3, 3, 3)

    def function(x):
        y = functional.conv2d(x, weight, stride=2, padding=1)
        return functional.relu(y * 2 + 1), y.softmax(-1)

    with torch.no_grad():
        report = check(function, images(3, (9, 8), (12, 15)), device)
    assert "convolution" in {each.operator for each in report.left}


def test_halves_of_a_batch():
    torch.manual_seed(0)

    def function(x):
        first, second = x[x.shape[0] // 2 :], x.view(-1)[: x.shape[0] * x.shape[1] // 2]
        return first * 2 + 1, second.exp() - 1

    check(function, [(torch.randn(4, 6),), (torch.randn(7, 10),)])


@pytest.mark.slow
def test_patches_come_together():
    torch.manual_seed(0)

    def function(x):
        batch, channels, height, width = x.shape
        halves = x.view(batch, channels, height // 2, 2, width // 2, 2)
        merged = halves.permute(0, 2, 4, 3, 5, 1).reshape(batch, -1, 4 * channels)
        return functional.layer_norm(merged, (4 * channels,)), (merged.mT * 2).relu()

    check(function, images(3, (4, 8), (6, 10)))


def test_gradients():
    torch.manual_seed(0)
    weight = torch.randn(4, 3, 3, 3)

    def gradient(function, x):
        x = x.clone().requires_grad_()
        function(x).backward()
        return x.grad

    def function(x):
        return functional.gelu(functional.conv2d(x, weight, stride=2)).square().mean()

    ours = GraphCompiler(Settings(device=LLVM))
    torch._dynamo.reset()
    compiled = torch.compile(function, backend=ours, dynamic=True)
    for (x,) in images(3, (9, 8), (12, 15)):
        torch.testing.assert_close(gradient(compiled, x), gradient(function, x))
    report = ours.log.report()
    assert report.graphs == ("forward 0", "backward 0")
    assert report.parts and not [part.failure for part in report.parts if part.failure]


def gated(x):
    first, second = x.chunk(2, 1)
    return first * second.sigmoid() + 1


def half_sized_and_back(x):
    y = functional.max_pool2d(x, 2)
    return functional.silu(x * functional.interpolate(y, size=(y.shape[2] * 2, y.shape[3] * 2)))


@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
@pytest.mark.parametrize("function", [gated, half_sized_and_back])
def test_sizes_that_are_guarded_as_equal_are_one(function, device):
    """PyTorch says nothing but that they agree: how halves of a size follow from it differs."""
    torch.manual_seed(0)
    images = [(torch.randn(2, *size),) for size in ((4, 6, 8), (6, 10, 12), (14, 8, 20))]
    report = check(function, images, device)
    assert not [each for each in report.left if "sizes" in each.reason]
