"""Maxima and minima are one reduction each, and what is not a number is seen by all its schemes."""

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, Settings  # noqa: E402


def compiled(function, x):
    """The results on the executor, and the kernels that there were."""
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=EXECUTOR, target="sm_90", smallest_part=1))
    with torch.no_grad():
        found = torch.compile(function, backend=ours)(x)
    (part,) = ours.log.report().parts
    assert part.stitched and not part.failure
    return found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((5, 1), 1), ((3, 31), 1), ((2, 1027), 1), ((33, 7), 0), ((1000, 64), 0), ((3, 33, 7), 1),
     ((1, 9000), 1), ((7, 333), (0, 1)), ((1, 70000), 1), ((5000, 96), 0)],
)  # fmt: skip
def test_what_is_not_a_number_wins(shape, axis, dtype):
    def extremes(x):
        return x.amax(axis), x.amin(axis, keepdim=True), (x - x.amax(axis, keepdim=True)).exp()

    x = torch.randn(shape).to(dtype)
    x.view(-1)[x.numel() // 2] = float("nan")
    x[0] = -float("inf")
    for found, expected in zip(compiled(extremes, x), extremes(x), strict=True):
        torch.testing.assert_close(found, expected, equal_nan=True, rtol=1.6e-2, atol=1e-5)


def test_largest_values_by_row_are_one_reduction():
    from tvm_stitch.torch import explain

    def scale(x):
        return x.abs().amax(-1, keepdim=True) / 127.0

    report = explain(scale, torch.randn(64, 1000), target="sm_90")
    (part,) = report.parts
    (kernel,) = part.kernels.kernels
    assert [stage.operator for stage in kernel.stages if stage.scheme] == ["amax"]
