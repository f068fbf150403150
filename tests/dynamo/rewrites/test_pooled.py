"""Max pooling in training keeps a byte for each window, and gradients go where PyTorch's go."""

import pytest

torch = pytest.importorskip("torch")

import tvm_stitch  # noqa: E402
from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402
from tvm_stitch.frontend.torch.offsets import BACKWARD, WITH_OFFSETS  # noqa: E402

functional = torch.nn.functional
HOW = [(3, 2, 1), (2, 2, 0), ((3, 2), (1, 2), (1, 0)), (3, 2, 1, 1, True)]
OF_VOLUMES = [((1, 3, 3), (1, 2, 2), (0, 1, 1)), (2, 2, 0), (3, 2, 1, 1, True)]


def image(last, dtype=torch.float32):
    """Of few values, so that several elements of a window are its largest, and strange ones."""
    torch.manual_seed(0)
    x = torch.randint(0, 4, (2, 16, 9, 7)).to(dtype)
    x[0, 1, 2, 3], x[1, 2], x[1, 1, 0, 0] = float("nan"), -float("inf"), float("inf")
    return x.to(memory_format=torch.channels_last) if last else x


def volume(last, dtype=torch.float32):
    """The same, but for planes of nothing: in these PyTorch gives other places on the CPU."""
    torch.manual_seed(0)
    x = torch.randint(0, 4, (2, 16, 4, 6, 7)).to(dtype)
    x[0, 1, 2, 3, 4], x[1, 1, 0, 0, 0] = float("nan"), float("inf")
    return x.to(memory_format=torch.channels_last_3d) if last else x


def step(function, x):
    x = x.detach().requires_grad_()
    y = function(x)
    y.backward(torch.arange(y.numel()).view(y.shape).remainder(7).to(y.dtype))
    return y.detach(), x.grad


def agree(how, x, device=LLVM):
    """Of small whole numbers sums are exact."""
    torch._dynamo.reset()
    pool = getattr(functional, f"max_pool{x.dim() - 2}d")
    ours = GraphCompiler(Settings(device=device, target="sm_90" if device == EXECUTOR else None))

    def pooled(x):
        return pool(x * 2, *how) * 2

    found = step(torch.compile(pooled, backend=ours), x)
    for got, want in zip(found, step(pooled, x), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0, equal_nan=True)
    report = ours.log.report()
    assert [part.failure for part in report.parts if part.failure] == []
    names = {name for part in report.parts for name in part.operators}
    assert f"tvm_stitch.max_pool{x.dim() - 2}d_with_offsets_backward" in names
    assert not report.left


@pytest.mark.slow
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("last", [False, True])
def test_gradients_go_to_the_first_of_the_largest(how, last):
    agree(how, image(last))


@pytest.mark.slow
@pytest.mark.parametrize("how", OF_VOLUMES)
@pytest.mark.parametrize("last", [False, True])
def test_gradients_of_volumes_do_so_too(how, last):
    agree(how, volume(last))


@pytest.mark.slow
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("made", [image, volume])
def test_as_a_gpu_computes_them(made, last):
    agree(HOW[0], made(last, torch.bfloat16), EXECUTOR)


def test_nothing_is_cast_to_a_byte_that_tvm_would_have_to_bound():
    """Lowering fails where it takes what is cast for more than a byte holds."""
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=EXECUTOR, target="sm_90"), explained=True)
    pooled = torch.compile(lambda x: functional.max_pool2d(x * 2, 2) * 2, backend=ours)
    step(pooled, image(True))
    _forward, backward = ours.log.report().parts
    assert 'Cast("int8"' not in backward.module.script()


@pytest.mark.parametrize("how", [how[:3] for how in HOW])
def test_pytorch_runs_them_as_well(how):
    runs(how, image(last=False), functional.max_pool2d)


@pytest.mark.parametrize("how", [how[:3] for how in OF_VOLUMES])
def test_and_those_of_volumes(how):
    runs(how, volume(last=False), functional.max_pool3d)


def runs(how, x, pool):
    sides = x.dim() - 2
    size, stride, padding = ([n] * sides if isinstance(n, int) else list(n) for n in how)
    values, offsets = WITH_OFFSETS[sides](x, size, stride, padding, False)
    assert offsets.dtype == torch.int8
    expected, gradient = step(lambda x: pool(x, *how), x)
    torch.testing.assert_close(values, expected, rtol=0, atol=0, equal_nan=True)
    given = torch.arange(values.numel()).view(values.shape).remainder(7).to(values.dtype)
    found = BACKWARD[sides](given, x, size, stride, padding, False, offsets)
    torch.testing.assert_close(found, gradient, rtol=0, atol=0)


def test_positions_that_are_asked_for_stay():
    torch._dynamo.reset()

    def pooled(x):
        values, places = functional.max_pool2d(x * 2, 2, return_indices=True)
        return values * 2, places + 1

    x = torch.randn(2, 4, 6, 6, requires_grad=True)
    report = tvm_stitch.torch.explain(pooled, x, target="sm_90")
    names = {name for part in report.parts for name in part.operators}
    assert "max_pool2d_with_indices_backward" in names
