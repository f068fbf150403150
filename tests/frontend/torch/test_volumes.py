"""Windows over volumes, with channels behind the batch and innermost, become Relax."""

import pytest

torch = pytest.importorskip("torch")

from torch_programs import check, traced  # noqa: E402

from tvm_stitch.errors import TorchError  # noqa: E402
from tvm_stitch.frontend.torch import convert  # noqa: E402

functional = torch.nn.functional
NAN, INF = float("nan"), float("inf")
aten = torch.ops.aten


def volume(*shape, last=False):
    torch.manual_seed(len(shape))
    made = torch.randn(shape)
    return made.to(memory_format=torch.channels_last_3d) if last else made


def triples(*how):
    return [[each] * 3 if isinstance(each, int) else list(each) for each in how]


# Size, stride, padding: those of S3D, and others.
WINDOWS = [
    ((1, 3, 3), (1, 2, 2), (0, 1, 1)),
    (3, 2, 1),
    (2, 2, 0),
    (3, 1, 1),
    ((3, 2, 1), (2, 1, 3), (1, 1, 0)),
]


LARGEST = [*((*how, 1) for how in WINDOWS), (2, 1, 0, (1, 2, 2))]


@pytest.mark.spread(2)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize(
    "how", [pytest.param(how, marks=pytest.mark.slow if how[0] == 3 else ()) for how in LARGEST]
)
def test_largest_of_windows(how, ceil, last):
    def largest(x):
        return functional.max_pool3d(x, *how, ceil, return_indices=True)

    x = volume(2, 3, 5, 9, 7, last=last)
    x[0, 1, 2, 3, 4], x[1, 1, 0, 0, 0] = NAN, INF
    if not last:  # on the CPU, PyTorch then names elements of the first plane
        x[1, 2] = -INF
    found = check(largest, x)
    assert "permute_dims" not in found.module.script()
    check(largest, x.to(torch.bfloat16))
    check(largest, x[0])


@pytest.mark.spread(3)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("counted", [(False, None), (True, None), (True, 5)])
@pytest.mark.parametrize("how", [*((*how, False) for how in WINDOWS), (3, 2, 1, True)])
def test_mean_of_windows(how, counted, last):
    """PyTorch has none of halves on the CPU."""
    x = volume(2, 3, 5, 9, 8, last=last)
    x[0, 1, 2, 3, 4] = NAN
    for each in (x, x[0]):
        check(lambda x: functional.avg_pool3d(x, *how, *counted), each)


@pytest.mark.spread(2)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("size", [(2, 3, 4), (5, 9, 8), (5, 4, 8), (7, 5, 5)])
def test_shares_of_volumes(size, last):
    x = volume(2, 3, 5, 9, 8, last=last)
    given = volume(2, 3, *size, last=last)
    check(lambda x: aten._adaptive_avg_pool3d(x, size), x)
    check(aten._adaptive_avg_pool3d_backward, given, x)
    check(lambda x: functional.adaptive_avg_pool3d(x, size), x[0])


@pytest.mark.spread(2)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("how", WINDOWS)
def test_gradients_of_the_largest(how, ceil, last):
    how = *triples(*how, 1), ceil
    x = volume(2, 3, 5, 6, 7, last=last).round()  # some are equal
    x[1, 1, 4, 3, 2] = NAN
    y, places = functional.max_pool3d(x, *how, return_indices=True)

    def gradient(given, x, places):
        return aten.max_pool3d_with_indices_backward(given, x, *how, places)

    given = torch.randn_like(y)
    check(gradient, given, x, places)
    check(gradient, given[0], x[0], places[0])


@pytest.mark.spread(2)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("counted", [(False, None), (True, None), (True, 5)])
@pytest.mark.parametrize("how", WINDOWS)
def test_gradients_of_means(how, counted, last):
    x = volume(2, 3, 5, 6, 8, last=last)

    def gradient(given, x):
        return aten.avg_pool3d_backward(given, x, *triples(*how), False, *counted)

    given = torch.randn_like(functional.avg_pool3d(x, *how, False, *counted))
    check(gradient, given, x)
    check(gradient, given[0], x[0])


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_mean_of_a_whole_image_or_volume(last, dtype):
    """However large its window is."""
    x, size = volume(2, 3, 2, 7, 7, last=last), (2, 7, 7)
    check(lambda x: functional.avg_pool3d(x, size, 1), x)
    given = torch.randn(2, 3, 1, 1, 1)
    check(lambda g, x: aten.avg_pool3d_backward(g, x, size, [1], [0], False, True, None), given, x)
    image, given = x[:, :, 0].to(dtype), given[..., 0].to(dtype)
    check(lambda x: functional.avg_pool2d(x, 7), image)
    check(lambda g, x: aten.avg_pool2d_backward(g, x, [7], [], [0], True, True, None), given, image)
    check(lambda x: functional.avg_pool2d(x, 5, 1, divisor_override=3), image[..., :5, :5])


@pytest.mark.parametrize("pool", [functional.max_pool3d, functional.avg_pool3d])
def test_windows_that_are_too_large_are_pytorchs(pool):
    with pytest.raises(TorchError, match="more than 27"):
        convert(traced(lambda x: pool(x, (3, 3, 4)), volume(1, 2, 6, 6, 8)).graph)
