"""Under torch.compile, convolutions are cuDNN's, with channels last, inside of our parts."""

import pytest
from library_stand_in import stand_in

torch = pytest.importorskip("torch")

from training_steps import trained  # noqa: E402

from tvm_stitch import Options  # noqa: E402
from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.rewrites import in_order  # noqa: E402
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


class Strided(nn.Module):
    """A convolution in steps and a shortcut that leaves rows out, each with its norm."""

    def __init__(self, given, made):
        super().__init__()
        self.wide = nn.Conv2d(given, made, 3, 2, 1)
        self.short = nn.Conv2d(given, made, 1, 2, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(made) for _ in range(2))

    def forward(self, x):
        return (self.norms[0](self.wide(x)) + self.norms[1](self.short(x))).relu()


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


@pytest.mark.slow
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
def test_group_norms_read_channels_last():
    layers = [nn.Conv2d(4, 8, 3, padding=1), nn.GroupNorm(2, 8), nn.SiLU(), nn.Conv2d(8, 8, 3)]
    report, kernels = compiled(
        nn.Sequential(*layers).bfloat16(), torch.randn(2, 4, 9, 8).bfloat16()
    )
    assert len(report.parts) == 1 and not report.left
    assert len(kernels) == 3, kernels  # laid out, the norm, the result as eager's lies


@pytest.mark.slow
def test_a_batch_of_any_size():
    x = torch.randn(3, 3, 20, 16).bfloat16()
    torch._dynamo.mark_dynamic(x, 0)
    report, _ = compiled(network(nn.AdaptiveAvgPool2d(1)), x)
    assert not report.left and not any(part.failure for part in report.parts)


def volumes():
    torch.manual_seed(0)
    stem = nn.Conv3d(3, 8, 3, 2, 1), nn.BatchNorm3d(8), nn.ReLU()
    behind = nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1)), nn.Conv3d(8, 8, 3, 1, 1, groups=8)
    return nn.Sequential(*stem, *behind, nn.BatchNorm3d(8), nn.Conv3d(8, 4, 3)).eval().bfloat16()


@pytest.mark.slow
@pytest.mark.parametrize("last", [False, True])
def test_volumes_are_one_part_and_lie_with_channels_last(last):
    x = torch.randn(2, 3, 8, 18, 16).bfloat16()
    x = x.to(memory_format=torch.channels_last_3d) if last else x
    report, kernels = compiled(volumes(), x)
    assert len(report.parts) == 1 and not report.left and not report.parts[0].failure
    # Weights laid out, with the input if need be; the norm, windows, the depthwise one; the result.
    assert len(kernels) == (4 if last else 5), kernels


class Skipped(nn.Module):
    """Of a U-Net of volumes: down, up by a transposed convolution and by interpolation, joined."""

    def __init__(self):
        super().__init__()
        self.given, self.down = nn.Conv3d(3, 8, 3, padding=1), nn.Conv3d(8, 8, 3, 2, 1)
        self.norm, self.up = nn.GroupNorm(2, 8), nn.ConvTranspose3d(8, 4, 2, 2)
        self.last = nn.Conv3d(20, 4, 3, padding=1)

    def forward(self, x):
        h = nn.functional.silu(self.norm(self.given(x)))
        deep = self.down(h)
        wide = nn.functional.interpolate(deep, scale_factor=2, mode="nearest")
        return self.last(torch.cat([h, self.up(deep), wide], 1)) + 1


