"""Element-wise operators: PyTorch's types, its rounding, what it does with what is not a number."""

import pytest

torch = pytest.importorskip("torch")

from torch_programs import check, run, traced  # noqa: E402

from tvm_stitch.frontend.torch import convert  # noqa: E402

HALVES = [torch.float16, torch.bfloat16]
NAN, INF = float("nan"), float("inf")
ODD = [-INF, -2.5, -1.0, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, INF, NAN]


def odd(dtype=torch.float32):
    return torch.tensor(ODD, dtype=dtype)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_functions_of_one_element(dtype):
    def functions(x):
        small = x * 0.37
        return (
            x.exp(), x.tanh(), x.sigmoid(), x.erf(), x.cos(), small.asin(), small.expm1(),
            torch.log1p(x * x), x.abs().sqrt(), x.neg(), torch.nn.functional.gelu(x),
            torch.nn.functional.gelu(x, approximate="tanh"), torch.nn.functional.silu(x),
            torch.nn.functional.elu(x), torch.nn.functional.leaky_relu(x, 0.1), x.asinh(),
        )  # fmt: skip

    torch.manual_seed(0)
    check(functions, torch.rand(3, 17).mul(4).sub(2).to(dtype))


def test_small_arguments_do_not_cancel():
    check(lambda x: (x.expm1(), x.log1p(), x.sinh(), x.atanh()), torch.logspace(-30, -1, 30))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_is_not_a_number_is_handed_on(dtype):
    def functions(x, y):
        return (
            x.relu(), torch.maximum(x, y), torch.minimum(x, y), x.clamp(-1, 1), x.clamp(min=0.5),
            x.sign(), x.isnan(), x.isinf(), x == y, x != y, x < y, x >= 0,
        )  # fmt: skip

    check(functions, odd(dtype), odd(dtype).flip(0))


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_limits_that_are_tensors(dtype):
    """Either may be no number, or the least more than the most."""

    def functions(x, low, high):
        return x.clamp(low, high), x.clamp(min=low), x.clamp(max=high), x.clamp(high, low)

    low, high = torch.tensor([-1.0, NAN, 1.5, 0.5]), torch.tensor([1.0, 1.0, -0.5, NAN])
    check(functions, odd(dtype), low.to(dtype)[:, None], high.to(dtype)[:, None])
    check(functions, odd(dtype), low.to(dtype)[0], high.to(dtype)[0])


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_what_is_not_a_number_is_not_taken_for_its_value(dtype):
    """Within a kernel TVM takes x == x for true, x - x and 0 * x for 0."""

    def functions(x):
        y = -x
        found = (
            y == y.clone(), y != y, y - y, y * 0, 0 / y, y.sub(y, alpha=2),
            torch.where(y == y, y, 1.0), y <= y, y < y,
        )  # fmt: skip
        return tuple(each.float().view(-1, 1).sum(1) for each in found)

    check(functions, odd(dtype))


def test_rounding_is_to_even():
    check(lambda x: (x.round(), x.floor(), x.ceil(), x.trunc()), odd())


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (torch.int32, torch.int64),
        (torch.int64, torch.float16),
        (torch.bfloat16, torch.float32),
        (torch.float16, torch.bfloat16),
        (torch.bool, torch.int8),
        (torch.uint8, torch.int8),
    ],
)
def test_types_are_promoted(left, right):
    x, y = torch.arange(1, 7).to(left).view(2, 3), torch.arange(2, 5).to(right)
    check(lambda x, y: (x + y, x * y, x / y, x > y), x, y)


def test_numbers_and_single_elements_count_less_than_tensors():
    half, whole = torch.ones(3, dtype=torch.float16) * 0.1, torch.arange(3)
    single = torch.tensor(2.5)

    def functions(half, whole, single):
        return half * 0.1, half + single, whole + 1, whole * 0.5, whole + single, whole / 2

    check(functions, half, whole, single)


def test_a_number_beside_halves_is_not_rounded():
    x = torch.tensor([1000.0, 3.0], dtype=torch.float16)
    # 1.0004 rounds to 1 in float16, yet 1000 * 1.0004 does not round to 1000.
    check(lambda x: (x * 1.0004, x + 0.0002, torch.add(x, x, alpha=0.3333)), x)


@pytest.mark.parametrize("mode", [None, "trunc", "floor"])
def test_division(mode):
    x = torch.tensor([-7.5, -7.0, -1e-3, 0.0, 1e-3, 7.0, 7.5, 1e7])

    def functions(x, by, whole):
        return (
            torch.div(x, 2.5, rounding_mode=mode),
            torch.div(x, by, rounding_mode=mode),
            torch.div(whole, 4, rounding_mode=mode),
            torch.div(whole, -4, rounding_mode=mode),
        )

    check(functions, x, torch.tensor([-2.5]), torch.arange(-9, 10))


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_numbers_that_are_or_round_to_zero_divide(dtype):
    x = torch.arange(-8.0, 9.0).to(dtype)
    check(lambda x: (x / 1e-40, x / 0.0, x / -0.0, x / 0), x)


