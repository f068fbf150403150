"""Reductions: the types they sum in, every dimension, what is not a number."""

import pytest

torch = pytest.importorskip("torch")

from torch_programs import check, traced  # noqa: E402

from tvm_stitch.errors import TorchError  # noqa: E402
from tvm_stitch.frontend.torch import convert  # noqa: E402

NAN = float("nan")


def test_integers_are_summed_in_int64():
    x = torch.full((300,), 2**31 - 1, dtype=torch.int32)
    check(lambda x: (x.sum(), (x > 0).sum(), (x // x.shape[0]).prod(), x.sum(dtype=torch.int32)), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_halves_are_summed_in_float32(dtype):
    x = torch.full((4096,), 0.1, dtype=dtype)
    found = check(lambda x: (x.sum(), x.mean(), x.softmax(0), x.var()), x)
    assert "float32" in str(found.module)


def test_every_choice_of_dimensions():
    torch.manual_seed(0)
    x = torch.randn(3, 4, 5)

    def functions(x):
        return (
            x.sum((0, -1)), x.sum(1, keepdim=True), x.mean(-2), x.amax((0, 2)), x.amin(-1, True),
            x.prod(1), x.var((1, 2), correction=0), x.var(0), x.std(-1, keepdim=True), x.sum(),
            torch.var_mean(x, 1)[1], (x > 0).any(1), (x > 1).any(), (x > -3).all(2), x.logsumexp(1),
            x.log_softmax(-1), torch.linalg.vector_norm(x, dim=-1),
        )  # fmt: skip

    check(functions, x)


def test_running_sums_and_their_gradients():
    torch.manual_seed(0)
    x, n = torch.randn(3, 5, 31), torch.arange(12, dtype=torch.int32).view(3, 4)

    def functions(x, n):
        sums = torch.cumsum(x.exp(), -1)
        gradient = torch.flip(torch.cumsum(torch.flip(x, [-1]), -1), [-1])
        return (
            sums * 2,
            gradient,
            torch.cumprod(x, 2),
            n.cumsum(1),
            (n > 4).cumsum(-1),
            x[0, 0, 0].cumsum(0),
            x.cumsum(0),
            x.cumsum(-2) * 2,
            n.cumprod(0),
        )

    check(functions, x, n)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_running_sums_of_halves(dtype):
    found = check(lambda x: x.cumsum(1), torch.full((2, 3000), 0.25, dtype=dtype))
    assert "float32" in str(found.module)


@pytest.mark.parametrize(
    "function, x, reason",
    [
        (lambda x: x.cumsum(-1), torch.ones(2, 20000), "too long"),
        (lambda x: x.cumsum(-1), torch.ones(2, 3, dtype=torch.float64), "float64"),
    ],
)
def test_other_running_sums_are_left(function, x, reason):
    with pytest.raises(TorchError, match=reason):
        convert(traced(function, x).graph)


def test_extremes_hand_on_what_is_not_a_number():
    x = torch.tensor([[1.0, NAN, 3.0], [4.0, 5.0, 6.0], [-float("inf")] * 3])
    check(lambda x: (x.amax(1), x.amin(0), x.softmax(1), x.max(), x[1].min(), x[2].max()), x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_safe_softmax_is_zero_of_nothing_but_minus_infinity(dtype):
    inf = float("inf")
    x = torch.tensor([[-inf] * 3, [1.0, -inf, 2.0], [-inf, NAN, -inf], [-inf, 3.0, inf]]).to(dtype)
    check(lambda x: (torch._safe_softmax(x, -1), torch._safe_softmax(x, 0), x.softmax(-1)), x)


def test_of_one_element():
    x = torch.tensor(3.0)
    check(lambda x: (x.sum(), x.mean(), x.amax(), x.any()), x)
    check(lambda x: (x.sum([0], True), x.mean(-1), x.amax(0), x.var([0], correction=0)), x)


def test_norms_with_their_statistics():
    torch.manual_seed(0)
    x, w = torch.randn(2, 6, 5) * 3 + 1, torch.rand(6)
    functional = torch.nn.functional

    def functions(x, w):
        rows = x.transpose(1, 2)
        return (
            *torch.ops.aten.native_layer_norm(rows, [6], w, None, 1e-5),
            *torch.ops.aten.native_group_norm(x, w, w, 2, 6, 5, 3, 1e-5),
            functional.batch_norm(x, w, w, None, w, training=False),
        )

    check(functions, x, w)
    halves = [t.half() for t in (x, w)]
    check(lambda x, w: torch.ops.aten.native_layer_norm(x.mT, [6], w, w, 1e-5)[0], *halves)


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool])
def test_positions_are_the_first(dtype):
    def positions(x):
        values, places = x.max(1)
        least, lowest = x.min(0, keepdim=True)
        return values, places, least, lowest, x.argmax(), x.argmin(-1), x.argmax(0, keepdim=True)

    x = torch.tensor([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0], [0.0, 0.0, 5.0, 5.0]]).to(dtype)
    check(positions if dtype is not torch.bool else lambda x: (*x.max(1), *x.min(0)), x)


def test_positions_of_what_is_no_number_come_first():
    nan, inf = float("nan"), float("inf")
    x = torch.tensor([[1.0, nan, 3.0, nan], [-inf, inf, inf, 0.0], [-inf, -inf, -inf, -inf]])
    check(lambda x: (*x.max(1), *x.min(1), x.argmax(1), x.argmin(), x.amax().argmax()), x)
