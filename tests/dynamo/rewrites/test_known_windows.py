"""Gradients of interpolations: sums at indices that are known when graphs are compiled."""

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import LLVM, Settings  # noqa: E402
from tvm_stitch.frontend.torch.windows import window_of  # noqa: E402

interpolate = torch.nn.functional.interpolate


def nearest(x):
    return interpolate(interpolate(x, scale_factor=2, mode="nearest").sigmoid(), size=(5, 3))


def bilinear(x):
    return interpolate(
        interpolate(x, scale_factor=2, mode="bilinear").tanh(), (9, 5), None, "bilinear"
    )


def corners(x):
    return interpolate(x, size=(7, 12), mode="bilinear", align_corners=True)


def gradient(function, x):
    x = x.detach().requires_grad_()
    y = function(x)
    (y * torch.arange(y.numel()).view(y.shape).cos().to(y.dtype)).sum().backward()
    return x.grad


@pytest.mark.slow
@pytest.mark.parametrize("function", [nearest, bilinear, corners])
def test_nothing_is_left_of_them(function):
    torch._dynamo.reset()
    torch.manual_seed(0)
    x, ours = torch.randn(2, 3, 5, 6), GraphCompiler(Settings(device=LLVM))
    found = gradient(torch.compile(function, backend=ours), x)
    torch.testing.assert_close(found, gradient(function, x.double()).float())
    report = ours.log.report()
    assert report.left == ()
    assert [part.failure for part in report.parts if part.failure] == []


@pytest.mark.slow
@pytest.mark.parametrize("size", [(2, 2), (5, 6), (11, 13), (4, 24)])
def test_of_every_ratio(size):
    def function(x):
        return interpolate(x, size, mode="bilinear") + interpolate(x, size, mode="nearest")

    test_nothing_is_left_of_them(function)


def test_what_an_index_is_known_to_be():
    index = torch.tensor([[0], [0], [1], [1], [2], [2]])
    window = window_of(index, 3)
    assert (window.dim, window.updates, window.extent) == (-2, 6, 3)
    for update, place in enumerate(index.flatten().tolist()):
        first = place * window.updates // window.extent + window.first
        assert first < update < first + window.length - 1  # another device may round
    for other in (index - 1, index + 1, index.expand(6, 2), index.bool(), index[:1]):
        assert window_of(other, 3) is None
    # What is sent anywhere has long windows, which converters refuse.
    assert window_of(torch.tensor([5, 0, 3, 1, 4, 2]), 6).length > 6
