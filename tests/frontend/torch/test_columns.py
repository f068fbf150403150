"""Windows as columns, and images of columns: one kernel each, whatever their steps and gaps."""

import pytest

torch = pytest.importorskip("torch")

from torch_programs import check, traced  # noqa: E402

import tvm_stitch  # noqa: E402
from tvm_stitch.errors import TorchError  # noqa: E402
from tvm_stitch.frontend.torch import convert  # noqa: E402

functional = torch.nn.functional

# Kernel, dilation, padding, stride: without and with what no window has, at the end and in between.
WINDOWS = [
    (3, 1, 1, 1), (3, 1, 1, 2), (2, 1, 0, 3), (1, 1, 0, 1), ((3, 2), (1, 3), (0, 2), (2, 1)),
    (3, 2, 2, 1), (3, 2, 1, 4), (2, 6, 3, 4), ((3, 4), (3, 2), (2, 3), (2, 3)), (5, 1, 4, 1),
]  # fmt: skip


def both(how):
    """A window in Python's numbers, by name."""
    names = ("kernel_size", "dilation", "padding", "stride")
    pairs = ([n, n] if isinstance(n, int) else list(n) for n in how)
    return dict(zip(names, pairs, strict=True))


def image(*shape):
    torch.manual_seed(0)
    return torch.randn(shape)


@pytest.mark.spread(3)
@pytest.mark.parametrize("how", WINDOWS, ids=str)
def test_both_ways(how):
    x, how = image(2, 3, 9, 11), both(how)

    def columns(x):
        return functional.unfold(x, **how)

    def sums(columns):
        return functional.fold(columns, (9, 11), **how)

    check(lambda x: (columns(x), columns(x[0])), x)
    check(lambda c: (sums(c), sums(c[1])), torch.randn_like(columns(x)))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_rounded_once(dtype):
    how = {"kernel_size": 3, "padding": 1}

    def twice(x):
        columns = functional.unfold(x.relu(), **how)
        return columns, functional.fold(columns * 2, (5, 7), **how)

    check(twice, image(2, 3, 5, 7).to(dtype))


def test_channels_that_lie_last():
    x = image(2, 3, 5, 7).to(memory_format=torch.channels_last)
    check(lambda x: functional.unfold(x * 2, 2), x)


def test_no_number_is_made_of_what_is_none():
    """Elements around an image are 0, whatever is at its edge."""
    x = torch.full((1, 1, 3, 3), float("inf"))
    x[0, 0, 0, 0] = float("nan")
    check(lambda x: functional.unfold(x, 3, padding=2), x)
    columns = functional.unfold(x, 3, padding=2)
    check(lambda c: functional.fold(c, 3, 3, padding=2), columns)


def test_a_pixel_in_many_windows_is_pytorchs():
    columns = functional.unfold(image(1, 1, 9, 9), 6)
    with pytest.raises(TorchError, match="more than 27"):
        convert(traced(lambda c: functional.fold(c, 9, 6), columns).graph)


@pytest.mark.parametrize("dim, size, step", [(-1, 3, 2), (1, 2, 3), (0, 5, 1), (2, 1, 1)])
def test_gradients_of_windows_along_a_dimension(dim, size, step):
    x = image(5, 6, 7)

    def gradient(given):
        return torch.ops.aten.unfold_backward(given, x.shape, dim, size, step)

    given = torch.randn_like(x.unfold(dim, size, step))
    check(gradient, given)
    check(gradient, given.bfloat16())


@pytest.mark.parametrize("how", [{}, {"stride": 2}, {"dilation": 2, "stride": 2}])
def test_launches(how):
    torch._dynamo.reset()
    x = image(2, 16, 16, 16).bfloat16().requires_grad_()

    def columns(x):
        return functional.unfold(x, 3, padding=1, **how)

    report = tvm_stitch.torch.explain(columns, x, target="sm_90")
    assert [len(part.kernels.kernels) for part in report.parts] == [1, 1]
    assert not report.left
