"""Biases of convolutions that stay PyTorch's are additions of ours, where what follows is."""

import copy

import pytest

torch = pytest.importorskip("torch")

from training_steps import trained  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.rewrites import in_order  # noqa: E402
from tvm_stitch.dynamo.rewrites.biases import CONVOLUTION, with_biases_apart  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402
from tvm_stitch.library import locate  # noqa: E402

nn = torch.nn


@pytest.fixture(autouse=True)
def _no_library(monkeypatch):
    torch.manual_seed(0)
    torch._dynamo.reset()
    monkeypatch.setenv(locate.FOLDER, locate.OFF)


@pytest.fixture
def kept(monkeypatch):
    """Whether each convolution has its bias still."""
    seen = []

    def apart(graph, is_ours):
        with_biases_apart(graph, is_ours)
        seen.extend(
            node.args[2] is not None
            for node in graph.find_nodes(op="call_function", target=CONVOLUTION)
        )

    monkeypatch.setattr(in_order, "with_biases_apart", apart)
    return seen


def infer(model, *inputs, device=EXECUTOR):
    """The report; the result is float64's, and lies as eager's does."""
    ours = GraphCompiler(Settings(device=device, target="sm_90"))
    with torch.no_grad():
        found = torch.compile(model, backend=ours)(*inputs)
        exact = copy.deepcopy(model).double()(*(x.double() for x in inputs))
        torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-5)
        assert found.stride() == model(*inputs).stride()
    return ours.log.report()


class Sine(nn.Module):
    """Its gradient is of what it is given, and adds nothing."""

    def forward(self, x):
        return x.sin()


LAYERS = [
    (nn.Conv1d(4, 6, 3), (2, 4, 17)),
    (nn.Conv2d(4, 6, 3, 2, groups=2), (3, 4, 9, 7)),
    (nn.Conv3d(4, 5, 2), (2, 4, 5, 4, 7)),
    (nn.ConvTranspose1d(4, 6, 3, 2), (2, 4, 9)),
    (nn.ConvTranspose2d(4, 6, 3, 2, groups=2), (2, 4, 5, 7)),
]


@pytest.mark.spread(2)
@pytest.mark.parametrize(("layer", "shape"), LAYERS)
def test_what_follows_adds_it(kept, layer, shape):
    model = nn.Sequential(copy.deepcopy(layer), Sine())
    report = infer(model, torch.randn(shape))
    assert kept == [False] and "add.Tensor" in report.parts[0].operators
    kept.clear()
    report = trained(model, torch.randn(shape), alike=False, tolerance=1e-5)
    assert kept == [False] and "add.Tensor" in report.parts[0].operators
    # What forward keeps is the convolution's result, of which backward adds its bias again.
    backward = [part.operators for part in report.parts if part.graph.startswith("backward")]
    assert any("add.Tensor" in operators for operators in backward)


def test_images_with_channels_last_stay_so(kept):
    x = torch.randn(2, 4, 9, 7).to(memory_format=torch.channels_last)
    model = nn.Sequential(nn.Conv2d(4, 6, 3), nn.Unflatten(1, (2, 3)), nn.Sigmoid())
    infer(model, x)
    assert kept == [False]


class Alone(nn.Module):
    """Nothing of ours reads what is convolved."""

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(4, 6, 3), nn.Conv2d(6, 3, 1))

    def forward(self, x):
        return self.layers(x.exp())


def test_where_nothing_of_ours_follows_it_stays(kept):
    infer(Alone(), torch.randn(2, 4, 9, 7))
    assert kept == [True, True]


def test_where_kernels_add_it_themselves_it_stays(kept, monkeypatch):
    # Those of filters of one channel each, which are ours where they are of few taps.
    infer(nn.Sequential(nn.Conv2d(4, 4, 7, groups=4), nn.GELU()), torch.randn(2, 4, 9, 8))
    assert kept == [True]
    infer(nn.Sequential(nn.Conv2d(4, 6, 3), nn.GELU()), torch.randn(2, 4, 9, 7), device=LLVM)
    assert kept == [True]  # not asked at all


def test_of_float64_nothing_is_ours(kept):
    infer(nn.Sequential(nn.Conv2d(4, 6, 3), nn.GELU()).double(), torch.randn(2, 4, 9, 7).double())
    assert kept == [True]