@pytest.mark.slow
@pytest.mark.parametrize("last", [False, True])
def test_volumes_that_are_joined(last):
    torch.manual_seed(0)
    x = torch.randn(2, 3, 4, 6, 10).bfloat16()
    x = x.to(memory_format=torch.channels_last_3d) if last else x
    report, kernels = compiled(Skipped().bfloat16(), x)
    assert len(report.parts) == 1 and not report.left and not report.parts[0].failure
    assert len(kernels) == 4, kernels  # laid out, the norm, what is joined, the result


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
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_step_of_training_is_two_parts(dtype):
    """Forward and backward, channels last in both: what one keeps, the other reads as it lies."""
    model = nn.Sequential(Strided(4, 8), Strided(8, 8), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    report = trained(model.to(dtype).train(), torch.randn(3, 4, 9, 8).to(dtype))
    assert [part.graph for part in report.parts] == ["forward 0", "backward 0"]
    assert not report.left and not any(part.failure for part in report.parts)


@pytest.mark.slow
def test_gradients_lie_as_parameters_do_with_channels_last():
    model = nn.Sequential(nn.Conv2d(4, 8, 1), nn.ReLU(), nn.Conv2d(8, 8, 3)).bfloat16()
    x = torch.randn(3, 4, 9, 8).bfloat16().to(memory_format=torch.channels_last)
    assert len(trained(model.to(memory_format=torch.channels_last), x).parts) == 2


@pytest.mark.slow
def test_in_training_those_of_groups_are_pytorchs():
    depthwise = nn.Sequential(nn.Conv2d(4, 4, 3, groups=4), nn.ReLU()).bfloat16()
    # A filter has one channel, whose stride PyTorch's gradient has as this CPU's kernel likes.
    report = trained(depthwise, torch.randn(2, 4, 8, 8).bfloat16(), alike=False)
    assert [each.operator for each in report.left] == ["convolution_backward"]
    # The bias's gradient is a sum, beside whatever is computed of the images' gradient.
    assert any("sum.dim_IntList" in part.operators for part in report.parts)


@pytest.mark.slow
@pytest.mark.parametrize("allowed", [True, False])
def test_in_training_those_of_float32_are_ours_by_tf32(monkeypatch, allowed):
    monkeypatch.setattr(torch._C, "_get_cudnn_allow_tf32", lambda: allowed)
    report = trained(nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU()), torch.randn(2, 4, 8, 8))
    pytorchs = set() if allowed else {"convolution", "convolution_backward"}
    assert {each.operator for each in report.left} == pytorchs


class Inverted(nn.Module):
    """Of a MobileNet: a depthwise convolution between two that mix channels."""

    def __init__(self, channels, size):
        super().__init__()
        wide = 2 * channels
        self.wide = nn.Conv2d(channels, wide, 1, bias=False)
        self.deep = nn.Conv2d(wide, wide, size, padding=size // 2, groups=wide, bias=False)
        self.norms = nn.ModuleList(nn.BatchNorm2d(wide) for _ in range(2))
        self.narrow = nn.Conv2d(wide, channels, 1, bias=False)

    def forward(self, x):
        y = nn.functional.relu6(self.norms[0](self.wide(x)))
        return x + self.narrow(nn.functional.relu6(self.norms[1](self.deep(y))))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.slow
def test_depthwise_ones_are_a_kernel_with_their_norm(dtype, size):
    torch.manual_seed(0)
    model = Inverted(4, size).eval().to(dtype)
    report, launched = compiled(model, torch.randn(2, 4, 9, 8, dtype=dtype))
    assert not report.left and not any(part.failure for part in report.parts)
    # Laid out, both norms with the convolution between them, in one kernel or two, and the sum.
    assert len(launched) <= 4, launched


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_depthwise_ones_need_no_library(dtype):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv1d(6, 6, 4, padding=3, groups=6), nn.SiLU()).to(dtype)
    ours = GraphCompiler(Settings(device=LLVM))
    x = torch.randn(2, 6, 31, dtype=dtype)
    with torch.no_grad():
        found, expected = torch.compile(model, backend=ours)(x), model(x)
        exact = model.double()(x.double())
    # This CPU's kernel rounds once, behind the bias; of all elements: the largest is chance.
    assert (found - exact).norm() <= 2 * (expected - exact).norm() + 1e-6
    report = ours.log.report()
    assert not report.left and "convolution" in report.parts[0].operators


class ChannelAttention(nn.Module):
    """ECA: channels weighted by a convolution along them of their means."""

    def __init__(self):
        super().__init__()
        self.along = nn.Conv1d(1, 1, 5, padding=2, bias=False)

    def forward(self, x):
        weights = self.along(x.mean((2, 3)).unsqueeze(1)).sigmoid()
        return x * weights.reshape(*x.shape[:2], 1, 1)


