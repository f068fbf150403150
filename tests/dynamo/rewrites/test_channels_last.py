"""In training, convolutions of signals and volumes are cuDNN's as those of images are."""

from itertools import pairwise

import pytest
from library_stand_in import stand_in

torch = pytest.importorskip("torch")

from training_steps import trained  # noqa: E402

from tvm_stitch.dynamo.rewrites import in_order  # noqa: E402
from tvm_stitch.dynamo.rewrites.channels_last import with_channels_last  # noqa: E402
from tvm_stitch.frontend.torch.decompositions import training_decompositions  # noqa: E402
from tvm_stitch.library import locate  # noqa: E402

nn = torch.nn
_aten = torch.ops.aten
CONVOLUTIONS = (_aten.convolution.default, _aten.convolution_backward.default)
_NORMED = _aten._weight_norm_interface_backward.default
EXACT = 1e-5
# Of dimensions of 1, as of the kernels here, strides differ from eager's: nothing lies elsewhere.


@pytest.fixture(autouse=True)
def _library(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr(torch._C, "_get_cudnn_allow_tf32", lambda: True)
    with stand_in(monkeypatch, locate.CUDNN):
        yield


@pytest.fixture
def laid(monkeypatch):
    """Joint graphs after they were laid out."""
    seen = []

    def kept(graph, *how):
        seen.append(with_channels_last(graph, *how))
        return seen[-1]

    monkeypatch.setattr(in_order, "with_channels_last", kept)
    return seen


def ranks(graph):
    """The dimensions of the weights of each convolution and of each gradient."""
    return [
        node.args[-8 if node.target is CONVOLUTIONS[0] else -10].meta["val"].dim()
        for node in graph.nodes
        if node.target in CONVOLUTIONS
    ]


def copies(graph):
    """What is laid out: the shapes of tensors that are copied."""
    return [
        tuple(node.meta["val"].shape) for node in graph.nodes if node.target is _aten.clone.default
    ]


# Kernel, stride, padding, dilation; windows with gaps, and with rows behind the last of them.
WINDOWS = [(3, 1, 1, 1), (4, 3, 2, 1), (3, 2, 0, 2), (1, 1, 0, 1), (1, 2, 0, 1), (2, 1, 0, 4)]


@pytest.mark.spread(2)
@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=pytest.mark.slow if how[3] == 4 else ()) for how in WINDOWS]
)
@pytest.mark.parametrize("channels", [(6, 10, 5), (1, 7, 1)])
def test_signals(laid, how, channels):
    kernel, stride, padding, dilation = how
    layers = [
        nn.Conv1d(given, made, kernel, stride, padding, dilation)
        for given, made in pairwise(channels)
    ]
    report = trained(
        nn.Sequential(layers[0], nn.Tanh(), layers[1]),
        torch.randn(3, channels[0], 47),
        alike=False,
        tolerance=EXACT,
    )
    assert len(report.parts) == 2 and not report.left
    assert not any(part.failure for part in report.parts)
    assert ranks(laid[0]) == [4] * 4


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_signals_of_halves_and_their_padding(laid, dtype):
    """A layer of a WaveNet: a causal convolution whose channels are halved."""

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.wide, self.narrow = nn.Conv1d(8, 16, 2, dilation=3), nn.Conv1d(8, 8, 1)

        def forward(self, x):
            value, gate = self.wide(nn.functional.pad(x, (3, 0))).chunk(2, 1)
            return x + self.narrow(value.tanh() * gate.sigmoid())

    model = nn.Sequential(nn.Conv1d(1, 8, 1), Layer(), Layer()).to(dtype)
    report = trained(model, torch.randn(2, 1, 21).to(dtype), alike=False)
    assert len(report.parts) == 2 and not report.left
    assert not any(part.failure for part in report.parts)
    assert set(ranks(laid[0])) == {4}


@pytest.mark.slow
def test_nothing_is_moved_between_convolutions_of_signals(laid):
    def layer():
        return nn.Conv1d(6, 6, 3, padding=1, bias=False), nn.BatchNorm1d(6), nn.ReLU()

    model = nn.Sequential(*layer(), *layer(), *layer())
    trained(model, torch.randn(2, 6, 19), alike=False, tolerance=1e-4)
    # What comes in and leaves, forward and backward; the weights, and their gradients.
    images = [shape for shape in copies(laid[0]) if shape[0] == 2]
    assert images == [(2, 6, 1, 19), (2, 6, 19), (2, 6, 19)], copies(laid[0])
    assert len(copies(laid[0])) == len(images) + 6


@pytest.mark.slow
@pytest.mark.parametrize("how", [(3, 2, 1, 1), (4, 2, 1, 0), (2, 2, 0, 0), (3, 1, 0, 0)])
def test_transposed_signals(laid, how):
    kernel, stride, padding, more = how
    enlarged = nn.ConvTranspose1d(6, 5, kernel, stride, padding, more)
    report = trained(
        nn.Sequential(enlarged, nn.Tanh(), nn.Conv1d(5, 3, 3)),
        torch.randn(2, 6, 13),
        alike=False,
        tolerance=EXACT,
    )
    assert len(report.parts) == 2 and not report.left and set(ranks(laid[0])) == {4}


