"""Products with odd rows: their operands padded where that pays, the same results."""

import pytest

torch = pytest.importorskip("torch")

from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.rewrites.aligned import products as aligned_products  # noqa: E402
from tvm_stitch.dynamo.rewrites.aligned.products import with_aligned_products  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402
from tvm_stitch.frontend.torch.decompositions import decompositions  # noqa: E402

aten = torch.ops.aten
ODD, EVEN, TOKENS = 1237, 1240, 24


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


@pytest.fixture
def small(monkeypatch):
    """Copies cost nothing."""
    monkeypatch.setattr(aligned_products, "_GAIN", 0.0)


def halves(*shape, dtype=torch.bfloat16):
    return torch.randint(-3, 4, shape).to(dtype)


def traced(function, *inputs):
    return make_fx(function, decompositions(), tracing_mode="fake")(*inputs)


def padded(function, *inputs, tf32=False):
    """The shapes of products and of what is padded for them; the results stay, to the bit."""
    graph = traced(function, *inputs)
    with_aligned_products(graph.graph, tf32)
    graph.graph.lint()
    graph.recompile()
    results, wanted = graph(*inputs), function(*inputs)
    torch.testing.assert_close(results, wanted, rtol=0, atol=0, check_stride=True)
    return shapes_of(graph, aten.mm, aten.addmm), shapes_of(graph, aten.constant_pad_nd)


def shapes_of(graph, *operators):
    calls = graph.graph.nodes
    found = [node for node in calls if getattr(node.target, "overloadpacket", None) in operators]
    return [tuple(node.meta["val"].shape) for node in found]


def of_gradient(gradient, weight, x):
    """What a backward pass does with the gradient of logits."""
    return gradient @ weight, gradient.t() @ x


def test_both_products_read_one_copy_by_rows_or_two(small):
    given = halves(TOKENS, ODD), halves(ODD, 16), halves(TOKENS, 32)
    products, copies = padded(of_gradient, *given)
    assert products == [(TOKENS, 16), (EVEN, 32)]
    assert sorted(copies) == [(TOKENS, EVEN), (EVEN, 16)]


def test_sums_with_a_bias_and_with_rows_of_their_own(small):
    given = halves(32), halves(ODD, 32), halves(TOKENS, ODD), halves(TOKENS, 32)
    products, copies = padded(
        lambda bias, rows, gradient, x: (
            torch.addmm(bias, gradient.t(), x, alpha=2),
            torch.addmm(rows, gradient.t(), x, beta=0.5),
        ),
        *given,
    )
    assert products == [(EVEN, 32)] * 2
    assert sorted(copies) == [(TOKENS, EVEN), (EVEN, 32)]


def test_an_odd_depth_of_transposed_weights(small):
    products, copies = padded(lambda x, w: x @ w.t(), halves(TOKENS, ODD), halves(32, ODD))
    assert products == [(TOKENS, 32)]
    assert sorted(copies) == [(TOKENS, EVEN), (32, EVEN)]


def test_an_input_that_lies_transposed(small):
    products, copies = padded(lambda x, y: x @ y, halves(TOKENS, ODD).t(), halves(TOKENS, 32))
    assert products == [(EVEN, 32)]
    assert copies == [(TOKENS, EVEN)]


@pytest.mark.parametrize(
    "left, right",
    [
        pytest.param(halves(TOKENS, EVEN), halves(EVEN, 32), id="aligned"),
        pytest.param(halves(TOKENS, 32), halves(32, ODD), id="an odd result"),
        pytest.param(halves(32, 7).t(), halves(32, 7), id="an odd result of a gradient"),
        pytest.param(halves(197, 32).t(), halves(197, 32), id="an odd depth that is no row"),
        pytest.param(halves(ODD, 32), halves(32, 32), id="an odd number of rows"),
        pytest.param(torch.ones(TOKENS, ODD), torch.ones(ODD, 32), id="float32"),
        pytest.param(halves(TOKENS, 2 * ODD)[:, ::2], halves(ODD, 32), id="gaps"),
        pytest.param(halves(TOKENS, 1), halves(1, 32), id="an outer product"),
    ],
)
def test_others_stay(small, left, right):
    products, copies = padded(torch.mm, left, right)
    assert products == [(left.shape[0], right.shape[1])]
    assert not copies


