"""Sorts of short rows, the largest few and histograms, by comparisons that are counted."""

import pytest

torch = pytest.importorskip("torch")

from torch_kernels import check_kernels  # noqa: E402
from torch_programs import check, run, traced  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, Settings  # noqa: E402
from tvm_stitch.errors import TorchError  # noqa: E402
from tvm_stitch.frontend.torch import convert  # noqa: E402

INF, NAN = float("inf"), float("nan")


@pytest.mark.parametrize("columns", [1, 2, 7, 31, 33, 64])
@pytest.mark.parametrize("descending", [False, True])
def test_rows_are_sorted(columns, descending):
    torch.manual_seed(columns)
    x = torch.randn(3, columns)
    check(lambda x: torch.sort(x, -1, descending), x)
    check_kernels(lambda x: torch.sort(x, -1, descending), x)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.uint8])
def test_elements_that_are_equal_keep_their_order(dtype):
    torch.manual_seed(0)
    x = torch.randint(0, 5, (4, 40)).to(dtype)

    def functions(x):
        return (
            *torch.sort(x, dim=1, stable=True),
            *torch.sort(x, dim=1, descending=True, stable=True),
            *torch.sort(x, dim=0, stable=True),
            torch.argsort(x > 2, dim=1, stable=True),
        )

    check(functions, x)


def test_what_is_not_a_number_is_larger_than_all_else():
    x = torch.tensor([[NAN, 1.0, -INF, INF, -0.0, NAN, 0.0, -1.0]])

    def functions(x):
        return (
            *torch.sort(x, stable=True),
            *torch.sort(x, descending=True, stable=True),
            torch.topk(x, 3).values,
            torch.topk(x, 5, largest=False).values,
        )

    check(functions, x)


@pytest.mark.parametrize(("shape", "dim"), [((5, 8), -1), ((5, 8), 0), ((2, 60, 3), 1)])
def test_the_largest_and_the_smallest_few(shape, dim):
    torch.manual_seed(0)
    x = torch.randn(shape)

    def functions(x):
        return (
            *torch.topk(x, 2, dim),
            *torch.topk(x, 3, dim, largest=False),
            *torch.topk(x, 1, dim),
        )

    check(functions, x)


@pytest.mark.parametrize("columns", [6, 20])
def test_rows_with_fewer_numbers_than_are_asked_for(columns):
    """A router that leaves out groups of experts: places are those of elements, each once."""
    x = torch.full((3, columns), -INF)
    x[0, 4], x[1, 1], x[1, 5], x[2, 3] = 1.0, 2.0, 3.0, NAN
    check(lambda x: torch.topk(x, 4).values, x)
    (places,) = run(convert(traced(lambda x: torch.topk(x, 4).indices, x).graph), (x,))
    assert places.tolist() == torch.sort(x, descending=True, stable=True).indices[:, :4].tolist()


@pytest.mark.spread(2)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int64])
@pytest.mark.parametrize(("rows", "columns", "count"), [(1, 7, 1), (5, 33, 8), (3, 1027, 4)])
def test_the_largest_few_one_by_one(dtype, rows, columns, count):
    """With the softmax before them and the share of each behind: what a router does."""
    torch.manual_seed(0)
    x = torch.stack([torch.randperm(columns) for _ in range(rows)]) - columns // 2

    def routed(x):
        best = torch.topk(x, count)
        return best.values, best.indices, torch.topk(x.t(), 1, 0).indices

    x = x.clamp(max=255).to(dtype) if dtype in (torch.float16, torch.bfloat16) else x.to(dtype)
    if columns < 256 or dtype in (torch.float32, torch.int64):  # no two are equal
        check(routed, x)
        check_kernels(routed, x)
    check_kernels(lambda x: torch.topk(x.float().softmax(-1), count).values, x)


def test_scalars_and_integers_that_are_large():
    check(
        lambda x, n: (*torch.sort(x), *torch.sort(n)),
        torch.tensor(2.0),
        torch.tensor([2**62, 3, -(2**62)]),
    )


@pytest.mark.slow
def test_a_router_of_experts():
    """Weights of the best two, their experts, and the order of tokens by expert."""
    torch.manual_seed(0)

    def functions(logits):
        weights, experts = torch.topk(logits.softmax(-1), 2)
        by_expert, order = torch.sort(experts.reshape(-1), stable=True)
        counts = torch.histc(by_expert.float(), bins=8, min=0, max=7)
        back = torch.zeros_like(order)
        back[order] = torch.arange(order.shape[0])
        return weights / weights.sum(-1, keepdim=True), by_expert, counts.cumsum(0), back

    logits = torch.randn(19, 8)
    check(functions, logits)
    check_kernels(functions, logits)


def test_numbers_of_rows_that_change():
    """One graph for all of them; only where rows are short, as nobody knows how many there are."""
    compiler = GraphCompiler(Settings(device=EXECUTOR, target="sm_90", smallest_part=1))

    def routed(logits):
        weights, experts = torch.topk(logits, 2)
        return weights.exp(), experts

    compiled = torch.compile(routed, backend=compiler)
    for count in (30, 77, 5):
        logits = torch.randn(count, 8)
        torch._dynamo.mark_dynamic(logits, 0)
        torch.testing.assert_close(compiled(logits), routed(logits))
    report = compiler.log.report()
    assert not report.left and len({part.graph for part in report.parts}) == 1
    torch._dynamo.reset()
    logits = torch.randn(30, 200)
    torch._dynamo.mark_dynamic(logits, 0)
    torch.testing.assert_close(torch.compile(routed, backend=compiler)(logits), routed(logits))
    assert not compiler.log.report().left
    many = torch.compile(lambda logits: torch.topk(logits, 100).values.exp(), backend=compiler)
    torch.testing.assert_close(many(logits), torch.topk(logits, 100).values.exp())
    assert {each.operator for each in compiler.log.report().left} == {"topk"}


@pytest.mark.parametrize(
    ("bins", "least", "most"), [(8, 0, 7), (7, 0, 7), (5, -1, 2), (3, 0.1, 0.7)]
)
def test_histograms(bins, least, most):
    torch.manual_seed(0)
    whole = torch.randint(-2, 9, (50,)).float()
    parts = torch.cat([torch.randn(300), torch.tensor([NAN, INF, -INF, least, most])])
    check(lambda *of: tuple(torch.histc(x, bins, least, most) for x in of), whole, parts)


def test_long_rows_are_left_to_pytorch():
    for function in (torch.sort, lambda x: torch.topk(x, 50)):
        with pytest.raises(TorchError, match="too many to compare"):
            convert(traced(function, torch.randn(40, 2000)).graph)
    with pytest.raises(TorchError, match="depends on indices"):
        convert(traced(lambda x: torch.histc(x, 5000, 0, 1), torch.randn(40, 2000)).graph)
    with pytest.raises(TorchError, match="that of its values"):
        convert(traced(lambda x: torch.histc(x, 10), torch.randn(40)).graph)
