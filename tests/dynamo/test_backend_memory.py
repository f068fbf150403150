"""What lies in memory is what lies there in PyTorch: aliases, copies, changed inputs, strides."""

import copy

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import LLVM, Settings  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def compiler(device=LLVM, **settings):
    return GraphCompiler(Settings(device=device, **settings))


def test_views_alias_as_in_pytorch():
    def function(x):
        y = x * 2 + 1
        return x.view(-1), y.t(), y[1:]

    x = torch.randn(3, 4)
    flat, turned, rest = torch.compile(function, backend=compiler())(x)
    x[0, 0] = 100.0
    assert flat[0] == 100.0
    turned[0, 1] = 50.0
    assert rest[0, 0] == 50.0


def test_a_copy_is_a_copy():
    def function(x):
        return x.clone(), (x + 0) * 1, x.clone()

    x = torch.randn(3)
    first, second, third = torch.compile(function, backend=compiler(smallest_part=1))(x)
    kept = x.clone()
    x.zero_()
    first.fill_(1)
    torch.testing.assert_close(second, kept)
    torch.testing.assert_close(third, kept)


def test_inputs_that_are_changed():
    def function(x, y):
        x.mul_(2).add_(1)
        y[1:] = x[1:] - 1
        return x.sum() + y.sum()

    x, y = torch.randn(3, 4), torch.randn(3, 4)
    given = x.clone(), y.clone()
    assert torch.compile(function, backend=compiler())(*given) == pytest.approx(
        float(function(x, y)), rel=1e-5
    )
    torch.testing.assert_close(given, (x, y))


def test_inputs_that_are_changed_by_one_call_for_all(monkeypatch):
    """Not by one for each, of which a model with batch norms has a hundred."""
    model = torch.nn.Sequential(*(torch.nn.BatchNorm1d(5) for _ in range(3)))
    eager, calls = copy.deepcopy(model), []
    call = torch._foreach_copy_
    monkeypatch.setattr(torch, "_foreach_copy_", lambda *a: (calls.append(len(a[0])), call(*a)))
    ours, x = torch.compile(model, backend=compiler()), torch.randn(7, 5)
    for _ in range(2):
        torch.testing.assert_close(ours(x), eager(x))
    torch.testing.assert_close(dict(model.named_buffers()), dict(eager.named_buffers()))
    assert sorted(calls) == [3, 3, 6, 6]  # running means and variances, and numbers of batches


def test_inputs_that_are_exchanged():
    def function(x, y, z):
        kept = x * 2 + 1
        x.copy_(y)
        y.copy_(kept)
        z.add_(x).mul_(2)
        return x, z + y

    given = [torch.randn(3, 4) for _ in range(3)]
    expected = [x.clone() for x in given]
    found = torch.compile(function, backend=compiler())(*given)
    for got, want in zip((*found, *given), (*function(*expected), *expected), strict=True):
        torch.testing.assert_close(got, want)
    assert found[0] is given[0]


def test_inputs_that_swap_places():
    def function(x, y):
        kept = x.clone()
        x.copy_(y)
        y.copy_(kept)
        return (x + 1).relu()

    x, y = torch.randn(3), torch.randn(3)
    expected = y.clone(), x.clone()
    torch.compile(function, backend=compiler())(x, y)
    torch.testing.assert_close((x, y), expected)


def test_results_lie_in_memory_as_pytorchs_do():
    def function(x):
        return (x * 2).relu() + 1, x.permute(3, 0, 1, 2) * 2 + 1

    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    for got, want in zip(torch.compile(function, backend=compiler())(x), function(x), strict=True):
        torch.testing.assert_close(got, want)
        assert got.stride() == want.stride()


def test_inputs_with_gaps_and_without_elements():
    def function(x):
        return (x * 2 + 1).relu()

    run = torch.compile(function, backend=compiler(), dynamic=True)
    shifted = torch.randn(4 * 8 + 1)[1:].view(4, 8)
    for x in (torch.randn(6, 8)[::2, ::2], torch.randn(4, 8)[:, 3:6], torch.randn(0, 4), shifted):
        torch.testing.assert_close(run(x), function(x))
