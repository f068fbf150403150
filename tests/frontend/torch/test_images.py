"""Convolutions and windows, with channels behind the batch and innermost, become Relax."""

import pytest

torch = pytest.importorskip("torch")

from torch_programs import check, traced  # noqa: E402

from tvm_stitch.errors import TorchError  # noqa: E402
from tvm_stitch.frontend.torch import convert  # noqa: E402

functional = torch.nn.functional
NAN, INF = float("nan"), float("inf")


def image(*shape, last=False):
    torch.manual_seed(len(shape))
    made = torch.randn(shape)
    return made.to(memory_format=torch.channels_last) if last else made


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("groups", [1, 2])
def test_convolutions(last, groups):
    def convolved(x, w, b):
        h = functional.conv2d(x, w, b, stride=(2, 1), padding=(1, 0), groups=groups)
        return functional.relu(h.relu() + 1)

    x, w = image(3, 4, 9, 7, last=last), image(6, 4 // groups, 3, 3, last=last)
    found = check(convolved, x, w, torch.randn(6))
    assert ('"NHWC"' in found.module.script()) == last
    assert "permute_dims" not in found.module.script()


@pytest.mark.parametrize("last", [False, True])
def test_transposed(last):
    def convolved(x, w, b):
        return functional.conv_transpose2d(x, w, b, stride=2, padding=1, output_padding=1)

    check(convolved, image(2, 4, 5, 3, last=last), image(4, 6, 3, 3), torch.randn(6))


def test_of_one_dimension():
    check(lambda x, w: functional.conv1d(x, w, padding=1), image(2, 4, 9), image(6, 4, 3))


@pytest.mark.slow
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    "how",
    [(3, 2, 1), ((3, 2), 2, 1, 1, True), (2,), (2, 1, 0, 2), (5, 3, 2)],
)  # fmt: skip
def test_largest_of_windows(last, how):
    def largest(x):
        return functional.max_pool2d(x, *how, return_indices=True)

    x = image(2, 3, 9, 7, last=last)
    x[0, 1, 2, 3], x[1, 2], x[1, 1, 0, 0] = NAN, -INF, INF
    check(largest, x)
    check(largest, x.to(torch.bfloat16))
    check(largest, x[0])


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    "how",
    [
        (2,),
        (3, 2, 1),
        (3, 2, 1, False, False),
        ((2, 3), (2, 1), (1, 0), True),
        (3, 2, 1, True, False),
        (3, 3, 1, True, True, 5),
    ],
)
def test_mean_of_windows(last, how):
    x = image(2, 3, 9, 8, last=last)
    x[0, 1, 2, 3] = NAN
    check(lambda x: functional.avg_pool2d(x, *how), x)
    check(lambda x: functional.avg_pool2d(x, *how), x.to(torch.bfloat16))
    check(lambda x: functional.avg_pool2d(x, *how), x[0])


def test_mean_of_windows_of_signals():
    check(lambda x: functional.avg_pool1d(x, 3, 2, 1), image(2, 3, 9))


@pytest.mark.parametrize("pool", [functional.max_pool2d, functional.avg_pool2d])
def test_windows_that_are_too_large_are_pytorchs(pool):
    with pytest.raises(TorchError, match="more than 25"):
        convert(traced(lambda x: pool(x, 6), image(1, 2, 12, 12)).graph)


def test_norms_and_means_stay_with_channels_last():
    """Nothing is moved between an image with channels last and what is computed of it."""

    def normed(x, w):
        y = functional.batch_norm(x, w, w.abs(), w, w).relu() * x
        return y, y.mean((-1, -2)), y.mean((2, 3), keepdim=True), y.amax(1)

    found = check(normed, image(2, 4, 5, 3, last=True), torch.rand(4) + 1)
    moved = [line for line in found.module.script().splitlines() if "R.permute_dims" in line]
    assert not [line for line in moved if "(1, " not in line and "1)" not in line], moved
