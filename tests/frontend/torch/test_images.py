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


# Kernel, stride, padding, dilation: without and with rows that no window reads, of the padding, of
# the images, of both.
WINDOWS = [
    (3, 1, 1, 1), (3, 2, 1, 1), (1, 1, 0, 1), (1, 2, 0, 1), (4, 4, 0, 1), (7, 2, 3, 1),
    ((3, 1), (2, 3), (1, 0), 1), (2, 3, 1, 1), (3, 2, (2, 0), 1),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("how", WINDOWS)
@pytest.mark.parametrize("size", [(9, 8), (8, 7)])
def test_gradients_of_convolutions(size, how, last):
    kernel, *numbers = ([n, n] if isinstance(n, int) else list(n) for n in how)
    x, w = image(2, 8, *size, last=last), image(6, 8, *kernel, last=last)
    gradient = torch.randn_like(functional.conv2d(x, w, None, *numbers))
    for asked in ([True, True, True], [False, True, False]):

        def gradients(g, x, w):
            how = [6], *numbers, False, [0, 0], 1, asked  # noqa: B023
            return [
                each
                for each in torch.ops.aten.convolution_backward(g, x, w, *how)
                if each is not None
            ]

        found = check(gradients, gradient, x, w)
        assert ('"CHWN"' in found.module.script()) == last


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("size", "weight", "stride", "groups"),
    [
        ((8, 12), (6, 3, 4, 4), 4, 1),
        ((11, 7), (5, 3, 3, 2), (3, 2), 1),  # the last rows and columns are in no window
        ((9,), (8, 2, 5), 5, 1),
        ((5, 7), (6, 4, 1, 1), 1, 2),
    ],
)
@pytest.mark.parametrize("asked", [[True] * 3, [False, True, False]])
def test_gradients_of_convolutions_that_are_products(size, weight, stride, groups, last, asked):
    last = last and len(size) == 2
    x, w = image(2, weight[1] * groups, *size, last=last), image(*weight, last=last)
    convolve = functional.conv1d if len(size) == 1 else functional.conv2d
    gradient = torch.randn_like(convolve(x, w, None, stride, groups=groups))
    steps = [stride] * len(size) if isinstance(stride, int) else list(stride)
    zeros, ones = [0] * len(size), [1] * len(size)

    def gradients(g, x, w):
        how = [weight[0]], steps, zeros, ones, False, zeros, groups, asked
        return [
            each for each in torch.ops.aten.convolution_backward(g, x, w, *how) if each is not None
        ]

    found = check(gradients, gradient, x, w).module.script()
    assert "matmul" in found and "conv" not in found


@pytest.mark.slow
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("how", [(3, 1, 1, 0), (2, 2, 0, 0), (4, 2, 1, 0), (3, 2, 1, 1)])
def test_gradients_of_transposed_convolutions(how, last):
    kernel, stride, pad, more = how
    x, w = image(2, 4, 5, 6, last=last), image(4, 6, kernel, kernel, last=last)
    numbers = [stride] * 2, [pad] * 2, [1, 1], True, [more] * 2, 1, [True] * 3
    y = functional.conv_transpose2d(x, w, None, stride, pad, more)

    def gradients(g, x, w):
        return torch.ops.aten.convolution_backward(g, x, w, [6], *numbers)

    check(gradients, torch.randn_like(y), x, w)


@pytest.mark.parametrize(("padding", "dilation"), [(16, 1), (0, 2)])
def test_gradients_of_long_windows_in_groups_are_left_where_these_have_margins_or_gaps(
    padding, dilation
):
    """The convolution is a product all the same."""
    x, w = image(2, 4, 70), image(6, 2, 32)
    how = [32], [padding], [dilation], False, [0], 2, [True] * 3

    def gradients(g, x, w):
        return torch.ops.aten.convolution_backward(g, x, w, [6], *how)

    y = functional.conv1d(x, w, None, 32, padding, dilation, groups=2)
    graph = traced(gradients, torch.randn_like(y), x, w).graph
    assert any("convolution_backward" in str(node.target) for node in graph.nodes)


