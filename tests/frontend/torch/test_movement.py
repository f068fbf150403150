"""Views, slices and copies, and tensors made of numbers."""

import pytest

torch = pytest.importorskip("torch")

from torch_programs import check, traced  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import Settings  # noqa: E402
from tvm_stitch.errors import TorchError  # noqa: E402
from tvm_stitch.frontend.torch import convert  # noqa: E402


def numbers(*shape):
    return torch.arange(float(torch.Size(shape).numel())).view(shape)


def test_views():
    def functions(x):
        return (
            x.view(4, -1), x.permute(2, 0, 1).reshape(-1), x.transpose(0, 2), x[:, None],
            x.unsqueeze(-1).expand(-1, -1, -1, 3), x[:1].squeeze(0), x.flip(0, 2), x.mT,
        )  # fmt: skip

    check(functions, numbers(2, 3, 4))


def test_slices_count_from_either_end():
    def functions(x):
        return (
            x[1:], x[:, -2:], x[..., ::3], x[-1], x[:, 1], x[1:100], x.split([1, 4], 1)[1],
            *x.chunk(2, dim=2), x.diagonal(1), x.diagonal(-1, 1, 2), x.select(2, -3), x[0:0 + 1],
        )  # fmt: skip

    check(functions, numbers(3, 5, 7))


def test_copies():
    def functions(x):
        padded = torch.nn.functional.pad(x, (1, 2, -1, 0), value=7.0)
        joined = torch.cat([x, x + 1], -1)
        return padded, joined, x.repeat(2, 1, 3), torch.stack([x[0], x[1]], 1), x.half(), x.int()

    check(functions, numbers(2, 3))


def test_rolls():
    def functions(x):
        return (
            x.roll(1, 0), x.roll((2, -1), (1, 2)), x.roll((3, 4), (1, 1)), x.roll(5),
            x.roll(-25, 2), x.roll(0, 1) + 1,
        )  # fmt: skip

    converted = check(functions, numbers(2, 3, 4))
    assert "take" not in converted.module.script()
    check(lambda x: x.roll(3), torch.tensor(2.0))


def test_padding_of_nothing_is_no_operator():
    graph = traced(lambda x: torch.constant_pad_nd(x, (0, 0, 0, 0)) * 2, numbers(2, 3)).graph
    (block,) = convert(graph).module["main"].body.blocks
    assert "pad" not in str(block)
    check(lambda x: (torch.constant_pad_nd(x, (0, 0)), x + 1), numbers(2, 3))


def test_types_meet_in_a_row():
    check(lambda x: torch.cat([x, x.to(torch.int32), x.half()], 0), numbers(2, 3))


def test_what_is_written_into_a_part():
    def functions(x):
        y = x.clone()
        y[1].fill_(5.0)
        y[:, ::2] = x[:, :1] * 2
        y[-1:, 1] += 1
        return y

    check(functions, numbers(3, 4))


def test_windows_that_overlap():
    def functions(x):
        return (
            x.unfold(1, 3, 2), x.unfold(-1, 4, 1).mean(-1) * 2, x.unfold(0, 2, 5) + 1,
            x.as_strided((2, 5, 4), (20, 2, 3), 1), x.T.contiguous().as_strided((3,), (7,)),
            x.t().as_strided((2, 3), (1, 4)), x[1:].contiguous().as_strided((1, 1), (9, 9), 13),
        )  # fmt: skip

    check(functions, numbers(5, 8))


def test_memory_around_a_tensor_is_not_read():
    for reads in (
        lambda x: x[1:].as_strided((2,), (1,), 0),
        lambda x: x[:2].as_strided((2,), (12,), 0),
        lambda x: x[:, ::2].as_strided((2,), (1,), 0),
    ):
        with pytest.raises(TorchError, match="memory"):
            convert(traced(reads, numbers(4, 4)).graph)


def test_a_diagonal_that_is_replaced():
    def functions(x):
        flat = torch.diagonal_scatter(x, x[..., 0] * 2, 1, 0, 2)
        below = torch.diagonal_scatter(x[0], x[1, :2, 1].half(), -1)
        return flat, below, torch.diagonal_scatter(x, x[:, 0, :3] + 1, 1, -2, -1)

    check(functions, numbers(3, 3, 4))


def test_tensors_of_numbers():
    def functions(x):
        return (
            torch.full_like(x, 3), x + torch.arange(4), torch.arange(1, 9, 3) + x[0, 0],
            torch.ones(2, 4) * x[:2], x.new_zeros(4) + x, torch.arange(0, 1, 0.25) + x,
        )  # fmt: skip

    check(functions, numbers(3, 4))


@pytest.mark.parametrize("count", [1, 7, 300])
def test_ones_on_a_diagonal(count):
    # PyTorch writes them out as numbers of uint16 where there are more than 255.
    def functions(x):
        wide = torch.eye(count, count + 2, dtype=torch.int32)
        return x + torch.eye(count), x.new_zeros(count + 2) + wide, torch.eye(count).half() * 2

    check(functions, numbers(count, count))


def test_tensors_as_they_lie_in_memory():
    x = numbers(2, 3, 4, 5).to(memory_format=torch.channels_last)
    converted = check(lambda x: x * 2, x)
    assert converted.inputs == ((0, (0, 2, 3, 1)),)
    assert converted.outputs == ((0, 2, 3, 1),)
    # Nothing is turned around: the copy that lies in memory is what is computed with.
    text = str(converted.module)
    assert "R.Tensor((2, 4, 5, 3)" in text


def test_gaps_in_memory_are_no_shape():
    converted = check(lambda x: x + 1, numbers(4, 6)[:, ::2])
    assert converted.inputs == ((0, (0, 1)),)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_products(dtype):
    torch.manual_seed(0)
    x, w, b = (torch.randn(s).to(dtype) for s in [(3, 5, 8), (4, 8), (4,)])

    def functions(x, w, b):
        linear = torch.nn.functional.linear(x, w, b)
        return linear, x @ x.mT, torch.addmm(b, x[0], w.t(), beta=0.5, alpha=2), x @ w[0]

    check(functions, x, w, b)


def test_halves_are_multiplied_in_float32():
    from torch_programs import traced

    x = torch.randn(4, 4).half()
    text = str(convert(traced(lambda x: x @ x, x).graph).module)
    assert 'out_dtype="float32"' in text


@pytest.mark.parametrize("device", ["llvm", "cpu-executor"])
@pytest.mark.slow
def test_what_is_joined_of_sizes_that_change(device):
    def joined(x):
        before = torch.arange(1, x.shape[1] + 1)[None].expand(x.shape[0], -1)
        steps = torch.cat((before[:, :1], before[:, 1:] - before[:, :-1], before[:, :2]), 1)
        return torch.cat((x, -x[:, 1:]), 1), (steps != 1).long() + steps

    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=device, target="sm_90", smallest_part=1))
    run = torch.compile(joined, backend=ours, dynamic=True)
    for columns in (5, 7):
        x = torch.randn(3, columns)
        torch.testing.assert_close(run(x), joined(x), rtol=0, atol=0)
    assert not [part.failure for part in ours.log.report().parts if part.failure]
