"""Losses in training: what graphs keep for the backward pass, and that they follow eager's."""

import copy

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402

ROWS, CLASSES = 6, 515
STEPS = 20


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def loss(logits, labels):
    return functional.cross_entropy(logits.float(), labels, label_smoothing=0.1)


class Kept(GraphCompiler):
    """Notes down the shapes that forward graphs return."""

    shapes = ()

    def compile_graph(self, device, graphs, kind, graph, inputs):
        (output,) = graph.graph.find_nodes(op="output")
        if kind == "forward":
            returned = [each for each in output.args[0] if each.op != "placeholder"]
            self.shapes = [tuple(each.meta["val"].shape) for each in returned]
        return super().compile_graph(device, graphs, kind, graph, inputs)


@pytest.mark.parametrize("device", [EXECUTOR, LLVM])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_nothing_as_large_as_the_logits_is_kept(dtype, device):
    given = torch.randn(ROWS, CLASSES).mul(4).to(dtype)
    given[0, 3] = 1e4 if dtype is torch.float32 else 100.0
    labels = torch.arange(ROWS) * 7
    labels[2] = -100
    found = {}
    compiler = Kept(Settings(device=device, target="sm_90"))
    for name in ("eager", "ours", "exact"):
        logits = (given.double() if name == "exact" else given.clone()).requires_grad_()
        run = torch.compile(loss, backend=compiler) if name == "ours" else loss
        result = run(logits, labels)
        result.backward()
        found[name] = torch.cat([result.detach().view(1), logits.grad.flatten()]).double()
    assert (ROWS, CLASSES) not in compiler.shapes
    assert (ROWS, 1) in compiler.shapes
    off = {name: (found[name] - found["exact"]).norm() for name in ("eager", "ours")}
    assert off["ours"] <= 1.2 * off["eager"] + 1e-6 * found["exact"].norm()
    assert not [part.failure for part in compiler.log.report().parts if part.failure]


def test_probabilities_that_are_asked_for_are_returned():
    logits = torch.randn(ROWS, CLASSES, requires_grad=True)
    function = torch.compile(
        lambda x: functional.log_softmax(x, -1), backend=Kept(Settings(device=LLVM))
    )
    torch.testing.assert_close(function(logits), functional.log_softmax(logits, -1))


class Bottleneck(nn.Module):
    """ResNet-50's block: channels fewer for a convolution of 3 x 3, a shortcut beside it."""

    def __init__(self, given, inner, step):
        super().__init__()
        made = 4 * inner
        self.along = nn.Sequential(
            nn.Conv2d(given, inner, 1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU(inplace=True),
            nn.Conv2d(inner, inner, 3, step, 1, bias=False),
            nn.BatchNorm2d(inner),
            nn.ReLU(inplace=True),
            nn.Conv2d(inner, made, 1, bias=False),
            nn.BatchNorm2d(made),
        )
        self.beside = nn.Sequential(
            nn.Conv2d(given, made, 1, step, bias=False), nn.BatchNorm2d(made)
        )

    def forward(self, x):
        return functional.relu(self.along(x) + self.beside(x), inplace=True)


def small_resnet():
    """ResNet-50's kinds of layers: its stem, a block of step 1 and one of step 2, its head."""
    stem = nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True)
    blocks = Bottleneck(8, 4, 1), Bottleneck(16, 8, 2)
    head = nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(32, 10)
    return nn.Sequential(*stem, nn.MaxPool2d(3, 2, 1), *blocks, *head)


def losses(model, run, images, labels):
    """The losses of a training by SGD: Adam's steps are as large where a gradient is rounding."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    found = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        result = functional.cross_entropy(run(images), labels)
        result.backward()
        optimizer.step()
        found.append(result.detach().double())
    return torch.stack(found)


@pytest.mark.slow
def test_a_resnets_losses_follow_eagers_for_20_steps():
    """Its convolutions are PyTorch's; the norms, sums and their gradients are stitched kernels."""
    model = small_resnet()
    images, labels = torch.randn(4, 3, 32, 32), torch.tensor([1, 7, 3, 0])
    doubles, singles = copy.deepcopy(model).double(), copy.deepcopy(model)
    exact = losses(doubles, doubles, images.double(), labels)
    eager = losses(singles, singles, images, labels)
    compiler = GraphCompiler(Settings(device=EXECUTOR, target="sm_90"))
    ours = losses(model, torch.compile(model, backend=compiler), images, labels)
    assert exact[-1] < exact[0] / 4
    off, eager_off = ((each - exact).abs().max() for each in (ours, eager))
    assert off <= 2 * eager_off + 1e-6
    for name, buffer in model.named_buffers():
        torch.testing.assert_close(buffer, singles.get_buffer(name), rtol=1e-5, atol=2e-6)
    report = compiler.log.report()
    assert not [part.failure for part in report.parts if part.failure]
    assert {part.graph.split()[0] for part in report.parts} == {"forward", "backward"}
    assert any("convolution_backward" in each.operator for each in report.left)