def test_rests():
    x = torch.tensor([-7.5, -7.0, 0.0, 7.0, 7.5])
    rests = lambda x, n: (x.remainder(2.5), x.fmod(-2.5), n.remainder(-4), n.fmod(4))  # noqa: E731
    check(rests, x, torch.arange(-9, 10))


def test_powers():
    x = torch.tensor([-2.0, -0.5, 0.0, 0.5, 3.0])
    check(lambda x, n: (x**2, x**3, x**-1.0, x.abs() ** 0.5, x**5.0, n**2), x, torch.arange(5))


def test_bits_and_truths():
    def functions(x, y, p, q):
        return (
            x & y,
            x | 5,
            x ^ y,
            ~x,
            p & q,
            p | q,
            p ^ q,
            ~p,
            p.logical_and(x),
            p + x,
            p != q,
            p == q,
        )

    p, q = torch.tensor([True, False, True, False]), torch.tensor([True, True, False, False])
    check(functions, torch.arange(4), torch.arange(4).flip(0), p, q)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int32, torch.int64])
def test_shifts(dtype):
    """As those that take a weight of four bits out of a byte; by too much, or too little, too."""
    least = torch.iinfo(dtype).min
    x = torch.tensor([0, 1, 5, 77, 127, torch.iinfo(dtype).max, least, least // 2, least // 3])

    def shifted(x, by):
        pairs = torch.stack([x & 15, x >> 4], -1).flatten()
        return x << 1, x >> 7, pairs - 8, x << by, x >> by, x[:, None] >> by[None, :]

    check(shifted, x.to(dtype), torch.arange(9).mul(8).sub(1).clamp(max=100).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_functions_of_the_c_library(dtype):
    def functions(x, y):
        return (
            x.erfc(), x.exp2(), torch.copysign(y, x), torch.copysign(x, -2.0), torch.hypot(x, y),
            torch.lgamma(x.abs() + 0.5), torch.copysign(x.int(), y),
        )  # fmt: skip

    torch.manual_seed(0)
    check(functions, torch.rand(3, 17).mul(8).sub(4).to(dtype), torch.randn(3, 17).to(dtype))
    check(lambda x: (torch.copysign(torch.ones_like(x), x), x.erfc(), x.exp2()), odd(dtype))


def test_where_takes_numbers():
    x = torch.tensor([1, -1, 2])
    check(lambda x: (torch.where(x > 0, 1.5, x), torch.where(x > 0, x, 0)), x)


@pytest.mark.parametrize("dtype", [torch.float32, *HALVES])
def test_what_optimizers_are_made_of(dtype):
    def updates(x, y, z):
        return (
            x.addcmul(y, z), x.addcmul(y, z, value=-0.3), x.addcdiv(y, z, value=0.1),
            x.lerp(y, 0.25), x.lerp(y, 0.75), x.lerp(y, z[:, :1]), x.lerp(y, 1.0),
        )  # fmt: skip

    torch.manual_seed(0)
    x, y = torch.randn(3, 7).to(dtype), torch.randn(3, 7).to(dtype)
    converted = check(updates, x, y, torch.rand(3, 7).add(0.5).to(dtype))
    assert set(converted.operators) == {
        "addcmul", "addcdiv", "lerp.Scalar", "lerp.Tensor", "slice.Tensor",
    }  # fmt: skip


def test_a_fused_multiply_add_rounds_once():
    pytest.importorskip("torch._inductor.inductor_prims")
    if not hasattr(torch.ops.prims, "fma"):
        pytest.skip("this PyTorch has none")
    x = torch.tensor([1 + 2.0**-12, -3.0])

    def fused(x):
        return torch.ops.prims.fma(x, x, -(x * x))

    (found,) = run(convert(traced(fused, x).graph), (x,))
    assert found[0] == 2.0**-24 and found[1] == 0


def test_updates_of_several_types_and_shapes():
    def updates(x, y, z, whole):
        return x.addcmul(y, z), whole.addcmul(whole, whole[:1], value=2), y.addcdiv(z, x, value=2)

    x, y = torch.rand(2, 1, 3).half() + 1, torch.randn(4, 3)
    check(updates, x, y, torch.tensor(0.5), torch.arange(3))


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64])
def test_integers_wrap_around(dtype):
    def functions(x):
        return -x, x + x, x * 100, x - 1, 1 - x, x.abs(), x.sign(), x > -1, torch.clamp(x, -1, 100)

    check(functions, torch.tensor([-128, -1, 0, 1, 80, 127, 160, 255]).to(dtype))
