"""Interpolations and their gradients: few kernels, and as near float64 as PyTorch's."""

import pytest

torch = pytest.importorskip("torch")

import tvm_stitch  # noqa: E402
from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402

functional = torch.nn.functional
EAGER = 1.5
"""Errors against float64, at most, in those of eager PyTorch."""


def step(function, x):
    """A result and the gradient of what is made of it."""
    x = x.detach().requires_grad_()
    y = function(x)
    weights = torch.arange(y.numel()).view(y.shape).cos().to(y.dtype)
    (y * weights).sum().backward()
    return y.detach(), x.grad


def agree(function, shape, dtype=torch.float32, device=LLVM, last=False, dynamic=None):
    """All is ours, and as exact as PyTorch's; how many parts there are."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    ours = GraphCompiler(Settings(device=device, target="sm_90" if device == EXECUTOR else None))
    x = torch.randn(shape).to(dtype)
    x = x.to(memory_format=torch.channels_last) if last else x
    exact, eager = step(function, x.double()), step(function, x)
    found = step(torch.compile(function, backend=ours, dynamic=dynamic), x)
    for got, want, truth in zip(found, eager, exact, strict=True):
        assert (got.dtype, got.shape, got.stride()) == (want.dtype, want.shape, want.stride())
        allowed = EAGER * (want.double() - truth).norm() + 1e-6 * truth.norm()
        assert (got.double() - truth).norm() <= allowed
    report = ours.log.report()
    assert [part.failure for part in report.parts if part.failure] == []
    return report


def resized(**how):
    return lambda x: functional.interpolate(x, **how)


WAYS = {
    "nearest": ({"mode": "nearest"}, {"mode": "nearest-exact"}),
    "linear": ({"mode": "bilinear"}, {"mode": "bilinear", "align_corners": True}),
    "cubic": ({"mode": "bicubic"}, {"mode": "bicubic", "align_corners": True}),
}
SIZES = [
    {"scale_factor": 2}, {"size": (31, 7)}, {"size": (1, 33)}, {"scale_factor": (0.5, 1.7)},
    {"scale_factor": 5},
]  # fmt: skip


def test_of_a_typical_image():
    assert not agree(resized(scale_factor=2, mode="bilinear"), (2, 3, 7, 9)).left


@pytest.mark.slow
@pytest.mark.parametrize("size", SIZES, ids=str)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("shape", [(2, 3, 33, 1), (1, 2, 7, 31)])
def test_of_every_ratio(size, way, shape):
    for how in WAYS[way]:
        assert not agree(resized(**size, **how), shape).left


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("last", [False, True])
def test_halves_are_rounded_once(dtype, way, last):
    for how in WAYS[way]:
        function = resized(size=(9, 20), **how)
        assert not agree(lambda x: function(x * 2).relu(), (2, 16, 5, 7), dtype, last=last).left  # noqa: B023


@pytest.mark.slow
@pytest.mark.parametrize("last", [False, True])
def test_as_a_gpu_computes_them(last):
    def twice(x):
        enlarged = functional.interpolate(x.sigmoid(), scale_factor=2, mode="bilinear")
        return functional.interpolate(enlarged, size=(9, 5))

    assert not agree(twice, (2, 16, 4, 6), torch.bfloat16, EXECUTOR, last).left


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shape", "how"),
    [
        ((2, 3, 33), {"scale_factor": 1.5, "mode": "linear"}),
        ((2, 3, 33), {"size": 7}),
        ((1, 2, 3, 5, 4), {"scale_factor": 2, "mode": "trilinear"}),
        ((1, 2, 3, 5, 1), {"size": (7, 5, 3), "mode": "trilinear", "align_corners": True}),
        ((1, 2, 3, 5, 4), {"scale_factor": (1.5, 3, 1)}),
        ((1, 2, 1, 1), {"size": (12, 9), "mode": "bilinear"}),
        ((1, 2, 3, 2), {"scale_factor": 32, "mode": "bilinear"}),
    ],
)
def test_of_sequences_and_volumes_and_far(shape, how):
    assert not agree(resized(**how), shape).left


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize("factor", [2, 3, 7])
def test_elements_are_repeated_whatever_the_size(factor, mode, last):
    """In no numbers of float64, and the gradient adds nothing at indices."""

    def enlarged(x):
        return functional.interpolate(x[:, :, 1:], scale_factor=(factor, 2), mode=mode).tanh()

    assert not agree(enlarged, (2, 3, 6, 7), last=last, dynamic=True).left
    assert not agree(enlarged, (2, 3, 14, 9), torch.bfloat16, last=last, dynamic=True).left


@pytest.mark.slow
def test_sizes_that_change_are_written_out_by_pytorch():
    def double(x):
        return functional.interpolate(x, scale_factor=2, mode="bilinear").tanh()

    agree(double, (2, 3, 5, 7), dynamic=True)


def test_batches_that_change_are_ours():
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=LLVM))
    function = resized(scale_factor=2, mode="bilinear")
    compiled = torch.compile(function, backend=ours)
    for batch in (2, 3, 4):
        x = torch.randn(batch, 3, 4, 5)
        for got, want in zip(step(compiled, x), step(function, x), strict=True):
            torch.testing.assert_close(got, want)
    assert len(ours.log.graphs) == 4  # of the first batch, and of any
    assert not ours.log.report().left


@pytest.mark.parametrize(
    ("shape", "how", "launches"),
    [
        ((2, 16, 16, 16), {"mode": "bilinear"}, (1, 1)),
        ((2, 16, 16, 16), {"mode": "nearest"}, (1, 1)),
        ((8, 64, 64, 64), {"mode": "bicubic"}, (1, 2)),  # 64 loads an element, or 8 and 8
        ((2, 16, 16, 32, 32), {"mode": "trilinear"}, (1, 2)),
    ],
)
def test_launches(shape, how, launches):
    torch._dynamo.reset()
    x = torch.randn(shape).bfloat16().requires_grad_()
    report = tvm_stitch.torch.explain(resized(scale_factor=2, **how), x, target="sm_90")
    assert tuple(len(part.kernels.kernels) for part in report.parts) == launches
