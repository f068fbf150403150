"""Reads and writes by indices: PyTorch's results, and an error where an index is out of bounds."""

import pytest

torch = pytest.importorskip("torch")

from torch_kernels import check_kernels  # noqa: E402
from torch_programs import check, traced  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402
from tvm_stitch.errors import TorchError  # noqa: E402
from tvm_stitch.frontend.torch import convert  # noqa: E402

functional = torch.nn.functional
X = torch.arange(60.0).view(3, 4, 5) - 20
ROWS = torch.tensor([[2, 0], [1, 1]])
ENDS = torch.tensor([-1, 0, -3])


def test_elements_are_read():
    def read(x, rows, ends):
        along = torch.gather(x, 1, rows[:, :, None].expand(2, 2, 5))
        chosen = torch.index_select(x, -1, rows[0]), torch.index_select(x, 0, ends + 3)
        return along, *chosen, functional.embedding(rows, x[0])

    check(read, X, ROWS, ENDS.clamp(-3, -1))


def test_positions_among_others():
    def read(x, rows, ends):
        return x[ends], x[:, rows], x[ends, :, ends], x[:, ends, ends], x[rows.int(), ends[:2]]

    check(read, X, ROWS, ENDS)


@pytest.mark.slow
def test_elements_are_written():
    def written(x, rows, ends):
        index = rows[:, :, None].expand(2, 2, 5)
        source = x[:2, :2] * 10
        return (
            x.scatter(1, index, source), x.scatter(1, index[:, :1], 7.0),
            x.scatter_add(1, index, source), x.index_put((ends,), x[:1] * 2),
            x.index_put((rows, rows), x[0, :2, None] + 1, accumulate=True),
            x.index_add(1, rows[1], x[:, :2]), x.index_copy(2, rows[0], x[:, :, :2]),
        )  # fmt: skip

    check(written, X, ROWS, ENDS)


def overwritten(table, values, order, columns, elements):
    put = torch.ops.aten.index_put
    return (
        put(table, [order], values),
        put(table, [None, columns], values[0, 0]),
        put(table, [order, columns[: order.shape[0]]], elements),
        table.index_copy(0, order % 40, values) * 2,
        table.scatter(0, order[:, None].expand_as(values) % 40, values),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64])
def test_the_last_of_many_writes_stays(dtype):
    """More of them than are asked of each element; some name a row from its end."""
    torch.manual_seed(0)
    order, columns = torch.randperm(40)[:31], torch.randperm(33)
    order = torch.where(order % 3 == 0, order - 40, order)
    table, values = torch.randn(40, 33) * 9, torch.randn(31, 33) * 9
    given = table.to(dtype), values.to(dtype), order, columns, values[:, 0].to(dtype)
    check(overwritten, *given)
    check_kernels(overwritten, *given)