@pytest.mark.parametrize("groups", [2, 6])
def test_signals_in_groups_stay_as_they_are(laid, groups):
    model = nn.Sequential(nn.Conv1d(6, 6, 3, groups=groups), nn.Tanh())
    report = trained(model, torch.randn(2, 6, 17), alike=False, tolerance=EXACT)
    assert ranks(laid[0]) == [3, 3]
    assert "convolution_backward" in {each.operator for each in report.left}


@pytest.mark.spread(2)
@pytest.mark.parametrize("how", WINDOWS)
@pytest.mark.parametrize("channels", [(4, 6, 3), (1, 5, 1)])
def test_volumes(how, channels):
    kernel, stride, padding, dilation = how
    layers = [
        nn.Conv3d(given, made, kernel, stride, padding, dilation)
        for given, made in pairwise(channels)
    ]
    size = (9, 11, 10) if (kernel - 1) * dilation < 3 else (13, 15, 14)
    x = torch.randn(2, channels[0], *size)
    report = trained(
        nn.Sequential(layers[0], nn.Tanh(), layers[1]), x, alike=False, tolerance=EXACT
    )
    assert len(report.parts) == 2 and not report.left
    assert not any(part.failure for part in report.parts)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [nn.Conv1d, nn.Conv2d])
def test_what_reads_memory_from_its_start_is_given_what_was_traced(laid, kind, monkeypatch):
    """PyTorch's gradient of a weight norm goes through that of the weights as if they lay so.

    Of all such operators it is the one that is easily met; ours would be written out.
    """
    monkeypatch.delitem(training_decompositions(), _NORMED)
    norm = torch.nn.utils.parametrizations.weight_norm
    convolutions = [norm(kind(6, 8, 3)), nn.ReLU(), norm(kind(8, 6, 3), dim=1)]
    shape = (4, 6, 13) if kind is nn.Conv1d else (4, 6, 9, 8)
    trained(nn.Sequential(*convolutions), torch.randn(shape), alike=False, tolerance=EXACT)
    (graph,) = laid
    found = graph.find_nodes(op="call_function", target=_NORMED)
    assert found and all(node.args[0].meta["val"].is_contiguous() for node in found)


@pytest.mark.slow
def test_a_transposed_volume_beside_a_skip():
    class Up(nn.Module):
        def __init__(self):
            super().__init__()
            self.down, self.up = nn.Conv3d(4, 6, 2, 2), nn.ConvTranspose3d(6, 4, 2, 2)
            self.norm, self.last = nn.InstanceNorm3d(8, affine=True), nn.Conv3d(8, 3, 1)

        def forward(self, x):
            return self.last(self.norm(torch.cat([self.up(self.down(x).relu()), x], 1)))

    report = trained(Up(), torch.randn(2, 4, 4, 6, 8), alike=False, tolerance=1e-4)
    assert len(report.parts) == 2 and not report.left
    assert not any(part.failure for part in report.parts)


@pytest.mark.parametrize("rank", [1, 3])
def test_without_leave_to_round_they_are_pytorchs(monkeypatch, rank):
    monkeypatch.setattr(torch._C, "_get_cudnn_allow_tf32", lambda: False)
    layer = {1: nn.Conv1d, 3: nn.Conv3d}[rank](4, 3, 3)
    report = trained(
        nn.Sequential(layer, nn.Tanh()),
        torch.randn(2, 4, *[7] * rank),
        alike=False,
        tolerance=EXACT,
    )
    assert {each.operator for each in report.left} == {"convolution", "convolution_backward"}


class Attended(nn.Module):
    """Of a diffusion model: what is computed of tokens is copied to planes, and normed as such."""

    def __init__(self):
        super().__init__()
        self.first, self.last = (nn.Conv2d(8, 8, 3, padding=1) for _ in range(2))
        self.mixed, self.norm = nn.Linear(8, 8), nn.GroupNorm(4, 8)

    def forward(self, x):
        images = self.first(x)
        tokens = self.mixed(images.permute(0, 2, 3, 1).flatten(1, 2))
        planes = tokens.reshape(*images.shape[:1], *images.shape[2:], 8).permute(0, 3, 1, 2)
        together = planes.contiguous() + images
        return self.last(self.norm(together.contiguous()).relu())


@pytest.mark.parametrize("last", [False, True])
def test_copies_to_planes_are_none_between_convolutions(laid, last):
    model = Attended()
    if last:
        model = model.to(memory_format=torch.channels_last)
    report = trained(model, torch.randn(2, 8, 5, 7), alike=False, tolerance=1e-4)
    assert len(report.parts) == 2 and not report.left
    (graph,) = laid
    results = {node for node in graph.output_node().all_input_nodes}
    planes = [
        node
        for node in graph.nodes
        if node.target is _aten.clone.default
        and node.meta["val"].dim() == 4
        and node.meta["val"].shape[0] == 2
        and node.meta["val"].is_contiguous()
        and node not in results
    ]
    assert not planes
