"""Averages of optimizers: interpolated by the weight that the user gave, rounded once."""

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
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