def test_gradients_of_groups_are_left():
    def gradients(g, x, w):
        how = [4], [1, 1], [1, 1], [1, 1], False, [0, 0], 2, [True, True, False]
        return torch.ops.aten.convolution_backward(g, x, w, *how)[:2]

    with pytest.raises(TorchError, match="in groups"):
        convert(traced(gradients, image(2, 4, 5, 5), image(2, 4, 5, 5), image(4, 2, 3, 3)).graph)


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


POOLED = [(3, 2, 1), (2, 2, 0), ((3, 2), (2, 3), (1, 0)), (3, 1, 1), (5, 3, 2)]


def pairs(*how):
    return [[each, each] if isinstance(each, int) else list(each) for each in how]


@pytest.mark.spread(3)
@pytest.mark.parametrize("ceil", [False, True])
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("how", POOLED)
def test_gradients_of_the_largest(how, last, ceil):
    size, stride, padding = pairs(*how)
    x = image(2, 3, 9, 7, last=last).round()  # some are equal
    x[1, 1, 4, 3] = NAN
    y, places = functional.max_pool2d(x, size, stride, padding, 1, ceil, return_indices=True)

    def gradient(given, x, places):
        operator = torch.ops.aten.max_pool2d_with_indices_backward
        return operator(given, x, size, stride, padding, [1, 1], ceil, places)

    given = torch.randn_like(y)
    check(gradient, given, x, places)
    check(gradient, given.to(torch.bfloat16), x.to(torch.bfloat16), places)
    check(gradient, given[0], x[0], places[0])


@pytest.mark.spread(3)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("counted", [(False, None), (True, None), (True, 5)])
@pytest.mark.parametrize("how", [*((*how, False) for how in POOLED), (3, 2, 1, True)])
def test_gradients_of_means(how, counted, last):
    size, stride, padding = pairs(*how[:3])
    x = image(2, 3, 9, 8, last=last)

    def gradient(given, x):
        operator = torch.ops.aten.avg_pool2d_backward
        return operator(given, x, size, stride, padding, how[3], *counted)

    given = torch.randn_like(functional.avg_pool2d(x, *how, *counted))
    check(gradient, given, x)
    check(gradient, given.to(torch.bfloat16), x.to(torch.bfloat16))
    check(gradient, given[0], x[0])


@pytest.mark.spread(2)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("size", [(3, 4), (9, 8), (4, 3), (2, 5), (12, 11)])
def test_shares_of_planes(size, last):
    x = image(2, 3, 9, 8, last=last)
    given = torch.randn(2, 3, *size)
    given = given.to(memory_format=torch.channels_last) if last else given
    for dtype in (torch.float32, torch.bfloat16):
        check(lambda x: torch.ops.aten._adaptive_avg_pool2d(x, size), x.to(dtype))
        check(torch.ops.aten._adaptive_avg_pool2d_backward, given.to(dtype), x.to(dtype))
    check(lambda x: functional.adaptive_avg_pool2d(x, size), x[0])


@pytest.mark.parametrize("stride", [1, 2, (4, 3)])
def test_gradients_of_windows_with_gaps(stride):
    how = *pairs(3, stride, 1), [2, 2], False
    x = image(2, 2, 9, 7).round()
    y, places = functional.max_pool2d(x, *how, return_indices=True)

    def gradient(given, x, places):
        return torch.ops.aten.max_pool2d_with_indices_backward(given, x, *how, places)

    check(gradient, torch.randn_like(y), x, places)


@pytest.mark.parametrize("pool", [functional.max_pool2d, functional.avg_pool2d])
def test_windows_that_are_too_large_are_pytorchs(pool):
    with pytest.raises(TorchError, match="more than 27"):
        convert(traced(lambda x: pool(x, 6), image(1, 2, 12, 12)).graph)


