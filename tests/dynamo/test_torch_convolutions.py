"""Under torch.compile, convolutions are cuDNN's, with channels last, inside of our parts."""

import pytest
from library_stand_in import stand_in

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402
from tvm_stitch.dynamo.support import Libraries  # noqa: E402
from tvm_stitch.library import locate  # noqa: E402

nn = torch.nn


@pytest.fixture(autouse=True)
def _library(monkeypatch):
    with stand_in(monkeypatch, locate.CUDNN):
        yield


class Block(nn.Module):
    """Of a residual network."""

    def __init__(self, channels):
        super().__init__()
        self.wide = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.narrow = nn.Conv2d(channels, channels, 1)
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(2))

    def forward(self, x):
        h = self.norms[0](self.wide(x)).relu()
        return (self.norms[1](self.narrow(h)) + x).relu()


def network(*behind):
    torch.manual_seed(0)
    stem = nn.Conv2d(3, 8, 5, 2, 2), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
    return nn.Sequential(*stem, Block(8), *behind).eval().bfloat16()


def compiled(model, *inputs, device=EXECUTOR, **how):
    """The report, and what the parts launch; the result is right, and lies as eager's does."""
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=device, target="sm_90"))
    with torch.no_grad():
        found = torch.compile(model, backend=ours, **how)(*inputs)
        expected = model(*inputs)
        exact = model.double()(*(x.double() for x in inputs))
        model.bfloat16()
    worst = (expected - exact).abs().max().item()
    assert (found - exact).abs().max().item() <= 2 * worst
    assert found.stride() == expected.stride() and found.dtype == expected.dtype
    kernels = [
        name for machine in ours.machines.values() for name in getattr(machine, "kernels", ())
    ]
    return ours.log.report(), kernels


def test_a_network_is_one_part_and_nothing_is_moved_between():
    model = network(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 4))
    report, kernels = compiled(model, torch.randn(2, 3, 20, 16).bfloat16())
    assert len(report.parts) == 1 and not report.left and not report.parts[0].failure
    assert len(kernels) == 6, kernels  # laid out, stem, windows, two of the block, mean and product


@pytest.mark.slow
def test_what_leaves_lies_as_it_did():
    report, _ = compiled(network(), torch.randn(2, 3, 20, 16).bfloat16())
    assert len(report.parts) == 1 and not report.left
    report, _ = compiled(network(nn.Flatten(2)), torch.randn(2, 3, 20, 16).bfloat16())
    assert len(report.parts) == 1 and not report.left


@pytest.mark.slow
def test_a_batch_of_any_size():
    x = torch.randn(3, 3, 20, 16).bfloat16()
    torch._dynamo.mark_dynamic(x, 0)
    report, _ = compiled(network(nn.AdaptiveAvgPool2d(1)), x)
    assert not report.left and not any(part.failure for part in report.parts)


def test_without_the_library_they_are_pytorchs():
    # By a patch of its own: the one of the fixture is undone last, to the stand-in's folder.
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(locate.FOLDER, locate.OFF)
        report, _ = compiled(network(), torch.randn(2, 3, 20, 16).bfloat16())
    assert {each.operator: each.calls for each in report.left} == {"convolution": 3}


def test_on_the_cpu_they_are_pytorchs():
    report, _ = compiled(network(), torch.randn(2, 3, 20, 16).bfloat16(), device=LLVM)
    assert {each.operator: each.calls for each in report.left} == {"convolution": 3}


@pytest.mark.slow
def test_in_training_they_are_pytorchs():
    torch._dynamo.reset()
    model = network(nn.Flatten()).train()
    ours = GraphCompiler(Settings(device=EXECUTOR, target="sm_90"))
    torch.compile(model, backend=ours)(torch.randn(2, 3, 8, 8).bfloat16()).sum().backward()
    left = {each.operator: each.calls for each in ours.log.report().left}
    assert left["convolution"] == left["convolution_backward"] == 3


def test_what_may_be_tf32_is_pytorchs(monkeypatch):
    def products(precision):
        monkeypatch.setattr(torch, "get_float32_matmul_precision", precision)
        return torch.float32 in Libraries.of(Settings(device=EXECUTOR)).products

    def mixed():
        raise RuntimeError("PyTorch is checking the matmul precision without a backend's name")

    assert products(lambda: "highest")
    assert not products(lambda: "high") and not products(mixed)
    for allowed in (True, False):
        monkeypatch.setattr(torch._C, "_get_cudnn_allow_tf32", lambda: allowed)  # noqa: B023
        found = Libraries.of(Settings(device=EXECUTOR)).convolutions
        assert (torch.float32 in found) is not allowed and torch.float16 in found
