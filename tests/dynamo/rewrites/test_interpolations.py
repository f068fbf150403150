"""Averages of optimizers: interpolated by the weight that the user gave, rounded once."""

import pytest

torch = pytest.importorskip("torch")

from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.fx.experimental.proxy_tensor import make_fx  # noqa: E402

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.rewrites.interpolations import with_interpolations  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, LLVM, Settings  # noqa: E402

SHAPES = [(31, 5), (257,), (31, 5)]


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    torch.manual_seed(0)


def averaged(weight, dtype, device=LLVM):
    """Averages by us, eagerly and in float64, after they moved towards new values."""
    start, end = ([torch.randn(shape).to(dtype) for shape in SHAPES] for _ in range(2))

    def update(averages, values):
        torch._foreach_lerp_(averages, values, weight)

    def moved(function, dtype=dtype):
        averages = [each.to(dtype, copy=True) for each in start]
        function(averages, [each.to(dtype) for each in end])
        return torch.cat([each.flatten().double() for each in averages])

    compiler = GraphCompiler(Settings(device=device, target="sm_90", smallest_part=1))
    ours = moved(torch.compile(update, backend=compiler))
    report = compiler.log.report()
    assert not [part.failure for part in report.parts if part.failure]
    operators = [name for part in report.parts for name in part.operators]
    return operators, ours, moved(update), moved(update, torch.float64)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("weight", [1 - 0.9, -0.3, 0.0])
def test_what_dynamo_wrote_out_is_one_operator(weight, dtype):
    operators, ours, eager, exact = averaged(weight, dtype)
    assert operators == ["lerp.Scalar"] * len(SHAPES)
    assert (ours - exact).norm() <= 1.2 * (eager - exact).norm() + 1e-7


def test_the_kernel_rounds_once():
    _operators, ours, eager, _exact = averaged(1 - 0.9, torch.bfloat16, EXECUTOR)
    torch.testing.assert_close(ours, eager, rtol=0, atol=0)


@pytest.mark.parametrize("weight", [0.5, 0.9, 1.0])
def test_weights_from_the_other_end_stay_as_they_are(weight):
    operators, ours, _eager, exact = averaged(weight, torch.float32)
    assert "lerp.Scalar" not in operators
    torch.testing.assert_close(ours, exact, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(
    "function",
    [
        lambda x, y: torch.addcmul(x, torch.full_like(y, 0.1), y - x, value=2),
        lambda x, y: torch.addcmul(x, torch.full_like(y, 0.1), torch.sub(y, x, alpha=2)),
        lambda x, y: torch.addcmul(y, torch.full_like(y, 0.1), y - x),
        lambda x, y: torch.addcmul(x, torch.full_like(y, 0.1), x - y),
        lambda x, y: torch.addcmul(x, torch.full_like(y, 0.1), y - x[:1]),
        lambda x, y: torch.addcmul(x, y, y - x),
    ],
)
def test_other_sums_stay(function):
    x, y = torch.randn(7, 5), torch.randn(7, 5)
    compiler = GraphCompiler(Settings(device=LLVM))
    result = torch.compile(function, backend=compiler)(x, y)
    torch.testing.assert_close(result, function(x, y))
    (part,) = compiler.log.report().parts
    assert "lerp.Scalar" not in part.operators


def test_a_difference_that_others_read_stays():
    def function(x, y):
        difference = y - x
        return torch.addcmul(x, torch.full_like(y, 0.1), difference), difference * 2

    x, y = torch.randn(7, 5), torch.randn(7, 5)
    compiler = GraphCompiler(Settings(device=LLVM))
    result = torch.compile(function, backend=compiler)(x, y)
    torch.testing.assert_close(result, function(x, y))
    (part,) = compiler.log.report().parts
    assert {"lerp.Scalar", "sub.Tensor"} <= set(part.operators)


WEIGHT = 0.1


def summed(start, end):
    return start + (end - start) * WEIGHT


def summed_of_scalars(start, end):
    return torch.add(start, torch.ops.aten.mul.Scalar(end - start, WEIGHT))


def filled(start, end):
    difference = end - start
    return torch.addcmul(start, torch.full_like(difference, WEIGHT), difference)


def of_a_list(start, end):
    """With the arguments' defaults, as calls of lists are when they come apart."""
    difference = torch.ops.aten.sub.Tensor(end, start, alpha=1)
    full = torch.full_like(difference, WEIGHT)
    return torch.ops.aten.addcmul(start, full, difference, value=1)


def read_twice(start, end):
    difference = end - start
    return start + difference * WEIGHT, difference


def by_a_tensor(start, end):
    return start + (end - start) * end


def another_start(start, end):
    return end + (end - start) * WEIGHT


def scaled(start, end):
    return torch.add(start, (end - start) * WEIGHT, alpha=2)


def graph_of(function, dtype=torch.bfloat16):
    with FakeTensorMode() as mode:
        values = [mode.from_tensor(torch.empty(3, 5, dtype=dtype)) for _ in range(2)]
        graph = make_fx(function)(*values)
    with_interpolations(graph.graph)
    graph.graph.lint()
    graph.recompile()
    return graph


def targets(graph):
    return [node.target for node in graph.graph.nodes if node.op == "call_function"]


@pytest.mark.parametrize("function", [summed, summed_of_scalars, filled, of_a_list])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_step_is_one_operator(function, dtype):
    graph = graph_of(function, dtype)
    assert targets(graph) == [torch.ops.aten.lerp.Scalar]
    start, end = (torch.randn(3, 5).to(dtype) for _ in range(2))
    assert torch.equal(graph(start, end), torch.lerp(start, end, WEIGHT))


@pytest.mark.parametrize("function", [read_twice, by_a_tensor, another_start, scaled])
def test_what_is_no_step_stays(function):
    assert torch.ops.aten.lerp.Scalar not in targets(graph_of(function))


def test_float32_is_exact_enough_as_it_is():
    assert torch.ops.aten.lerp.Scalar not in targets(graph_of(summed, torch.float32))
