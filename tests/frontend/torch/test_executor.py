"""What is converted runs as the kernels of a GPU too: in the CPU executor, and right."""

import pytest

torch = pytest.importorskip("torch")

from torch_kernels import check_kernels as check  # noqa: E402

functional = torch.nn.functional
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_elements(dtype):
    def elements(x, y):
        return (
            x.relu() + torch.maximum(x, y), x.clamp(-1, 1), x.round(), x.isinf() | x.isnan(),
            x != y, x.sign(), torch.where(x > y, x, 0.25), x * 0 + y, (x - x) * y,
            (x != x) | (x == y),
        )  # fmt: skip

    odd = torch.tensor([-INF, -2.5, -1.0, -0.5, 0.0, 0.5, 1.5, 2.5, INF, NAN, 3.0, 7.0])
    check(elements, odd.to(dtype).view(2, 6), odd.flip(0).to(dtype).view(2, 6))


def test_functions_of_the_c_library():
    def library(x):
        rest = torch.remainder(x, 0.75) + torch.fmod(x, -0.75)
        return x.expm1() + x.sinh(), x.abs().log1p() * x.asinh(), rest, functional.elu(x)

    torch.manual_seed(0)
    check(library, torch.randn(3, 16))


def test_a_norm_with_its_gradient_shaped_sums():
    def sums(x, w):
        y = functional.group_norm(x, 2, w, w)
        return y, (y * x).sum((0, 2)), y.amax(-1), x.var((1, 2))

    torch.manual_seed(0)
    check(sums, torch.randn(3, 4, 8), torch.rand(4))


def test_moved_around():
    def moved(x):
        y = functional.pad(x * 2, (1, 1))
        z = torch.cat([x[:, 1:], x[:, :1]], 1).flip(0)
        return y + 1, z.exp(), x.repeat(1, 2) - 1, x.T.softmax(-1)

    torch.manual_seed(0)
    check(moved, torch.randn(4, 6))


def test_attention_of_halves():
    def attention(q, k, v, mask):
        scores = (q @ k.mT) * 0.25
        return torch.where(mask, scores, -INF).softmax(-1) @ v

    torch.manual_seed(0)
    q, k, v = (torch.randn(2, 8, 16).half() for _ in range(3))
    check(attention, q, k, v, torch.ones(8, 8, dtype=torch.bool).tril())


def test_positions_share_their_kernel():
    def positions(x):
        values, places = (x * 2).max(-1)
        return values, places, x.argmin(-1)

    torch.manual_seed(0)
    check(positions, torch.randn(5, 40).round(decimals=1))


def test_running_sums_along_any_axis():
    """As the decays of Mamba2: sums down the columns, of what is masked above."""

    def sums(x):
        pairs = x[:, :, None] * torch.ones(8, 8).tril(-1)
        return pairs.cumsum(-2).exp(), (x + 1).cumsum(0) * 2

    torch.manual_seed(0)
    check(sums, torch.randn(3, 8, 8).round(decimals=2))


def test_a_state_that_is_still_0_is_multiplied_by():
    """As the first chunk of linear attention does: nothing is left to read of such a product."""

    def first_chunk(keys, values):
        state = keys.new_zeros(4, 8, 8)
        return (values - keys @ state).transpose(1, 2) * 2, state + 1

    torch.manual_seed(0)
    check(first_chunk, torch.randn(4, 16, 8), torch.randn(4, 16, 8))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_of_interpolations(dtype):
    """Sums at positions that are known: each element asks those that may go to it."""

    def gradients(x, near, between):
        places = torch.arange(8).mul(0.5).floor().long()
        positions = (torch.arange(7) + 0.5).mul(5 / 7).sub(0.5).clamp(min=0.0)
        low = positions.long()
        weight = (positions - low).to(x.dtype)
        nearest = torch.ops.aten.index_put(x, [None, None, places[:, None], places], near, True)
        high = (low + 1).clamp(max=4)
        first = torch.ops.aten.index_put(x.new_zeros(2, 5), [None, low], between * weight, True)
        return nearest, torch.ops.aten.index_put(first, [None, high], between, True) * 2

    torch.manual_seed(0)
    x, near, between = torch.randn(2, 3, 4, 4), torch.randn(2, 3, 8, 8), torch.randn(2, 7)
    check(gradients, *(each.to(dtype) for each in (x, near, between)))