def rows_added(table, gradients, tokens, *pairs):
    places = (tokens.view(-1),)
    return (
        table.index_put(places, gradients.flatten(0, 1), accumulate=True),
        table.view(3, 3, -1).index_put(pairs, gradients[0, :1] * 2, accumulate=True),
        torch.ops.aten.embedding_dense_backward(gradients, tokens % 9, 9, -1, False),
        torch.ops.aten.embedding_dense_backward(gradients, tokens % 9, 9, 4, False),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("columns", [1, 7, 33])
def test_rows_are_added_where_indices_say(dtype, columns):
    """More of them than an element can be compared with; some name a row from its end."""
    torch.manual_seed(0)
    table, gradients = torch.randn(9, columns), torch.randn(3, 8, columns)
    tokens = torch.randint(-9, 9, (3, 8))
    pairs = torch.randint(-3, 3, (24,)), torch.randint(0, 3, (24,))
    given = table.to(dtype), gradients.to(dtype), tokens, *pairs
    check(rows_added, *given)
    check_kernels(rows_added, *given)


def added_behind(x, by_rows, by_elements, by_pairs, index, other):
    put = torch.ops.aten.index_put
    return (
        put(x, [None, index], by_rows, True),
        put(x, [None, None, index % x.shape[2]], by_elements, True),
        put(x, [None, index, other[..., None]], by_pairs, True),
        put(x[0, :, :1], [index], by_rows[1, :, :1], True),
    )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("columns", [1, 7, 33])
@pytest.mark.parametrize("rows", [1, 31])
def test_rows_behind_other_dimensions_are_added(dtype, columns, rows):
    """Gradients of `x[:, index]`, `x[..., index]` and `x[:, index, other]`: rows of the dimensions
    in front as well, or of these where there are no others."""
    torch.manual_seed(0)
    x = torch.randn(3, rows, columns)
    updates = torch.randn(3, 40, columns), torch.randn(3, rows, 40), torch.randn(3, 5, 2, 40)
    places = torch.randint(-rows, rows, (40,)), torch.randint(0, columns, (5, 2))
    given = *(each.to(dtype) for each in (x, *updates)), *places
    check(added_behind, *given)
    check_kernels(added_behind, *given)


def test_rows_without_a_kernel_are_left():
    def gradient(scaled, rows):
        given = torch.randn(24, 4), torch.randint(0, 9, (24,))
        backward = torch.ops.aten.embedding_dense_backward
        return traced(lambda g, i: backward(g, i, rows, -1, scaled), *given)

    for scaled, rows, why in ((True, 9, "scaled"), (False, 1 << 21, "without a kernel")):
        with pytest.raises(TorchError, match=why):
            convert(gradient(scaled, rows).graph)
    # Rows of so many are named by both numbers, not by the first.
    table, at = torch.zeros(2000, 2000, 4), torch.randint(0, 2000, (24,))
    put = traced(lambda t, i, v: t.index_put((i, i), v, True), table, at, torch.ones(24, 4))
    with pytest.raises(TorchError, match="more than 16 writes"):
        convert(put.graph)


def test_a_slice_is_put_in_its_place():
    """As gradients of recurrent steps are; PyTorch's traces write it out unless told not to."""

    def placed(x, part):
        return torch.select_scatter(x, part, 1, -2), torch.select_scatter(x, part.half(), 1, 0)

    graph = traced(placed, X, X[:, 0]).graph
    assert graph.find_nodes(op="call_function", target=torch.ops.aten.select_scatter.default)
    check(placed, X, X[:, 0] * 3)
    check_kernels(placed, X, X[:, 0] * 3)


@pytest.mark.spread(2)
@pytest.mark.parametrize("reduce", ["sum", "mean", "prod", "amax", "amin"])
@pytest.mark.parametrize("include_self", [True, False])
def test_what_is_written_together_is_reduced(reduce, include_self):
    def reduced(x, i, index):
        return (
            x.scatter_reduce(0, index, x + 1, reduce, include_self=include_self),
            i.scatter_reduce(0, index, i + 1, reduce, include_self=include_self),
        )

    x = torch.tensor([0.5, float("nan"), 2.0, -3.0, float("inf")])
    check(reduced, x, torch.tensor([5, 7, -2, 9, 4]), torch.tensor([0, 1, 3, 3, 0]))


def test_halves_are_summed_in_float32():
    x = torch.zeros(4, dtype=torch.float16)
    index = torch.zeros(12, dtype=torch.int64)
    check(lambda x, i, s: x.scatter_add(0, i, s), x, index, torch.full((12,), 1 / 3).half())


def test_kernels_read_and_write_by_indices():
    def loss(table, tokens, labels):
        x = functional.embedding(tokens, table).log_softmax(-1)
        return x.gather(-1, labels[:, None]), torch.zeros_like(x).scatter(-1, labels[:, None], -1.0)

    torch.manual_seed(0)
    check_kernels(loss, torch.randn(9, 16), torch.tensor([0, 8, 3]), torch.tensor([15, 0, 7]))


def by_index(x, index):
    return x.index_select(0, index).exp() * 2


@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
@pytest.mark.parametrize("wrong", [-1, 3])
def test_out_of_bounds(device, wrong):
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=device, target="sm_90", smallest_part=1))
    run = torch.compile(by_index, backend=ours)
    index = torch.tensor([0, 2])
    torch.testing.assert_close(run(X, index), by_index(X, index))
    with pytest.raises(IndexError, match="out of bounds"):
        run(X, torch.tensor([0, wrong]))
    torch.testing.assert_close(run(X, index), by_index(X, index))
    assert not ours.log.report().left


def test_many_writes_are_pytorchs():
    graph = traced(lambda x, i: x.scatter_add(0, i, x), torch.ones(40), torch.arange(40))
    with pytest.raises(TorchError, match="writes to choose from"):
        convert(graph.graph)


@pytest.mark.parametrize("device", [LLVM, EXECUTOR])
@pytest.mark.parametrize("changing", ["indices", "batch"])
def test_gradients_at_indices_of_sizes_that_change(changing, device):
    """Of so many indices as only running tells a kernel of ours adds; of such tables, PyTorch."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    ours = GraphCompiler(Settings(device=device, target="sm_90", smallest_part=1))
    run = torch.compile(lambda x, index: x[:, index].exp() * 2, backend=ours)
    for size in (20, 33, 1000):
        x = torch.randn(3 if changing == "indices" else size, 7, 5)
        index = torch.randint(-7, 7, (size if changing == "indices" else 40,))
        torch._dynamo.mark_dynamic(index if changing == "indices" else x, 0)
        given = x.clone().requires_grad_(), x.double().requires_grad_()
        run(given[0], index).sum().backward()
        (given[1][:, index].exp() * 2).sum().backward()
        torch.testing.assert_close(given[0].grad.double(), given[1].grad, rtol=1e-5, atol=1e-5)
    report = ours.log.report()
    assert {each.operator for each in report.left} == (
        set() if changing == "indices" else {"index_put"}
    )
    assert not [part.failure for part in report.parts if part.failure]


@pytest.mark.parametrize("count", [0, 1, 2, 5, 16, 17, 100])
def test_places_among_sorted_integers(count):
    def places(among, x):
        search = torch.searchsorted
        return search(among, x), search(among, x, right=True), search(among, x, out_int32=True)

    torch.manual_seed(0)
    check(places, torch.randint(0, 50, (count,)).sort().values, torch.randint(-2, 53, (7, 9)))