class PlaceAttention(nn.Module):
    """CBAM's: places weighted by a convolution of their channels' mean and largest."""

    def __init__(self):
        super().__init__()
        self.around = nn.Conv2d(2, 1, 7, padding=3, bias=False)

    def forward(self, x):
        seen = torch.cat([x.mean(1, keepdim=True), x.amax(1, keepdim=True)], 1)
        return x * self.around(seen).sigmoid()


@pytest.mark.slow
@pytest.mark.parametrize("model", [ChannelAttention, PlaceAttention])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_attention_of_channels_and_of_places_asks_no_library(model, layout):
    torch.manual_seed(0)
    x = torch.randn(3, 16, 9, 8, dtype=torch.bfloat16).to(memory_format=layout)
    report, launched = compiled(model().eval().bfloat16(), x)
    assert not report.left and not any(part.failure for part in report.parts)
    assert all("stitched" in name for name in launched) and len(launched) <= 3, launched


@pytest.mark.parametrize("asked", (False, True))
def test_pytorchs_flag_has_engines_timed(asked):
    for own in (False, True):
        settings = Settings(device=EXECUTOR, stitching=Options(timed_convolutions=own))
        with torch.backends.cudnn.flags(enabled=True, benchmark=asked):
            ours = GraphCompiler(settings)
        assert ours.settings.stitching.timed_convolutions == (asked or own)


def test_products_that_are_to_be_split_are_not_rounded(monkeypatch):
    monkeypatch.setattr(torch._C, "_get_cudnn_allow_tf32", lambda: True)
    monkeypatch.setattr(torch, "get_float32_matmul_precision", lambda: "high")
    own = Settings(device=EXECUTOR, stitching=Options(tf32x3_products=True))
    asked = GraphCompiler(own).settings.stitching
    assert asked.tf32x3_products and not asked.tf32_products


def test_what_may_be_tf32_is_ours_where_pytorch_says_so(monkeypatch):
    def products(precision):
        monkeypatch.setattr(torch, "get_float32_matmul_precision", precision)
        by_tf32 = GraphCompiler(Settings(device=EXECUTOR)).settings.stitching.tf32_products
        return torch.float32 in Libraries.of(Settings(device=EXECUTOR)).products, by_tf32

    def mixed():
        raise RuntimeError("PyTorch is checking the matmul precision without a backend's name")

    monkeypatch.setattr(torch._C, "_get_cudnn_allow_tf32", lambda: True)
    assert products(lambda: "highest") == (True, False)
    assert products(lambda: "high") == products(lambda: "medium") == (True, True)
    assert products(mixed) == (False, False)
    monkeypatch.setattr(torch._C, "_get_cudnn_allow_tf32", lambda: False)
    assert products(lambda: "highest") == (True, False)
    # A convolution that becomes a product would be rounded, too.
    assert products(lambda: "high") == (False, False)
    for allowed in (True, False):
        monkeypatch.setattr(torch._C, "_get_cudnn_allow_tf32", lambda: allowed)  # noqa: B023
        assert torch.float32 in Libraries.of(Settings(device=EXECUTOR)).convolutions
        ours = GraphCompiler(Settings(device=EXECUTOR))
        assert ours.settings.stitching.tf32_convolutions == allowed
    monkeypatch.setattr(torch._C, "_get_cudnn_allow_tf32", mixed)
    found = Libraries.of(Settings(device=EXECUTOR)).convolutions
    assert torch.float32 not in found and torch.float16 in found


def test_people_are_told_of_weights_that_each_call_lays_out(monkeypatch):
    monkeypatch.setattr(in_order, "LEAST_NOTED", 1)
    image, told = torch.randn(2, 3, 20, 16).bfloat16(), "to(memory_format=torch.channels_last)"
    report, _ = compiled(network(), image)
    assert [note for note in report.notes if told in note] and told in str(report)
    report, _ = compiled(network().to(memory_format=torch.channels_last), image)
    assert not any(told in note for note in report.notes)