def test_norms_and_means_stay_with_channels_last():
    """Nothing is moved between an image with channels last and what is computed of it."""

    def normed(x, w):
        y = functional.batch_norm(x, w, w.abs(), w, w).relu() * x
        return y, y.mean((-1, -2)), y.mean((2, 3), keepdim=True), y.amax(1)

    found = check(normed, image(2, 4, 5, 3, last=True), torch.rand(4) + 1)
    moved = [line for line in found.module.script().splitlines() if "R.permute_dims" in line]
    assert not [line for line in moved if "(1, " not in line and "1)" not in line], moved


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.slow
def test_norms_of_channels_that_lie_last_move_nothing(dtype):
    """Views that leave elements where they are, and statistics over them, keep to the memory."""
    x = image(2, 6, 5, 7, last=True).to(getattr(torch, dtype))
    weight, bias = torch.randn(6).to(x.dtype), torch.randn(6).to(x.dtype)

    def grouped(x, weight, bias):
        return functional.silu(functional.group_norm(x, 3, weight, bias))

    def batched(x, weight, bias):
        return functional.batch_norm(x, None, None, weight, bias, training=True)

    for norm in (grouped, batched):
        assert "permute_dims" not in check(norm, x, weight, bias).module.script()
    assert "permute_dims" not in check(lambda x: x.view(2, 3, 2, 35).var(3), x).module.script()


@pytest.mark.parametrize("dim", [0, 1, 2, 3, -1, -3])
def test_images_with_channels_last_are_joined_and_cut_as_they_lie(dim):
    """The skips of a U-Net, and their gradients: nothing is transposed."""
    x, y = image(3, 4, 5, 6, last=True), image(3, 4, 5, 6, last=True)

    def function(x, y):
        joined = torch.cat([x * 2, y], dim)
        return joined + 1, joined.narrow(dim, 1, 4) * 3

    assert "permute_dims" not in check(function, x, y).module.script()


@pytest.mark.parametrize("dim", [1, 2, -3])
def test_gates_of_images_with_channels_last_are_split_as_they_lie(dim):
    x = image(3, 4, 8, 6, last=True)

    def function(x):
        gate, value = (x * 2).chunk(2, dim)
        first, *rest = (x + 1).split([1, 3] if dim != 2 else [1, 3, 4], dim)
        return torch.sigmoid(gate) * value.tanh(), first * 2, rest[0].exp()

    assert "permute_dims" not in check(function, x).module.script()


@pytest.mark.parametrize("spatial", [(7,), (3, 4, 5)])
@pytest.mark.parametrize("dim", [0, 1, -1])
def test_signals_and_volumes_are_joined_and_cut_as_they_lie(spatial, dim):
    x, y = (torch.randn(3, *spatial, 5).movedim(-1, 1) for _ in range(2))

    def function(x, y):
        joined = torch.cat([x * 2, y + 1], dim)
        return joined + 1, joined.narrow(dim, 1, 2) * 3

    made = check(function, x, y).module.script()
    # What signals are joined to lies with channels first, as PyTorch has it.
    assert "permute_dims" not in made[: made.index("concat")]
    assert "permute_dims" not in made or len(spatial) == 1


@pytest.mark.parametrize("how", [(3, 2, 1, 1), (2, 1, 0, 3)])
@pytest.mark.parametrize("axis", [None, 2, 3])
def test_gradients_of_images_one_row_high_or_wide_and_of_volumes(how, axis):
    """What lies with channels last is known to, also where another order is the same memory."""
    kernel, *numbers = how
    ones = [each == axis for each in range(2, 4 if axis else 5)]
    sizes = [1 if one else 13 for one in ones]
    window = [1 if one else kernel for one in ones]
    numbers = [
        [n if one else each for one in ones] for n, each in zip((1, 0, 1), numbers, strict=True)
    ]
    x, w = (torch.randn(n, *size, 4).movedim(-1, 1) for n, size in ((2, sizes), (6, window)))
    g = torch.randn_like(torch.ops.aten.convolution(x, w, None, *numbers, False, [0], 1))

    def gradients(g, x, w):
        how = None, *numbers, False, [0], 1, [True, True, False]
        return torch.ops.aten.convolution_backward(g, x, w, *how)[:2]

    last = "CDHWN" if axis is None else "CHWN"
    assert f'"{last}"' in check(gradients, g, x, w).module.script()


@pytest.mark.parametrize("dim", [0, 1, 3])
def test_an_image_that_lies_otherwise_is_joined_in_pytorchs_order(dim):
    x, y = image(3, 4, 5, 6, last=True), image(3, 4, 5, 6, last=False)
    check(lambda x, y: torch.cat([x, y], dim)[:, 1:3] * 2, x, y)