WIDE = 1240  # ODD as a multiple of four


@pytest.mark.parametrize("tf32", [False, True])
def test_logits_of_float32_are_padded_where_they_may_be_rounded(small, tf32):
    """A bias, one of rows of its own, one number and an odd depth beside odd results."""
    given = [(TOKENS, 15), (ODD, 15), (ODD,), (TOKENS, ODD), (TOKENS, 1)]
    given = [halves(*shape, dtype=torch.float32) for shape in given]
    products, copies = padded(
        lambda x, w, bias, rows, one: (
            x @ w.t(), torch.addmm(bias, x, w.t()), torch.addmm(rows, x, w.t(), beta=0.5),
            torch.addmm(one, x, w.t()),
        ),
        *given, tf32=tf32,
    )  # fmt: skip
    assert products == [(TOKENS, WIDE if tf32 else ODD)] * 4
    expected = [(WIDE,), (TOKENS, 16), (TOKENS, WIDE), (WIDE, 16)]
    assert sorted(copies) == (sorted(expected) if tf32 else [])


def test_gradients_of_logits_of_float32(small):
    given = [(TOKENS, ODD), (ODD, 16), (TOKENS, 32)]
    given = [halves(*shape, dtype=torch.float32) for shape in given]
    products, copies = padded(of_gradient, *given, tf32=True)
    assert products == [(TOKENS, 16), (WIDE, 32)]
    assert sorted(copies) == [(TOKENS, WIDE), (WIDE, 16)]


def test_small_products_stay():
    _products, copies = padded(torch.mm, halves(TOKENS, ODD), halves(ODD, 32))
    assert not copies


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("size", [50257, 30522])
def test_gradients_of_vocabularies_are_worth_it(size, dtype):
    def shapes(*sizes):
        return torch.empty(sizes, dtype=dtype, device="meta")

    given = shapes(1024, size), shapes(size, 768), shapes(1024, 768)
    graph = traced(of_gradient, *given)
    with_aligned_products(graph.graph, tf32=True)
    assert len(shapes_of(graph, aten.constant_pad_nd)) == 2


def test_logits_are_worth_it():
    given = torch.empty(1024, 768, device="meta"), torch.empty(30522, 768, device="meta")
    graph = traced(lambda x, w: x @ w.t(), *given)
    with_aligned_products(graph.graph, tf32=True)
    assert shapes_of(graph, aten.mm) == [(1024, 30524)]


@pytest.mark.parametrize("device", [EXECUTOR, LLVM])
def test_a_head_is_trained(small, device):
    """Both gradients, through the backend: of hidden states, and of a weight used twice."""

    class Head(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(ODD, 16, dtype=torch.bfloat16) / 4)

        def forward(self, tokens, x):
            return torch.nn.functional.linear(x + self.weight[tokens], self.weight)

    head = Head()
    tokens, x = torch.arange(TOKENS), torch.randn(TOKENS, 16).bfloat16().requires_grad_()
    gradient = torch.randn(TOKENS, ODD).bfloat16()
    found = {}
    compiler = GraphCompiler(Settings(device=device, target="sm_90"))
    for name in ("eager", "ours", "exact"):
        tensors = [head.weight.detach().clone(), x.detach().clone(), gradient]
        wide = [each.double() if name == "exact" else each for each in tensors]
        model, (weight, given, outer) = Head(), wide
        model.weight = torch.nn.Parameter(weight)
        run = torch.compile(model, backend=compiler) if name == "ours" else model
        given.requires_grad_()
        run(tokens, given).backward(outer)
        found[name] = [model.weight.grad.double(), given.grad.double()]
    for ours, eager, exact in zip(found["ours"], found["eager"], found["exact"], strict=True):
        assert (ours - exact).norm() <= 1.2 * (eager - exact).norm()
    report = compiler.log.report()
    assert not [part.failure for part in report.parts if part.failure]
    operators = [name for part in report.parts for name in part.operators]
    assert ("constant_pad_nd" in operators) == (device == EXECUTOR)
