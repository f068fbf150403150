"""Numbers that models keep in tensors are given as numbers."""

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo.rewrites.untraced.known_scalars import with_known_scalars  # noqa: E402
from tvm_stitch.dynamo.rewrites.untraced.known_values import name_of  # noqa: E402

COMBINED = ("add", "mul", "sub", "truediv")


def numbers(function, *inputs):
    """The numbers that products and sums are given, and how many calls are left."""
    found = []

    def backend(graph, _inputs):
        with_known_scalars(graph.graph)
        graph.graph.lint()
        graph.recompile()
        calls = [node for node in graph.graph.nodes if node.op.startswith("call")]
        combined = (node.args for node in calls if name_of(node) in COMBINED)
        found.extend(each for args in combined for each in args if isinstance(each, float))
        found.append(len(calls))
        return graph.forward

    torch._dynamo.reset()
    ours = torch.compile(function, backend=backend)(*inputs)
    torch.testing.assert_close(ours, function(*inputs), rtol=0, atol=0)
    return found


def as_a_deberta_does(x):
    scale = torch.sqrt(torch.tensor(x.size(-1), dtype=torch.float) * 3)
    return x / scale.to(dtype=x.dtype)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_a_scale(dtype):
    number, left = numbers(as_a_deberta_does, torch.randn(2, 16).to(dtype))
    assert left == 1
    assert number == torch.tensor(48.0).sqrt().to(dtype).item()


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.tensor(0.5) * x,
        lambda x: x.mul(torch.tensor(0.5)),
        lambda x: torch.add(x, torch.full((), 0.5)),
        lambda x: torch.tensor(0.5) - x,
    ],
)
def test_what_else_is_combined(function):
    assert numbers(function, torch.randn(3, 4)) == [0.5, 1]


@pytest.mark.parametrize(
    "function",
    [
        pytest.param(lambda x: x * torch.tensor([0.5]), id="of one dimension"),
        pytest.param(lambda x: x.long() * torch.tensor(0.5), id="of another kind"),
        pytest.param(lambda x: x * x.sum(), id="of an input"),
        pytest.param(lambda x: torch.tensor(0.5) * x.sum(), id="with another number"),
        pytest.param(lambda x: x * torch.tensor(0.5).add_(1), id="written to"),
    ],
)
def test_others_stay(function):
    assert len(numbers(function, torch.randn(3, 4) * 4)) == 1


def test_a_number_that_is_returned_too():
    """It stays for whoever else reads it."""
    found = numbers(lambda x: (x * (n := torch.tensor(0.5)), n), torch.randn(3, 4))
    assert found == [0.5, 2]
