"""What is sent to the same place along all of a row is a row: networks over graphs are ours."""

import pytest

torch = pytest.importorskip("torch")

from compiled_gradients import judged  # noqa: E402
from torch.nn import functional  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402
from tvm_stitch.graph.front.scattered import sort_once  # noqa: E402


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def spread(index, x, dim=0):
    """As libraries of graph networks spread indices."""
    return index.view([-1 if n == dim else 1 for n in range(x.dim())]).expand_as(x)


def attention(x, source, target, heads=3):
    """Weights of the edges that end in a node, and the sum of what they bring."""
    nodes = len(x)
    h = x.view(nodes, heads, -1)
    score = functional.leaky_relu(h.sum(-1)[source] - h.mean(-1)[target], 0.2)
    most = score.new_full((nodes, heads), -1e9)
    most = most.scatter_reduce(0, spread(target, score), score.detach(), "amax")
    weight = (score - most[target]).exp()
    total = torch.zeros_like(most).scatter_add(0, spread(target, weight), weight)
    weight = weight / (total[target] + 1e-9)
    brought = weight[..., None] * h[source]
    return torch.zeros_like(h).scatter_add(0, spread(target, brought), brought).flatten(1)


@pytest.mark.slow
@pytest.mark.parametrize("device", [LLVM, pytest.param(EXECUTOR, marks=pytest.mark.slow)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_attention_over_a_graph(device, dtype):
    x = torch.randn(33, 12).to(dtype)
    edges = torch.randint(0, 33, (2, 150))
    names = judged(attention, x, *edges, device=device)
    assert not {"scatter_add", "scatter_reduce.two"} & set(names)
    assert "index_reduce" in names


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_edges_are_sorted_once(monkeypatch, dtype):
    """By the node where they end, and in the backward pass by that where they begin as well."""
    monkeypatch.setattr(sort_once, "FEWEST", 1)
    monkeypatch.setattr(sort_once, "FEWEST_CALLS", 2)
    compiler = GraphCompiler(Settings(device=EXECUTOR, target="sm_90", smallest_part=1))
    edges = torch.randint(0, 33, (2, 150))
    compiled = torch.compile(attention, backend=compiler)
    x = torch.randn(33, 12).to(dtype)
    gradients = []
    for run, to in ((compiled, dtype), (attention, dtype), (attention, torch.float64)):
        given = x.clone().to(to).requires_grad_()
        run(given, *edges).to(torch.promote_types(to, torch.float32)).square().sum().backward()
        gradients.append(given.grad.double())
    ours, eager, exact = gradients
    assert (ours - exact).norm() <= 2 * (eager - exact).norm() + 1e-6 * exact.norm()
    kernels = [name for each in compiler.machines.values() for name in each.kernels]
    assert sum("sort_by_row" in name for name in kernels) == 2


@pytest.mark.spread(2)
@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "mean", "amax", "amin"])
def test_rows_are_reduced(reduce, include_self):
    """Those that no index names are what they were."""

    def reduced(x, values, index):
        how = {"reduce": reduce, "include_self": include_self}
        rows = x.scatter_reduce(0, spread(index, values), values, **how)
        turned, values = x.T.contiguous(), values.T.contiguous()
        return rows + turned.scatter_reduce(1, spread(index, values, 1), values, **how).T

    x, values = torch.randn(40, 7), torch.randn(50, 7)
    # PyTorch has no sums of rows without what was there.
    left = [] if reduce != "sum" or include_self else ["scatter_reduce.two"]
    for device in (LLVM, EXECUTOR):
        compare(reduced, x, values, torch.randint(0, 30, (50,)), device=device, left=left)


def compare(function, *inputs, device, left=()):
    torch._dynamo.reset()
    compiler = GraphCompiler(Settings(device=device, target="sm_90", smallest_part=1))
    with torch.no_grad():
        found = torch.compile(function, backend=compiler)(*inputs)
        torch.testing.assert_close(found, function(*inputs))
    assert {each.operator for each in compiler.log.report().left} == set(left)
    return [name for part in compiler.log.report().parts for name in part.operators]


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float16])
def test_whole_numbers_and_halves(dtype):
    def largest(x, values, index):
        rows = x.scatter_reduce(0, spread(index, values), values, "amax", include_self=False)
        return rows * 2, x.index_reduce(0, index, values, "amin") - 1

    x, values = (torch.randint(-9, 9, (rows, 5)).to(dtype) for rows in (20, 60))
    compare(largest, x, values, torch.randint(0, 20, (60,)), device=EXECUTOR)


def test_elements_that_go_where_they_like_are_pytorchs():
    index = torch.randint(0, 20, (60, 5))
    x, values = torch.randn(20, 5), torch.randn(60, 5)

    def own(x, values, index):
        return x.scatter_reduce(0, index, values, "amax").exp()

    compare(own, x, values, index, device=LLVM, left=["scatter_reduce.two"])
    # Nor are products of rows, nor what leaves columns out.
    products = lambda x, v, i: x.scatter_reduce(0, spread(i, v), v, "prod").exp()  # noqa: E731
    compare(products, x, values, index[:, 0], device=LLVM, left=["scatter_reduce.two"])
    some = lambda x, v, i: x.scatter_add(0, spread(i, v)[:, :3], v[:, :3]).exp()  # noqa: E731
    compare(some, x, values, index[:, 0], device=LLVM, left=["scatter_add"])


@pytest.mark.slow
def test_numbers_of_edges_that_change():
    """One graph for all of them; a table of a size that changes is PyTorch's."""
    compiler = GraphCompiler(Settings(device=EXECUTOR, target="sm_90", smallest_part=1))

    def added(x, values, index):
        return x.scatter_add(0, spread(index, values), values).tanh()

    compiled, x = torch.compile(added, backend=compiler), torch.randn(20, 6)
    for count in (30, 77, 5):
        values, index = torch.randn(count, 6), torch.randint(0, 20, (count,))
        torch._dynamo.mark_dynamic(values, 0)
        torch._dynamo.mark_dynamic(index, 0)
        torch.testing.assert_close(compiled(x, values, index), added(x, values, index))
    assert not compiler.log.report().left
