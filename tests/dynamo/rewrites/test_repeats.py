"""Gradients of enlarged images are sums in parts, not rows added in no order."""

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import EXECUTOR, Settings  # noqa: E402

functional = torch.nn.functional


def left(enlarged, shape, dtype):
    """The operators that are PyTorch's in a step whose gradient is right."""
    torch._dynamo.reset()
    torch.manual_seed(0)
    ours = GraphCompiler(Settings(device=EXECUTOR, target="sm_90"))
    given = torch.randn(shape, dtype=torch.float64)
    gradients = []
    ways = [(torch.float64, enlarged), (dtype, enlarged)]
    for of, function in (*ways, (dtype, torch.compile(enlarged, backend=ours))):
        x = given.to(dtype).to(of).requires_grad_()
        (function(x * 2).relu() * 3).square().sum().backward()
        gradients.append(x.grad.double())
    exact, eager, found = gradients
    assert (found - exact).norm() <= 1.5 * (eager - exact).norm() + 1e-6 * exact.norm()
    return {each.operator for each in ours.log.report().left}


@pytest.mark.parametrize(
    ("how", "shape", "dtype"),
    [
        ({"scale_factor": 2}, (2, 3, 5, 7), "float32"),
        ({"scale_factor": (3, 1)}, (1, 2, 5, 3), "bfloat16"),
        ({"scale_factor": 4}, (2, 3, 33), "float16"),
        ({"size": (4, 6, 4)}, (1, 2, 2, 3, 4), "float32"),
    ],
)
def test_whole_factors_are_summed(how, shape, dtype):
    def enlarged(x):
        return functional.interpolate(x, **how)

    assert not left(enlarged, shape, getattr(torch, dtype))


def test_others_ask_which_updates_go_to_an_element():
    def uneven(x):
        return functional.interpolate(x, size=(41, 22))

    assert not left(uneven, (1, 2, 5, 7), torch.float32)
