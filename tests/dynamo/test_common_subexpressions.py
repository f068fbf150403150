"""Equal calls are made once, but for those that give something else every time."""

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

from tvm_stitch.dynamo.backend import GraphCompiler  # noqa: E402
from tvm_stitch.dynamo.settings import LLVM, Settings  # noqa: E402


def compiled(function, *inputs):
    """The results without gradients, and what parts there were."""
    torch._dynamo.reset()
    ours = GraphCompiler(Settings(device=LLVM, smallest_part=1))
    with torch.no_grad():
        results = torch.compile(function, backend=ours)(*inputs)
    return results, [name for part in ours.log.report().parts for name in part.operators]


def masked_twice(x, mask):
    for _layer in range(2):
        x = torch.sort(x + torch.where(mask, 0.0, -9.0), -1).values
    return x


def test_layers_share_what_they_compute_alike():
    inputs = torch.randn(3, 4), torch.rand(3, 4) > 0.5
    results, operators = compiled(masked_twice, *inputs)
    torch.testing.assert_close(results, masked_twice(*inputs))
    assert operators.count("where.self") == 1


def test_results_do_not_become_one_tensor():
    (a, b), _operators = compiled(lambda x: (x.exp() + 1, x.exp() + 1), torch.randn(3))
    assert a.data_ptr() != b.data_ptr()


def test_random_numbers_differ():
    (a, b), _operators = compiled(
        lambda x: (torch.zeros_like(x).exponential_() + x, torch.zeros_like(x).exponential_() + x),
        torch.randn(64),
    )
    assert not torch.equal(a, b)


def test_inputs_that_change_in_between():
    def changed(x):
        before = x.exp() * 2
        x += 1
        return before, x.exp() * 2

    (before, after), _operators = compiled(changed, torch.zeros(3))
    torch.testing.assert_close(before, torch.full((3,), 2.0))
    torch.testing.assert_close(after, torch.full((3,), 2 * torch.e))


def test_numbers_that_are_equal_but_not_the_same():
    def alike(x):
        return 1 / torch.where(x > 0, 0.0, x), 1 / torch.where(x > 0, -0.0, x)

    (plus, minus), _operators = compiled(alike, torch.ones(3))
    assert plus.sum() == torch.inf
    assert minus.sum() == -torch.inf


@pytest.mark.slow
def test_inductor_is_not_imported():
    # It takes a second of every process.
    program = (
        "import sys, torch; from tvm_stitch.dynamo.backend import GraphCompiler\n"
        "from tvm_stitch.dynamo.settings import LLVM, Settings\n"
        "ours = GraphCompiler(Settings(device=LLVM))\n"
        "with torch.no_grad():\n"
        "    torch.compile(lambda x: x.exp() + x.exp(), backend=ours)(torch.ones(3))\n"
        "sys.exit('torch._inductor.lowering' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)
